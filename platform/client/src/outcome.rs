//! How a request ends: done, certainly not done, or unknown. The three are never mixed up.

use bytes::Bytes;
use quorate_executor::CommandResults;
use quorate_framework::{Position, ReplicaId, Status};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Executed, once.
    Done(Done),
    /// Certainly not executed, now or later.
    NotDone(NotDone),
    /// It may have been executed, or may still be.
    Unknown,
    /// Its session is no longer known to the cluster: it may have been executed and will not be any more.
    Expired,
}

/// What came of an executed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The outcome of the frame as a whole: `Ok` unless the executor has a reason to say otherwise.
    pub status: Status,
    /// Where it stands in the replicated order.
    pub position: Position,
    /// Commands of the request.
    pub count: u32,
    /// One result a command, as the executor encodes them.
    pub body: Bytes,
}

impl Done {
    /// The results, one a command, read as they are taken.
    #[must_use]
    pub fn results(&self) -> CommandResults<'_> {
        CommandResults::new(&self.body, self.count)
    }
}

/// Why a request was certainly not executed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NotDone {
    /// Time ran out while it was not handed to any replica, or every replica it was handed to had refused it.
    #[error("no replica took it in time{}", last_refusal.map(|status| format!("; the last answer was {status:?}")).unwrap_or_default())]
    NotTaken {
        /// The last refusal, if there was one.
        last_refusal: Option<Status>,
    },
    /// The request is wrong.
    #[error("invalid: {0}")]
    Invalid(String),
    /// This protocol or version does not have it.
    #[error("not supported by this cluster")]
    Unsupported,
    /// Its session ended before it was sent.
    #[error("its session ended before it was sent")]
    SessionEnded,
    /// The client was closed before it was sent.
    #[error("the client was closed before it was sent")]
    Closed,
}

/// Something a client has to tell its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// A request ended; its slot is free.
    Ended(Ended),
    /// An attempt was refused; the request stays in flight and is tried again.
    Refused {
        /// The number given at its submit.
        number: u64,
        /// `NotLeader`, `Busy` or `Stopped`.
        status: Status,
        /// With `NotLeader`: who may lead.
        hint: Option<ReplicaId>,
    },
    /// A replica has proven to be the leader by executing a request.
    Leader(ReplicaId),
}

/// A request that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The number given at its submit.
    pub number: u64,
    /// How.
    pub outcome: Outcome,
    /// From its submit through all attempts and pauses, to when its answer was read.
    pub latency: Duration,
    /// When it was submitted.
    pub submitted_at: Instant,
    /// Attempts made.
    pub attempts: u32,
}

/// What a client has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounters {
    /// Requests submitted.
    pub submitted: u64,
    /// Requests that ended as done.
    pub done: u64,
    /// Requests that ended otherwise.
    pub failed: u64,
    /// Attempts refused with `Busy`.
    pub busy: u64,
    /// Attempts refused with `NotLeader` or `Stopped`.
    pub not_leader: u64,
    /// Attempts whose answer was `Unknown`.
    pub unknown_answers: u64,
    /// Attempts that got no answer in time.
    pub timed_out: u64,
    /// Attempts whose connection was lost.
    pub connection_lost: u64,
    /// Attempts beyond the first.
    pub retried: u64,
    /// Times another replica than before proved to be the leader.
    pub leader_changes: u64,
    /// Sessions that the cluster no longer knew.
    pub sessions_expired: u64,
}
