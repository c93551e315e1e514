//! What a script is made of: kinds of events, what was seen, steps.

use super::{ScriptedMessage, ScriptedPromise, ScriptedVerifier};
use quorate_framework::{
    Accepted, BlockId, Destination, Incarnation, MemberVector, Observation, OperationError, OperationId, Origin,
    Position, Refusal, ReplicaId, Sequence, Ticket, Time,
};

/// The kinds of events rules are kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // They are the framework's events, by the same names.
pub enum EventKind {
    Start,
    Message,
    PeerUp,
    PeerDown,
    PeerAlive,
    Propose,
    Operate,
    Persisted,
    Executed,
    Tick,
    SnapshotDue,
    SnapshotTaken,
    Other,
}

/// What the protocol was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // They are the framework's events, by the same names.
pub enum Seen {
    Start { members: MemberVector, state: Vec<u64> },
    Message { from: ReplicaId, number: u64 },
    Promise { from: ReplicaId, number: u64 },
    PeerUp(ReplicaId, Incarnation),
    PeerDown(ReplicaId),
    PeerAlive(ReplicaId),
    Propose(Vec<Sequence>),
    Operate(OperationId),
    Persisted(Ticket),
    Executed(Position),
    Tick(Time),
    SnapshotDue,
    SnapshotTaken(Position),
    Other,
}

/// What a promise or a speculative answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum After {
    /// What was recovered: nothing.
    Recovered,
    /// The record persisted last.
    Last,
    /// The record persisted as the n-th by this protocol, counted from 0.
    Record(usize),
}

/// One effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // They are the framework's effects, by the same names.
pub enum Step {
    Persist(u64),
    Send(Destination, ScriptedMessage),
    Promise(Destination, After, ScriptedPromise),
    /// Accepts the oldest proposal of this event.
    Accept(Position, BlockId),
    /// Accepts all proposals that are left of this event, at consecutive positions as blocks of [`block`] with this variant.
    AcceptAll {
        first: Position,
        variant: u64,
    },
    /// Accepts again what was accepted before.
    Reaccept(Accepted),
    /// Takes all proposals that are left of this event into the pool.
    PoolAll,
    /// Gives up a request of the pool.
    Dropped(Origin),
    /// Refuses all proposals that are left of this event.
    RefuseAll(Refusal),
    Execute {
        first: Position,
        blocks: Vec<BlockId>,
    },
    Speculate {
        base: BlockId,
        first: Position,
        blocks: Vec<BlockId>,
        after: After,
    },
    Rollback(Position),
    Forsaken(Position),
    LeaderIs(Option<ReplicaId>),
    Members(MemberVector),
    Verifier(ScriptedVerifier),
    Operated(OperationId, Result<(), OperationError>),
    Evidence(ReplicaId, String),
    Observe(Observation),
    TakeSnapshot(Position),
    Halt(String),
    /// Sets the deadline.
    Deadline(Option<Time>),
    /// From now on the invariants are broken, with this text.
    Break(String),
}

/// The block at a position; variants tell rivals apart.
#[must_use]
pub fn block(position: u64, variant: u64) -> BlockId {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&position.to_le_bytes());
    bytes[8..16].copy_from_slice(&variant.to_le_bytes());
    BlockId(bytes)
}
