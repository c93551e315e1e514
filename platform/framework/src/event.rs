//! What happens to a protocol.

use crate::consensus::Consensus;
use crate::ids::{BlockId, Digest, Incarnation, Position, ReplicaId};
use crate::proposal::{Operation, OperationId, Proposal, Read};
use crate::recovery::RecoverySpec;
use crate::snapshot::{ServedSnapshot, SnapshotId};
use crate::ticket::Ticket;
use crate::verify::{Incoming, Verified};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The bound member list: which incarnation of each replica votes and acknowledges count from.
pub type MemberVector = BTreeMap<ReplicaId, Incarnation>;

/// Something that happened, as the driver tells a protocol.
#[derive(Debug)]
pub enum Event<C: Consensus> {
    /// The first event: what was recovered and who the members are. All of it is durable.
    Start(Start<C>),
    /// A message that passed its checks, from a bound incarnation whose identity the link has proven.
    Message {
        /// The sender.
        from: ReplicaId,
        /// What it says.
        message: Verified<Incoming<C::Message, C::Promise>>,
    },
    /// A link to a bound incarnation is up; messages sent from now on may arrive.
    PeerUp {
        /// The peer.
        peer: ReplicaId,
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// The link to a peer is down: what was in flight may be lost.
    PeerDown {
        /// The peer.
        peer: ReplicaId,
    },
    /// A linked, bound peer is alive although no message of it is complete: parts of a long one keep arriving. A sign of life and
    /// nothing else. Told at most about once per heartbeat interval, and only while no whole message comes; a message is sign enough.
    PeerAlive {
        /// The peer.
        peer: ReplicaId,
    },
    /// Client frames to be ordered, in the order of their arrival. Each must end accepted or refused.
    Propose(Vec<Proposal>),
    /// Reads to be served without the log.
    Read(Vec<Read>),
    /// An operator's wish.
    Operate {
        /// Its number, echoed by the answer.
        id: OperationId,
        /// The wish.
        operation: Operation,
    },
    /// Everything up to this ticket is durable.
    Persisted(Ticket),
    /// Everything up to this position was executed.
    Executed {
        /// The last executed position.
        position: Position,
        /// The state's digest there, if it was asked for.
        digest: Option<Digest>,
    },
    /// The node finds that a checkpoint is due: time has passed, or enough was executed. Answered by
    /// [`Effect::TakeSnapshot`](crate::Effect::TakeSnapshot) if there is anything new to take.
    SnapshotDue,
    /// A snapshot asked for was taken and is durable: file and directory are synced, and the metadata name it.
    SnapshotTaken {
        /// Position it covers.
        position: Position,
        /// Root of its digest tree, if the protocol asked for one.
        root: Option<Digest>,
    },
    /// A snapshot asked for could not be written, and is given up. The replica goes on with what the metadata named before.
    SnapshotNotTaken {
        /// The position it was to cover.
        position: Position,
    },
    /// A snapshot is ready for the peer it was asked for, by [`Effect::OfferSnapshot`](crate::Effect::OfferSnapshot). It stays until
    /// it is withdrawn, also when a newer one is taken.
    SnapshotReady {
        /// The peer.
        to: ReplicaId,
        /// The snapshot.
        snapshot: ServedSnapshot,
    },
    /// No snapshot can be had for a peer just now, or the one it was offered cannot be served any longer.
    SnapshotUnready {
        /// The peer.
        to: ReplicaId,
    },
    /// A peer has pulled another part of the snapshot it was offered, or the node has got further in making it ready. Without it,
    /// the peer is given up after a while. Told at most about once per heartbeat interval.
    SnapshotProgress {
        /// The peer.
        peer: ReplicaId,
    },
    /// All of a snapshot asked for is here, checked and synced, but not installed: the state is as it was.
    SnapshotFetched {
        /// Its name.
        id: SnapshotId,
    },
    /// A snapshot asked for could not be fetched: its source is gone or refuses, no part has come for a while, or it is damaged.
    SnapshotNotFetched {
        /// Its name.
        id: SnapshotId,
    },
    /// A snapshot was installed as ordered and is durable: the metadata name it, and the executor goes on above it. Counts as
    /// [`Event::Executed`] up to its position.
    SnapshotInstalled {
        /// Position it covers.
        position: Position,
    },
    /// A payload asked for by digest.
    PayloadFetched {
        /// Its digest, checked.
        digest: Digest,
        /// The payload.
        payload: Bytes,
    },
    /// The deadline the protocol asked for has passed (or nearly: read `now`, not the event).
    Tick,
}

/// What a protocol starts from.
#[derive(Debug)]
pub struct Start<C: Consensus> {
    /// This replica.
    pub replica: ReplicaId,
    /// The bound members, this replica among them.
    pub members: MemberVector,
    /// What the log and the metadata hold; the default on a first start.
    pub state: <C::Record as RecoverySpec>::State,
    /// The entry whose effects the executor's state holds last. What is committed above it is executed; what is committed up to it is
    /// not executed again, so the protocol must find that very block there, or halt.
    pub executed: ExecutedAt,
}

/// Where an executor's state ends, as read from that state itself, never from a file's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExecutedAt {
    /// The last position whose effects it holds; zero before the first.
    pub position: Position,
    /// The block that was executed there.
    pub block: BlockId,
}
