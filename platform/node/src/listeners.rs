//! The ports of a replica, bound before anything else is started.

use quorate_config::{PortRole, ReplicaAddress};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use thiserror::Error;

/// A port that cannot be bound.
#[derive(Debug, Error)]
#[error("port {port} ({role} of replica {replica}) cannot be used on {host}: {source}")]
pub struct PortError {
    /// The replica.
    pub replica: u32,
    /// What the port serves.
    pub role: PortRole,
    /// The host as the file names it, or the address that is bound instead.
    pub host: String,
    /// The port.
    pub port: u16,
    /// What the operating system says.
    pub source: io::Error,
}

/// The bound ports of a replica.
#[derive(Debug)]
pub struct Listeners {
    /// For peers and native clients.
    pub peer: TcpListener,
    /// For status, on loopback only.
    pub http: TcpListener,
}

impl Listeners {
    /// Binds the ports of a replica: peers and clients on its host, HTTP on its host if that is a loopback address and on 127.0.0.1
    /// otherwise. Blocks while the host's name is looked up.
    ///
    /// # Errors
    /// [`PortError`] with the port and what it was for.
    pub fn bind(address: &ReplicaAddress) -> Result<Listeners, PortError> {
        let failed = |role, host: &str, port| {
            let (replica, host) = (address.id.0, host.to_owned());
            move |source| PortError { replica, role, host, port, source }
        };
        let (host, port, http_port) = (address.host.as_str(), address.port, address.http_port);
        let peer = bind((host, port)).map_err(failed(PortRole::Peer, host, port))?;
        let loopback = loopback_of(host);
        let http = bind((loopback, http_port)).map_err(failed(PortRole::Http, &loopback.to_string(), http_port))?;
        Ok(Listeners { peer, http })
    }
}

fn bind(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The loopback address that `host` names, or the usual one.
fn loopback_of(host: &str) -> IpAddr {
    let addresses = (host, 0).to_socket_addrs().into_iter().flatten();
    addresses.map(|address: SocketAddr| address.ip()).find(IpAddr::is_loopback).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_framework::ReplicaId;

    fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    fn address(port: u16, http_port: u16) -> ReplicaAddress {
        ReplicaAddress { id: ReplicaId(3), host: "127.0.0.1".into(), port, http_port, resp_port: 1 }
    }

    #[test]
    fn a_busy_port_is_named_with_what_it_was_for() {
        let busy = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = busy.local_addr().unwrap().port();
        let error = Listeners::bind(&address(port, free_port())).unwrap_err().to_string();
        let start = format!("port {port} (peers and clients of replica 3) cannot be used on 127.0.0.1: ");
        assert!(error.starts_with(&start), "{error}");
        let error = Listeners::bind(&address(free_port(), port)).unwrap_err().to_string();
        assert!(error.starts_with(&format!("port {port} (HTTP of replica 3)")), "{error}");
    }

    #[test]
    fn http_listens_on_loopback_whatever_the_host_is() {
        assert_eq!(loopback_of("192.0.2.1"), IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert_eq!(loopback_of("127.0.0.5"), "127.0.0.5".parse::<IpAddr>().unwrap());
        assert_eq!(loopback_of("::1"), "::1".parse::<IpAddr>().unwrap());
    }
}
