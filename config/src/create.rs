//! Making a cluster from a template: which replicas, on which ports.

use crate::cluster::{ClusterConfig, TemplateConfig};
use crate::error::HostProblem;
use crate::host::{check_host, host_and_port, is_loopback};
use crate::json::quoted;
use crate::replica::{PortRole, ReplicaAddress};
use quorate_framework::{ClusterId, ReplicaId, limits};
use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener;
use thiserror::Error;

/// The replicas of a new cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hosts {
    /// So many replicas on this machine's loopback address.
    Loopback(usize),
    /// One replica on each of these hosts, with the ids 1, 2, … in this order. A host may be named several times.
    List(Vec<String>),
    /// The replicas that the template names, with their ports.
    Template,
}

/// The ports of a new cluster: those of replica `i`, from 0, are the first of each kind plus `i`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortChoice {
    /// Exactly these first ports. A busy one on this machine is an error.
    Base {
        /// First port of peers and native clients.
        peer: u16,
        /// First port of status and metrics.
        http: u16,
        /// First port of the RESP front door.
        resp: u16,
    },
    /// The first block, from the usual ports upwards, whose every port can be bound on this machine now.
    FreeBlock,
}

impl Default for PortChoice {
    fn default() -> PortChoice {
        PortChoice::Base { peer: limits::PEER_PORT_BASE, http: limits::HTTP_PORT_BASE, resp: limits::RESP_PORT_BASE }
    }
}

/// Why a cluster could not be made.
#[derive(Debug, Error)]
pub enum CreateError {
    /// No replica, or too many.
    #[error("a cluster of {found} replicas; allowed: 1 to {limit}")]
    ReplicaCount {
        /// The number asked for.
        found: usize,
        /// The most there can be.
        limit: usize,
    },
    /// A host name that cannot be dialled.
    #[error("host number {number}: {host} {problem}")]
    BadHost {
        /// Its place in the list, from 1.
        number: usize,
        /// The host, in quotes.
        host: String,
        /// What is wrong with it.
        problem: HostProblem,
    },
    /// The template was to name the replicas, and does not.
    #[error("the template names no replicas; say how many or on which hosts")]
    NoReplicasInTemplate,
    /// The ports run past the last one there is, or from zero.
    #[error("{role}: {replicas} ports from {first} on do not fit; allowed: 1 to 65535")]
    PortRange {
        /// What the ports serve.
        role: PortRole,
        /// The first port.
        first: u16,
        /// How many are needed.
        replicas: usize,
    },
    /// Two listeners would share a port.
    #[error("{address} would serve both {first} and {second}")]
    PortTwice {
        /// Host and port.
        address: String,
        /// What it serves first.
        first: PortRole,
        /// What else it would serve.
        second: PortRole,
    },
    /// A port of this machine is in use.
    #[error("port {port} ({role} of replica {replica}) cannot be used on {host}: {source}")]
    PortBusy {
        /// The host as named.
        host: String,
        /// The port.
        port: u16,
        /// What it was to serve.
        role: PortRole,
        /// The replica.
        replica: ReplicaId,
        /// What the operating system says.
        source: io::Error,
    },
    /// Every block has a busy port.
    #[error("no free block of ports for {replicas} replicas: the last one tried failed with: {last}")]
    NoFreeBlock {
        /// How many replicas.
        replicas: usize,
        /// The fault of the last block.
        last: Box<CreateError>,
    },
    /// Free ports can be found only on this machine.
    #[error("free ports can be looked for only on this machine, and {host} is another; name the ports")]
    FreeBlockElsewhere {
        /// The host as named.
        host: String,
    },
}

/// Makes a cluster with the identity `cluster_id`, which the caller draws at random. On this machine's loopback address every
/// port is bound for a moment to see that it is free; nothing else is touched. Blocks for as long as that takes.
pub fn new_cluster(
    template: &TemplateConfig,
    cluster_id: ClusterId,
    hosts: &Hosts,
    ports: PortChoice,
) -> Result<ClusterConfig, CreateError> {
    let replicas = match hosts {
        Hosts::Loopback(count) => {
            check_count(*count)?;
            on_hosts(&vec!["127.0.0.1".to_owned(); *count], ports)?
        }
        Hosts::List(hosts) => {
            check_count(hosts.len())?;
            check_hosts(hosts)?;
            on_hosts(hosts, ports)?
        }
        Hosts::Template => {
            let replicas = template.replicas().ok_or(CreateError::NoReplicasInTemplate)?.to_vec();
            check_free(&replicas)?;
            replicas
        }
    };
    Ok(ClusterConfig::from_parts(template, cluster_id, replicas))
}

