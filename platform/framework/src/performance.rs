//! The load generator's contract.

use crate::ids::ReplicaId;
use crate::reply::Status;
use async_trait::async_trait;
use bytes::Bytes;
use std::time::Duration;

/// A batch that a load generator wants executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadBatch {
    /// Its number, echoed when it ends.
    pub number: u64,
    /// Commands in it.
    pub count: u32,
    /// The encoded commands.
    pub body: Bytes,
}

/// What a load generator has counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadFigures {
    /// Transactions accepted and answered `Ok`.
    pub accepted: u64,
    /// Refusals seen (`Busy`, `NotLeader`), each attempt counted.
    pub refused: u64,
    /// Attempts beyond the first.
    pub retried: u64,
    /// Batches that ended in an error or unknown.
    pub errors: u64,
    /// Batches in flight now.
    pub in_flight: u64,
}

/// Makes load under a window and keeps its account; both load generators are built on it.
#[cfg_attr(any(test, feature = "testing"), mockall::automock)]
#[async_trait]
pub trait PerformanceManager: Send {
    /// Appends the next batches, `most` (at least one) at most: those that may go out now. Waits while the window is full or the rate
    /// does not allow one. False ends the run; nothing was appended then. Dropping the wait loses nothing.
    async fn next_batches(&mut self, most: usize, batches: &mut Vec<LoadBatch>) -> bool;

    /// A batch was answered, `latency` after it was submitted; gives its slot back.
    fn on_reply(&mut self, number: u64, status: Status, latency: Duration);

    /// An attempt was refused or redirected and will be repeated; its slot stays taken.
    fn on_redirect(&mut self, number: u64, to: Option<ReplicaId>);

    /// A batch ended without an answer; gives its slot back.
    fn on_lost(&mut self, number: u64);

    /// The account so far.
    fn figures(&self) -> LoadFigures;
}
