//! A picture of the driver for operators and metrics.

use quorate_framework::{FormingStatus, ProtocolStatus, ReplicaId, Status};
use serde::Serialize;

/// What the driver has counted since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DriverCounters {
    /// Turns.
    pub turns: u64,
    /// Events given to the protocol.
    pub events: u64,
    /// Requests the protocol accepted.
    pub accepted: u64,
    /// Repetitions of requests that wait already: not ordered again.
    pub repeated: u64,
    /// Requests refused as `Busy`.
    pub refused_busy: u64,
    /// Requests refused as `NotLeader`.
    pub refused_not_leader: u64,
    /// Requests refused for another reason.
    pub refused_other: u64,
    /// Committed answers sent.
    pub answered: u64,
    /// Speculative answers sent.
    pub answered_speculatively: u64,
    /// Requests that ended as unknown.
    pub unknown: u64,
    /// Transactions the executor has executed, speculative ones included.
    pub transactions: u64,
    /// Frames to peers, one for each message whatever the number of its destinations.
    pub frames_sent: u64,
    /// Frames from peers that reached the protocol.
    pub frames_received: u64,
    /// Frames of peers that do not count (unbound, or this replica is not formed): dropped.
    pub frames_uncounted: u64,
    /// Frames of links that are no longer the peer's link: dropped.
    pub frames_stale: u64,
    /// Frames that view or window made useless: dropped.
    pub frames_useless: u64,
    /// Frames that could not be decoded; their links were closed.
    pub frames_undecodable: u64,
    /// Frames that failed verification; their links were closed.
    pub frames_forged: u64,
    /// Promises dropped because too many waited for the disk.
    pub promises_dropped: u64,
}

impl DriverCounters {
    /// Counts a refusal.
    pub(super) fn refused(&mut self, status: Status) {
        match status {
            Status::Busy => self.refused_busy += 1,
            Status::NotLeader => self.refused_not_leader += 1,
            _ => self.refused_other += 1,
        }
    }
}

/// A picture of a replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DriverStatus {
    /// This replica.
    pub replica: ReplicaId,
    /// The protocol, as it sees itself.
    pub protocol: ProtocolStatus,
    /// How far forming has come.
    pub forming: FormingStatus,
    /// Who leads, as the protocol last said.
    pub leader: Option<ReplicaId>,
    /// Linked peers whose incarnation is not bound: they neither vote nor count.
    pub unbound_peers: Vec<ReplicaId>,
    /// Requests that wait for their answer.
    pub waiting: usize,
    /// Frames that count against admission.
    pub admitted_frames: usize,
    /// Bytes that count against admission.
    pub admitted_bytes: usize,
    /// Promises that wait for the disk.
    pub promises_waiting: usize,
    /// Why the replica has stopped, if it has.
    pub stopped: Option<String>,
    /// What was counted.
    pub counters: DriverCounters,
}