fn check_count(found: usize) -> Result<(), CreateError> {
    let limit = limits::REPLICAS;
    if (1..=limit).contains(&found) { Ok(()) } else { Err(CreateError::ReplicaCount { found, limit }) }
}

fn check_hosts(hosts: &[String]) -> Result<(), CreateError> {
    for (index, host) in hosts.iter().enumerate() {
        check_host(host).map_err(|problem| CreateError::BadHost { number: index + 1, host: quoted(host), problem })?;
    }
    Ok(())
}

fn on_hosts(hosts: &[String], ports: PortChoice) -> Result<Vec<ReplicaAddress>, CreateError> {
    match ports {
        PortChoice::Base { peer, http, resp } => {
            let replicas = with_ports(hosts, [peer, http, resp])?;
            check_free(&replicas)?;
            Ok(replicas)
        }
        PortChoice::FreeBlock => free_block(hosts),
    }
}

fn free_block(hosts: &[String]) -> Result<Vec<ReplicaAddress>, CreateError> {
    if let Some(host) = hosts.iter().find(|host| !is_loopback(host)) {
        return Err(CreateError::FreeBlockElsewhere { host: host.clone() });
    }
    let count = u16::try_from(hosts.len()).unwrap_or(u16::MAX);
    // Blocks stay below the next kind's first port, so that two clusters on one machine never mix their kinds.
    let room = limits::HTTP_PORT_BASE - limits::PEER_PORT_BASE;
    let mut offset = 0;
    loop {
        let first = [limits::PEER_PORT_BASE, limits::HTTP_PORT_BASE, limits::RESP_PORT_BASE].map(|base| base + offset);
        let replicas = with_ports(hosts, first)?;
        match check_free(&replicas) {
            Ok(()) => return Ok(replicas),
            Err(last) if offset + 2 * count > room => {
                return Err(CreateError::NoFreeBlock { replicas: hosts.len(), last: Box::new(last) });
            }
            Err(_) => offset += count,
        }
    }
}

/// The replicas with the ids 1, 2, … on `hosts`, each kind's ports counted up from its first.
fn with_ports(hosts: &[String], first: [u16; 3]) -> Result<Vec<ReplicaAddress>, CreateError> {
    let last_offset = u16::try_from(hosts.len().saturating_sub(1)).unwrap_or(u16::MAX);
    for (role, first) in [PortRole::Peer, PortRole::Http, PortRole::Resp].into_iter().zip(first) {
        if first == 0 || first.checked_add(last_offset).is_none() {
            return Err(CreateError::PortRange { role, first, replicas: hosts.len() });
        }
    }
    let [peer, http, resp] = first;
    let replicas: Vec<_> = (0..=last_offset)
        .zip(hosts)
        .map(|(offset, host)| ReplicaAddress {
            id: ReplicaId(u32::from(offset) + 1),
            host: host.clone(),
            port: peer + offset,
            http_port: http + offset,
            resp_port: resp + offset,
        })
        .collect();
    let mut used: BTreeMap<String, PortRole> = BTreeMap::new();
    for (role, address) in replicas.iter().flat_map(ReplicaAddress::listeners) {
        if let Some(first) = used.insert(address.clone(), role) {
            return Err(CreateError::PortTwice { address, first, second: role });
        }
    }
    Ok(replicas)
}

/// Whether every port on this machine's loopback address can be bound, all at the same time.
fn check_free(replicas: &[ReplicaAddress]) -> Result<(), CreateError> {
    let mut bound = Vec::new();
    for replica in replicas.iter().filter(|replica| is_loopback(&replica.host)) {
        let ports =
            [(PortRole::Peer, replica.port), (PortRole::Http, replica.http_port), (PortRole::Resp, replica.resp_port)];
        for (role, port) in ports {
            let listener = TcpListener::bind(host_and_port(&replica.host, port)).map_err(|source| {
                CreateError::PortBusy { host: replica.host.clone(), port, role, replica: replica.id, source }
            })?;
            bound.push(listener);
        }
    }
    Ok(())
}
