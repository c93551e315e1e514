//! What is executed and what comes of it: the executor's contract.

use crate::entry::EntryKind;
use crate::ids::{BlockId, Digest, Position, Sequence, SessionId};
use crate::proposal::Read;
use crate::reply::{ReplyKind, Status};
use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;

/// One batch: what stands at one position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Batch {
    /// Which block stands there.
    pub block: BlockId,
    /// What the payload is; everything that stands at a position is executed, also what changes no data.
    pub kind: EntryKind,
    /// The payload: for a request, the client's frame unchanged.
    pub payload: Bytes,
}

/// Consecutive batches: the first stands at `first`, each next one at the next position.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ExecuteRange {
    /// Position of the first batch.
    pub first: Position,
    /// The batches.
    pub batches: Vec<Batch>,
}

impl ExecuteRange {
    /// Position of the last batch.
    #[must_use]
    pub fn last(&self) -> Position {
        Position(self.first.0 + self.batches.len() as u64 - u64::from(!self.batches.is_empty()))
    }
}

/// One order to the executor; a group of them is carried out in order.
#[derive(Debug)]
pub enum ExecutorCommand {
    /// Execute committed batches. A matching overlay is made permanent instead of being executed again.
    Execute {
        /// What.
        range: ExecuteRange,
        /// Whether the answers are wanted (a replica that answers nobody saves the work).
        answers: bool,
    },
    /// Execute ahead of the commit, in an overlay over the state after block `base`.
    Speculate {
        /// The base.
        base: BlockId,
        /// What.
        range: ExecuteRange,
    },
    /// Drop every overlay above `to`.
    Rollback {
        /// The last position that stays.
        to: Position,
    },
    /// Serve reads on the state as executed.
    Read(Vec<Read>),
    /// Compute the digest of the whole state.
    Digest,
}

/// The answer to one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Where it was executed.
    pub position: Position,
    /// As which block.
    pub block: BlockId,
    /// How final it is.
    pub kind: ReplyKind,
    /// The session of the request, or the one it opened.
    pub session: SessionId,
    /// The sequence of the request (of a frame that opened a session: the low half of its nonce).
    pub sequence: Sequence,
    /// The outcome of the frame as a whole.
    pub status: Status,
    /// One result a command.
    pub body: Bytes,
}

/// What came of a group of commands.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The last committed position that is executed.
    pub executed: Position,
    /// Transactions (commands) executed by this group, speculative ones included.
    pub transactions: u64,
    /// The answers asked for, in the order of execution.
    pub answers: Vec<Answer>,
    /// The digest, if it was asked for: of the state at `executed`.
    pub digest: Option<Digest>,
}

/// The executor cannot go on; final.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ExecutorError {
    /// A position was skipped or repeated.
    #[error("position {given} was to be executed, but {expected} is next")]
    OutOfOrder {
        /// The position that is next.
        expected: Position,
        /// The position given.
        given: Position,
    },
    /// A speculation over a block that is not the last executed one.
    #[error("speculation over a base that is not the last executed block")]
    BadBase,
    /// A rollback below what is committed.
    #[error("rollback to {to}, below the committed {committed}")]
    RollbackBelowCommit {
        /// The position asked for.
        to: Position,
        /// The committed position.
        committed: Position,
    },
    /// A command that this version of the executor does not have.
    #[error("this version of the executor does not have {0}")]
    Unsupported(&'static str),
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(String),
}

/// The state machine, called once per group of effects.
#[cfg_attr(any(test, feature = "testing"), mockall::automock)]
#[async_trait]
pub trait TransactionExecutor: Send {
    /// Carries out a group of commands in order. Waits while the store does. Empties `group` and leaves its memory to the caller; after
    /// an error it may hold what was not carried out.
    ///
    /// # Errors
    /// [`ExecutorError`]; the replica must then stop.
    async fn execute(&mut self, group: &mut Vec<ExecutorCommand>) -> Result<Outcome, ExecutorError>;
}
