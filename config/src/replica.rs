//! The address of a replica.

use crate::host::{canonical_host, host_and_port};
use quorate_framework::ReplicaId;
use std::fmt;

/// Where one replica is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaAddress {
    /// The replica's id, unique in the cluster and never 0.
    pub id: ReplicaId,
    /// Name or address of its host, without a port and without brackets.
    pub host: String,
    /// Port of peers and native clients.
    pub port: u16,
    /// Port of status and metrics.
    pub http_port: u16,
    /// Port of the RESP front door.
    pub resp_port: u16,
}

impl ReplicaAddress {
    /// `host:port` of peers and native clients.
    #[must_use]
    pub fn peer_address(&self) -> String {
        host_and_port(&self.host, self.port)
    }

    /// `host:port` of status and metrics.
    #[must_use]
    pub fn http_address(&self) -> String {
        host_and_port(&self.host, self.http_port)
    }

    /// `host:port` of the RESP front door.
    #[must_use]
    pub fn resp_address(&self) -> String {
        host_and_port(&self.host, self.resp_port)
    }

    /// The three listeners, as the key of their port and one spelling for each host and port.
    pub(crate) fn listeners(&self) -> [(PortRole, String); 3] {
        let host = canonical_host(&self.host);
        [
            (PortRole::Peer, host_and_port(&host, self.port)),
            (PortRole::Http, host_and_port(&host, self.http_port)),
            (PortRole::Resp, host_and_port(&host, self.resp_port)),
        ]
    }
}

/// What a port of a replica serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRole {
    /// Peers and native clients.
    Peer,
    /// Status and metrics.
    Http,
    /// The RESP front door.
    Resp,
}

impl PortRole {
    /// The key of the port in a replica.
    pub(crate) fn key(self) -> &'static str {
        match self {
            PortRole::Peer => "port",
            PortRole::Http => "http_port",
            PortRole::Resp => "resp_port",
        }
    }
}

impl fmt::Display for PortRole {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            PortRole::Peer => "peers and clients",
            PortRole::Http => "HTTP",
            PortRole::Resp => "RESP",
        })
    }
}
