//! The `/status` object.

use super::board::CoreSnapshot;
use super::durability::DurabilityReport;
use super::threads;
use crate::process::ProcessFigures;
use crate::shell::round_trips::RoundTripFigures;
use crate::shell::storage::StorageFigures;
use crate::snapshots::SnapshotFigures;
use quorate_communicator::{PeerLinkStatus, TrafficFigures};
use quorate_framework::{ClusterId, FormingStatus, Incarnation, PeerStatus, ProtocolStatus, ReplicaId};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Instant;

/// What does not change while a replica runs.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The replica.
    pub id: ReplicaId,
    /// Its cluster.
    pub cluster_id: ClusterId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// What survives, and what was recovered.
    pub durability: DurabilityReport,
    /// The protocol's name.
    pub protocol: &'static str,
    /// The effective settings.
    pub settings: Value,
    /// When the process began.
    pub started: Instant,
}

/// Positions in the replicated order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Positions {
    /// First position still held in memory.
    pub first: u64,
    /// Last position known.
    pub last: u64,
    /// Last durable position; with recovery off, last accepted one.
    pub persisted: u64,
    /// Last committed position.
    pub committed: u64,
    /// Last executed position.
    pub executed: u64,
}

/// A peer, as protocol and transport see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PeerReport {
    /// The peer.
    pub id: u32,
    /// Its state in the protocol's own word; `unformed` before the protocol knows it.
    pub state: &'static str,
    /// Whether a connection is up.
    pub connected: bool,
    /// Highest position it is known to hold; only a leader knows.
    pub matched: u64,
    /// Next position to be sent.
    pub next: u64,
    /// Messages in flight.
    pub in_flight_messages: u64,
    /// Bytes in flight.
    pub in_flight_bytes: u64,
    /// Messages that wait to be written to it.
    pub unsent_messages: u64,
    /// Bytes that wait to be written to it.
    pub unsent_bytes: u64,
    /// Why there is no connection, as far as this side knows.
    pub trouble: Option<String>,
}

/// How long the last syncs of the log took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SyncReport {
    /// Median, in milliseconds.
    pub p50: f64,
    /// 99th percentile, in milliseconds.
    pub p99: f64,
    /// The longest, in milliseconds.
    pub max: f64,
}

impl SyncReport {
    fn new(figures: &StorageFigures) -> Option<SyncReport> {
        let at = |micros: Option<u64>| micros.map(|micros| micros as f64 / 1e3);
        Some(SyncReport {
            p50: at(figures.fsync_p50_us)?,
            p99: at(figures.fsync_p99_us)?,
            max: at(figures.fsync_max_us)?,
        })
    }
}

