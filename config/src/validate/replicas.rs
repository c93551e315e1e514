//! The list of replicas, in our form and in ResilientDB's.

use super::{Validator, misspelt};
use crate::error::{ConfigError, Place};
use crate::host::{canonical_host, host_and_port};
use crate::json::{Json, Member, Node, Position};
use crate::keys::{Effect, Kind, Level};
use crate::note::NoteKind;
use crate::protocol::Protocol;
use crate::replica::{PortRole, ReplicaAddress};
use quorate_framework::{ReplicaId, limits};
use std::collections::BTreeMap;

/// What is known of a replica so far; what is missing was reported.
struct Partial {
    path: String,
    id: Option<(u64, Position)>,
    host: Option<String>,
    ports: [Option<(u16, Position)>; 3],
    complete: bool,
}

const ROLES: [PortRole; 3] = [PortRole::Peer, PortRole::Http, PortRole::Resp];

impl Validator<'_> {
    /// The replicas of a list, if all of them are without fault.
    pub(super) fn replica_list(&mut self, node: &Node, level: Level, path: &str) -> Option<Vec<ReplicaAddress>> {
        let items = self.object_list(node, path)?;
        if items.is_empty() || items.len() > limits::REPLICAS {
            let place = self.place(node.at, path);
            self.fail(ConfigError::ReplicaCount { place, found: items.len(), limit: limits::REPLICAS });
            return None;
        }
        let mut partials = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            if let Some(members) = self.object(item, &path) {
                partials.push(self.replica(item.at, members, level, index, path));
            }
        }
        self.check_ids(&partials);
        self.check_addresses(&partials);
        self.note_fault_tolerance(node.at, path, items.len());
        let replicas: Vec<_> = partials.into_iter().filter_map(Partial::into_address).collect();
        (replicas.len() == items.len()).then_some(replicas)
    }

    /// ResilientDB's list of regions, which must be one.
    pub(super) fn region_list(&mut self, node: &Node, path: &str) {
        let Some(items) = self.object_list(node, path) else { return };
        if items.len() != 1 {
            let place = self.place(node.at, path);
            self.fail(ConfigError::RegionCount { place, found: items.len() });
        }
        for (index, item) in items.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let Some(members) = self.object(item, &path) else { continue };
            let known = self.known_members(members, Level::Region, &path);
            self.require_all(item.at, members, Level::Region, &path);
            for (spec, member) in known {
                let path = format!("{path}.{}", member.key);
                match spec.kind {
                    Kind::List(level) => self.replicas = self.replica_list(&member.value, level, &path),
                    _ => {
                        self.value(spec, &member.value, &path);
                    }
                }
            }
        }
    }

    fn object_list<'n>(&mut self, node: &'n Node, path: &str) -> Option<&'n [Node]> {
        if let Json::Array(items) = &node.value {
            return Some(items);
        }
        self.wrong_kind(node, path, "a list of objects");
        None
    }

    fn object<'n>(&mut self, node: &'n Node, path: &str) -> Option<&'n [Member]> {
        if let Json::Object(members) = &node.value {
            return Some(members);
        }
        self.wrong_kind(node, path, "an object");
        None
    }

    fn wrong_kind(&mut self, node: &Node, path: &str, allowed: &str) {
        let place = self.place(node.at, path);
        let (found, kind) = (node.value.shown(), node.value.kind());
        self.fail(ConfigError::WrongType { place, found, kind, allowed: allowed.to_owned() });
    }

    fn replica(&mut self, at: Position, members: &[Member], level: Level, index: usize, path: String) -> Partial {
        let before = self.errors.len();
        let port_after = |base: u16| u16::try_from(index).ok().and_then(|index| base.checked_add(index));
        let default = |base: u16| port_after(base).map(|port| (port, at));
        let ports = [None, default(limits::HTTP_PORT_BASE), default(limits::RESP_PORT_BASE)];
        let mut partial = Partial { path, id: None, host: None, ports, complete: false };
        let known = self.known_members(members, level, &partial.path);
        self.require_all(at, members, level, &partial.path);
        for (spec, member) in known {
            let path = format!("{}.{}", partial.path, member.key);
            let value = self.value(spec, &member.value, &path);
            let at = member.value.at;
            let port = value.as_ref().and_then(|value| value.as_u64()).and_then(|port| u16::try_from(port).ok());
            match spec.name {
                "id" => partial.id = written_id(&member.value).map(|id| (id, at)),
                "host" | "ip" => partial.host = value.and_then(|value| value.as_str().map(str::to_owned)),
                "port" => partial.ports[0] = port.map(|port| (port, at)),
                "http_port" => partial.ports[1] = port.map(|port| (port, at)),
                "resp_port" => partial.ports[2] = port.map(|port| (port, at)),
                _ => self.note_ignored(spec.effect, member, &path),
            }
        }
        partial.complete = self.errors.len() == before;
        partial
    }

    fn note_ignored(&mut self, effect: Effect, member: &Member, path: &str) {
        if let Effect::None(why) = effect {
            self.note(member.key_at, path, NoteKind::NoEffect, format!("the key has no effect here: {why}"));
        }
    }

    /// Reports every required key of `level` that is not among `members`.
    fn require_all(&mut self, at: Position, members: &[Member], level: Level, path: &str) {
        for spec in level.keys().filter(|spec| spec.required) {
            let given = members.iter().any(|member| spec.is_spelled(&member.key));
            if !given && !misspelt(members, spec.name, level) {
                let place = self.place(at, path);
                self.fail(ConfigError::Missing { place, key: spec.name, needed: spec.allowed() });
            }
        }
    }

    fn check_ids(&mut self, partials: &[Partial]) {
        let mut seen: BTreeMap<u64, Place> = BTreeMap::new();
        for partial in partials {
            let Some((id, at)) = partial.id else { continue };
            let place = self.place(at, &format!("{}.id", partial.path));
            match seen.get(&id) {
                Some(first) => self.fail(ConfigError::DuplicateReplica { place, first: first.clone(), id }),
                None => {
                    seen.insert(id, place);
                }
            }
        }
    }

    fn check_addresses(&mut self, partials: &[Partial]) {
        let mut seen: BTreeMap<String, Place> = BTreeMap::new();
        for partial in partials {
            let Some(host) = partial.host.as_deref().map(canonical_host) else { continue };
            for (role, port) in ROLES.into_iter().zip(partial.ports) {
                let Some((port, at)) = port else { continue };
                let address = host_and_port(&host, port);
                let place = self.place(at, &format!("{}.{}", partial.path, role.key()));
                match seen.get(&address) {
                    Some(first) => self.fail(ConfigError::DuplicateAddress { place, first: first.clone(), address }),
                    None => {
                        seen.insert(address, place);
                    }
                }
            }
        }
    }

    fn note_fault_tolerance(&mut self, at: Position, path: &str, count: usize) {
        let faults = Protocol::Raft.tolerated_faults(count);
        let quorum = Protocol::Raft.quorum(count);
        let text = match count {
            1 => "1 replica tolerates no fault".to_owned(),
            2 => "2 replicas tolerate no fault, no more than 1 replica does".to_owned(),
            _ if count.is_multiple_of(2) => format!(
                "{count} replicas tolerate {faults} fault{} (a quorum is {quorum}), no more than {} do",
                if faults == 1 { "" } else { "s" },
                count - 1
            ),
            _ => return,
        };
        self.note(at, path, NoteKind::Warning, text);
    }
}

impl Partial {
    fn into_address(self) -> Option<ReplicaAddress> {
        if !self.complete {
            return None;
        }
        let [port, http_port, resp_port] = self.ports.map(|port| port.map(|(port, _)| port));
        Some(ReplicaAddress {
            id: ReplicaId(u32::try_from(self.id?.0).ok()?),
            host: self.host?,
            port: port?,
            http_port: http_port?,
            resp_port: resp_port?,
        })
    }
}

/// The id as a number even when it is written as a string, so that "2" and 2 are seen to be the same replica.
fn written_id(node: &Node) -> Option<u64> {
    match &node.value {
        Json::Number(text) | Json::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}
