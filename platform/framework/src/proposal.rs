//! A client's frame on its way into a protocol. It ends either accepted (it entered the log or the pool) or refused (it did not):
//! both consume it, so `NotLeader` and `Busy` cannot be said of something that was proposed.

use crate::ids::{BlockId, ConnectionId, Position, ReplicaId, Sequence, SessionId};
use crate::request::ClientFrame;

/// Who waits for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The client's connection at this replica.
    pub connection: ConnectionId,
    /// The session of the request (none for a frame that opens one).
    pub session: SessionId,
    /// The sequence of the request.
    pub sequence: Sequence,
}

/// A client's frame that nobody has decided on yet. Not `Clone`: it is decided once.
#[derive(Debug, PartialEq, Eq)]
pub struct Proposal {
    origin: Origin,
    frame: ClientFrame,
}

impl Proposal {
    /// A frame that came in on `connection`.
    #[must_use]
    pub fn new(connection: ConnectionId, frame: ClientFrame) -> Proposal {
        let origin = Origin { connection, session: frame.header.session, sequence: frame.header.sequence };
        Proposal { origin, frame }
    }

    /// The frame, to look at before deciding.
    #[must_use]
    pub fn frame(&self) -> &ClientFrame {
        &self.frame
    }

    pub(crate) fn into_parts(self) -> (Origin, ClientFrame) {
        (self.origin, self.frame)
    }
}

/// Why a request was certainly not proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Another replica may lead.
    NotLeader {
        /// Who, if known.
        hint: Option<ReplicaId>,
    },
    /// A bound is reached; try again later.
    Busy,
    /// This protocol or version does not have it.
    Unsupported,
    /// The replica is stopping.
    Stopped,
}

/// An accepted request: its origin waits for what is executed at `position` if that is `block`; another block there means unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Accepted {
    /// Who waits.
    pub origin: Origin,
    /// Where it may be executed.
    pub position: Position,
    /// As which block.
    pub block: BlockId,
}

/// How fresh a read must be. A cheaper mode is asked for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadConsistency {
    /// Linearizable.
    Linearizable,
    /// Linearizable as long as clocks keep within the configured drift.
    Lease,
    /// May be old.
    Stale,
}

/// A read that need not be ordered by the log.
#[derive(Debug, PartialEq, Eq)]
pub struct Read {
    /// How fresh it must be.
    pub consistency: ReadConsistency,
    /// The request, answered or refused like a proposal.
    pub proposal: Proposal,
}

/// What an operator may ask of a protocol; each needs a capability.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Hand leadership to a replica, or to the best one.
    TransferLeadership {
        /// To whom.
        to: Option<ReplicaId>,
    },
    /// Put another incarnation of a replica in place of the bound one.
    Replace {
        /// The replica.
        replica: ReplicaId,
    },
    /// Take a snapshot now.
    TakeSnapshot,
}

/// The number by which the answer to an operation finds its asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// Why an operation was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum OperationError {
    /// The protocol or this version does not have it.
    #[error("this protocol or version does not have the operation")]
    Unsupported,
    /// Only a leader can.
    #[error("not the leader")]
    NotLeader {
        /// Who may lead.
        hint: Option<ReplicaId>,
    },
    /// It was tried and cannot be done now.
    #[error("it was tried and failed; the replica's log says why")]
    Failed,
}