/// The `/status` object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatusReport {
    /// The replica.
    pub id: u32,
    /// Its cluster, in hexadecimal.
    pub cluster_id: String,
    /// Its incarnation, in hexadecimal.
    pub incarnation: String,
    /// Whether anything survives the process, whether the log is synced, and what was recovered.
    #[serde(flatten)]
    pub durability: DurabilityReport,
    /// The log on disk; null with recovery off.
    pub storage: Option<StorageFigures>,
    /// The last syncs of the log, in milliseconds; null before there are any, and with recovery off.
    pub fsync_ms: Option<SyncReport>,
    /// The snapshots.
    pub snapshots: SnapshotFigures,
    /// The protocol's name.
    pub protocol: &'static str,
    /// The role, in the protocol's own word.
    pub role: &'static str,
    /// Term or view.
    pub view: u64,
    /// Who leads, if known.
    pub leader: Option<u32>,
    /// How far forming has come: `state` is `forming` (with `waiting_for`), `formed` or `unbound` (with `reason`).
    pub forming: FormingStatus,
    /// Connected peers whose incarnation is not bound: they neither vote nor count.
    pub unbound: Vec<u32>,
    /// Why it has stopped, if it has.
    pub stopped: Option<String>,
    /// Positions.
    pub positions: Positions,
    /// The other replicas.
    pub peers: Vec<PeerReport>,
    /// Connections of clients.
    pub clients: usize,
    /// Requests that wait for their answer.
    pub waiting: usize,
    /// Requests that count against admission: those that wait, and those that still take up memory.
    pub admitted_frames: usize,
    /// Bytes that count against admission.
    pub admitted_bytes: usize,
    /// Counters since the process began.
    pub counters: BTreeMap<&'static str, u64>,
    /// What the operating system says.
    pub process: ProcessFigures,
    /// The names of the process's threads.
    pub threads: Vec<String>,
    /// Round trips to peers by heartbeats, in milliseconds; null before there are any.
    pub round_trip_ms: Option<RoundTripFigures>,
    /// Memory pinned by the log, in bytes.
    pub log_memory_bytes: u64,
    /// The effective settings.
    pub settings: Value,
    /// The version of this program.
    pub version: &'static str,
    /// The commit it was built from, or `unknown`.
    pub commit: &'static str,
}

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit it was built from, as the build was told in `QUORATE_COMMIT`.
pub const COMMIT: &str = match option_env!("QUORATE_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

impl StatusReport {
    /// Puts the object together from a snapshot, in the thread of whoever asked.
    #[must_use]
    pub fn new(identity: &Identity, snapshot: &CoreSnapshot) -> StatusReport {
        let CoreSnapshot { driver, .. } = snapshot;
        let protocol = &driver.protocol;
        let number = |id: &ReplicaId| id.0;
        StatusReport {
            id: identity.id.0,
            cluster_id: identity.cluster_id.to_string(),
            incarnation: identity.incarnation.to_string(),
            durability: identity.durability.clone(),
            fsync_ms: snapshot.storage.as_ref().and_then(SyncReport::new),
            storage: snapshot.storage.clone(),
            snapshots: snapshot.snapshots,
            protocol: identity.protocol,
            role: protocol.role,
            view: protocol.view,
            leader: driver.leader.as_ref().map(number),
            forming: driver.forming.clone(),
            unbound: driver.unbound_peers.iter().map(number).collect(),
            stopped: driver.stopped.clone(),
            positions: Positions {
                first: protocol.first.0,
                last: protocol.last.0,
                persisted: protocol.persisted.0,
                committed: protocol.committed.0,
                executed: snapshot.executed.0,
            },
            peers: peers(protocol, &snapshot.links),
            clients: snapshot.clients,
            waiting: driver.waiting,
            admitted_frames: driver.admitted_frames,
            admitted_bytes: driver.admitted_bytes,
            counters: counters(snapshot),
            process: ProcessFigures::read(identity.started),
            threads: threads::names(),
            round_trip_ms: snapshot.round_trips.clone(),
            log_memory_bytes: protocol.log_memory_bytes,
            settings: identity.settings.clone(),
            version: VERSION,
            commit: COMMIT,
        }
    }
}

/// The peers of the protocol, and those that only the transport knows yet, by their ids.
fn peers(protocol: &ProtocolStatus, links: &[PeerLinkStatus]) -> Vec<PeerReport> {
    let mut reports: BTreeMap<u32, PeerReport> = BTreeMap::new();
    for PeerStatus { id, state, connected, matched, next, in_flight_messages, in_flight_bytes } in &protocol.peers {
        let report = PeerReport {
            id: id.0,
            state,
            connected: *connected,
            matched: matched.0,
            next: next.0,
            in_flight_messages: *in_flight_messages,
            in_flight_bytes: *in_flight_bytes,
            unsent_messages: 0,
            unsent_bytes: 0,
            trouble: None,
        };
        reports.insert(id.0, report);
    }
    for link in links {
        let report = reports.entry(link.peer.0).or_insert(PeerReport {
            id: link.peer.0,
            state: "unformed",
            connected: false,
            matched: 0,
            next: 0,
            in_flight_messages: 0,
            in_flight_bytes: 0,
            unsent_messages: 0,
            unsent_bytes: 0,
            trouble: None,
        });
        report.connected = link.connected;
        report.unsent_messages = link.waiting_messages as u64;
        report.unsent_bytes = link.waiting_bytes as u64;
        report.trouble.clone_from(&link.trouble);
    }
    reports.into_values().collect()
}

fn counters(snapshot: &CoreSnapshot) -> BTreeMap<&'static str, u64> {
    let CoreSnapshot { driver, shell, traffic, .. } = snapshot;
    let TrafficFigures {
        writes, blocked_writes, written_bytes, written_frames, reads, empty_reads, read_bytes, ..
    } = *traffic;
    let counted = driver.counters;
    let mut counters: BTreeMap<&'static str, u64> = driver.protocol.counters.iter().copied().collect();
    let storage = snapshot.storage.clone().unwrap_or_default();
    counters.extend([
        ("turns", shell.turns),
        // A replacement of the metadata syncs the file and the directory.
        ("syncs", storage.fsyncs + 2 * storage.metadata_writes),
        ("wal_groups", storage.groups),
        ("wal_records", storage.records),
        ("metadata_writes", storage.metadata_writes),
        ("events", counted.events),
        ("transactions_executed", counted.transactions),
        ("batches_executed", shell.batches_executed),
        ("groups_executed", shell.groups_executed),
        ("replies_sent", shell.replies_sent),
        ("requests_accepted", counted.accepted),
        // Some requests are refused before they reach the core.
        ("refused_busy", counted.refused_busy + traffic.busy_answers),
        ("refused_not_leader", counted.refused_not_leader),
        ("refused_other", counted.refused_other),
        ("unknown", counted.unknown),
        ("undecodable", counted.frames_undecodable),
        ("forged", counted.frames_forged),
        ("unbound_frames_dropped", counted.frames_uncounted),
        ("stale_frames_dropped", counted.frames_stale),
        ("useless_frames_dropped", counted.frames_useless),
        ("unreachable_frames_dropped", traffic.dropped_frames),
        ("promises_dropped", counted.promises_dropped),
        ("messages_encoded", counted.frames_sent),
        ("messages_received", counted.frames_received),
        ("frames_sent", written_frames.iter().sum()),
        ("bytes_sent", written_bytes),
        ("bytes_received", read_bytes),
        ("write_calls", writes),
        ("blocked_write_calls", blocked_writes),
        ("read_calls", reads),
        ("empty_read_calls", empty_reads),
        ("socket_calls", traffic.socket_calls()),
        ("peer_frames_sent", traffic.peer_frames_written()),
        ("peer_frames_received", traffic.peer_messages_received()),
        ("parks", shell.parks),
        ("dials", traffic.dials),
        ("connections_accepted", traffic.accepted),
        ("connections_refused", traffic.refused),
    ]);
    counters
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::driver::{DriverCounters, DriverStatus};
    use crate::status::ShellCounters;
    use quorate_framework::Position;

    /// A snapshot of a formed follower that has executed up to a position.
    pub(crate) fn snapshot(executed: u64) -> CoreSnapshot {
        let protocol = ProtocolStatus {
            role: "follower",
            view: 4,
            leader: Some(ReplicaId(2)),
            committed: Position(executed),
            last: Position(executed + 1),
            counters: vec![("groups_appended", 6), ("entries_appended", 9)],
            peers: vec![PeerStatus {
                id: ReplicaId(2),
                state: "leader",
                connected: true,
                matched: Position(0),
                next: Position(0),
                in_flight_messages: 0,
                in_flight_bytes: 0,
            }],
            ..ProtocolStatus::default()
        };
        let driver = DriverStatus {
            replica: ReplicaId(1),
            protocol,
            forming: FormingStatus::Formed,
            leader: Some(ReplicaId(2)),
            unbound_peers: vec![ReplicaId(3)],
            waiting: 0,
            admitted_frames: 0,
            admitted_bytes: 0,
            promises_waiting: 0,
            stopped: None,
            counters: DriverCounters { refused_busy: 2, frames_uncounted: 5, ..DriverCounters::default() },
        };
        CoreSnapshot {
            driver,
            executed: Position(executed),
            storage: None,
            snapshots: SnapshotFigures { position: 3, ..SnapshotFigures::default() },
            shell: ShellCounters { replies_sent: 8, parks: 12, ..ShellCounters::default() },
            traffic: TrafficFigures {
                busy_answers: 40,
                writes: 100,
                reads: 20,
                empty_reads: 3,
                written_frames: [1, 2, 3, 4, 5],
                received_messages: [6, 7, 8, 9, 10],
                ..TrafficFigures::default()
            },
            clients: 1,
            links: vec![PeerLinkStatus {
                peer: ReplicaId(3),
                connected: true,
                waiting_messages: 1,
                waiting_bytes: 10,
                trouble: Some("refused".to_owned()),
            }],
            round_trips: None,
        }
    }

    pub(crate) fn identity() -> Identity {
        Identity {
            id: ReplicaId(1),
            cluster_id: ClusterId([0xab; 16]),
            incarnation: Incarnation(0xff),
            durability: DurabilityReport { durable: false, wal_sync: None, recovery: None },
            protocol: "raft",
            settings: serde_json::json!({"consensus": "raft"}),
            started: Instant::now(),
        }
    }

    #[test]
    fn the_object_has_the_fields_and_counters_that_scripts_read() {
        let report = serde_json::to_value(StatusReport::new(&identity(), &snapshot(11))).unwrap();
        assert_eq!(report["cluster_id"], "ab".repeat(16));
        assert_eq!(report["incarnation"], "00000000000000ff");
        assert_eq!(report["durable"], false);
        assert_eq!(report["leader"], 2);
        assert_eq!(report["forming"]["state"], "formed");
        assert_eq!(report["unbound"], serde_json::json!([3]));
        assert_eq!(report["positions"]["executed"], 11);
        assert_eq!(report["round_trip_ms"], Value::Null);
        assert_eq!(report["commit"], COMMIT);
        assert!(report["threads"].as_array().is_some_and(|names| !names.is_empty()), "{}", report["threads"]);
        let ids: Vec<&Value> = report["peers"].as_array().unwrap().iter().map(|peer| &peer["state"]).collect();
        assert_eq!(ids, ["leader", "unformed"]);
        assert_eq!(report["peers"][1]["trouble"], "refused");
        let counters = &report["counters"];
        for (name, value) in [
            ("refused_busy", 42),
            ("unbound_frames_dropped", 5),
            ("frames_sent", 15),
            ("groups_appended", 6),
            ("entries_appended", 9),
            ("replies_sent", 8),
            ("socket_calls", 123),
            ("empty_read_calls", 3),
            ("peer_frames_sent", 11),
            ("peer_frames_received", 31),
            ("parks", 12),
        ] {
            assert_eq!(counters[name], value, "{name}");
        }
        for name in [
            "transactions_executed",
            "batches_executed",
            "bytes_sent",
            "write_calls",
            "read_calls",
            "refused_not_leader",
            "undecodable",
        ] {
            assert!(counters[name].is_u64(), "{name}");
        }
    }
}
