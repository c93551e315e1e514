//! Hosts: what can be dialled, and when two spellings are one host.

use crate::error::HostProblem;
use std::net::{IpAddr, Ipv4Addr};

/// Characters of a host name, as the domain name system has it.
const HOST_CHARACTERS_MAX: usize = 253;

/// Whether `host` is a host name or an IP address that others can dial.
pub(crate) fn check_host(host: &str) -> Result<(), HostProblem> {
    if host.is_empty() {
        return Err(HostProblem::Empty);
    }
    if host.chars().any(char::is_whitespace) {
        return Err(HostProblem::WhiteSpace);
    }
    if host.len() > HOST_CHARACTERS_MAX {
        return Err(HostProblem::TooLong);
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return if address.is_unspecified() { Err(HostProblem::Unspecified) } else { Ok(()) };
    }
    if host.contains("://") || host.contains('/') {
        return Err(HostProblem::Url);
    }
    if host.starts_with('[') && host.ends_with(']') {
        return Err(HostProblem::Brackets);
    }
    if let Some((_, port)) = host.rsplit_once(':')
        && !port.is_empty()
        && port.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Err(HostProblem::HasPort);
    }
    if !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')) {
        return Err(HostProblem::Character);
    }
    if host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(HostProblem::NotIpv4);
    }
    let labels = host.strip_suffix('.').unwrap_or(host);
    if labels.split('.').any(|label| label.is_empty() || label.starts_with('-') || label.ends_with('-')) {
        return Err(HostProblem::Character);
    }
    Ok(())
}

/// One spelling for all spellings of a host that surely mean the same.
pub(crate) fn canonical_host(host: &str) -> String {
    if let Ok(address) = host.parse::<IpAddr>() {
        return address.to_canonical().to_string();
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if name == "localhost" { Ipv4Addr::LOCALHOST.to_string() } else { name }
}

/// Whether `host` is this machine by name.
pub(crate) fn is_loopback(host: &str) -> bool {
    canonical_host(host).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Host and port in the usual form, with brackets around an IPv6 address.
pub(crate) fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_hosts() {
        for host in
            ["127.0.0.1", "::1", "fe80::1", "localhost", "node-1.example.org", "node_1", "db1", "example.org.", "1a"]
        {
            assert_eq!(check_host(host), Ok(()), "{host}");
        }
    }

    #[test]
    fn what_cannot_be_dialled_is_refused_with_its_reason() {
        for (host, problem) in [
            ("", HostProblem::Empty),
            (" ", HostProblem::WhiteSpace),
            ("a b", HostProblem::WhiteSpace),
            ("127.0.0.1 ", HostProblem::WhiteSpace),
            ("127.0.0.1:17000", HostProblem::HasPort),
            ("node1:17000", HostProblem::HasPort),
            ("[::1]", HostProblem::Brackets),
            ("[::1]:17000", HostProblem::HasPort),
            ("http://node1", HostProblem::Url),
            ("300.0.0.1", HostProblem::NotIpv4),
            ("10.0.0", HostProblem::NotIpv4),
            ("12", HostProblem::NotIpv4),
            ("0.0.0.0", HostProblem::Unspecified),
            ("::", HostProblem::Unspecified),
            ("knöten", HostProblem::Character),
            ("node1:", HostProblem::Character),
            ("a..b", HostProblem::Character),
            ("-a", HostProblem::Character),
            ("user@node", HostProblem::Character),
        ] {
            assert_eq!(check_host(host), Err(problem), "{host}");
        }
        assert_eq!(check_host(&"a".repeat(254)), Err(HostProblem::TooLong));
    }

    #[test]
    fn spellings_of_one_host_are_equal() {
        assert_eq!(canonical_host("LOCALHOST"), canonical_host("127.0.0.1"));
        assert_eq!(canonical_host("Node1."), canonical_host("node1"));
        assert_eq!(canonical_host("::ffff:10.0.0.1"), canonical_host("10.0.0.1"));
        assert_ne!(canonical_host("127.0.0.1"), canonical_host("127.0.0.2"));
        assert!(is_loopback("localhost") && is_loopback("::1") && is_loopback("127.0.0.9") && !is_loopback("10.0.0.1"));
    }
}
