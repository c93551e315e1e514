//! The state machine as the shell uses it: execution, and snapshots of its state.

pub mod local;
pub mod threaded;

pub use local::LocalMachine;
pub use threaded::ThreadedMachine;

use async_trait::async_trait;
use quorate_framework::{ExecutorError, SnapshotBase, TransactionExecutor};
use std::future::Future;
use std::pin::Pin;

/// How a state machine keeps its state over a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// In memory: a checkpoint is a snapshot file.
    InSnapshots,
    /// In a store on disk, which is behind by a few batches at most: a checkpoint writes the rest out.
    OnDisk,
}

/// A state on its way to the disk: ends when it is durable.
pub type Persisting = Pin<Box<dyn Future<Output = Result<(), ExecutorError>> + Send>>;

/// A state machine whose state can be given away, piece by piece, while execution goes on. One snapshot at a time.
#[async_trait]
pub trait StateMachine: TransactionExecutor + 'static {
    /// How it keeps its state.
    fn keeping(&self) -> Keeping;

    /// Begins a snapshot of the state as executed, which is that of the base's position. One that was under way is dropped.
    ///
    /// # Errors
    /// [`ExecutorError`], also if the state is not at the base's position; the replica must then stop.
    async fn begin_snapshot(&mut self, base: &SnapshotBase) -> Result<(), ExecutorError>;

    /// Appends the next piece of the snapshot under way to `bytes`, about so many, and gives whether it is the last.
    ///
    /// # Errors
    /// [`ExecutorError`]; the replica must then stop.
    async fn next_piece(&mut self, budget_bytes: usize, bytes: &mut Vec<u8>) -> Result<bool, ExecutorError>;

    /// Lets the snapshot under way go, if there is one.
    fn drop_snapshot(&mut self);

    /// Makes the state as executed now durable in the store itself. Only with [`Keeping::OnDisk`], and one at a time. What is given waits for
    /// the disk, while execution may go on.
    ///
    /// # Errors
    /// [`ExecutorError`], here or there; the replica must then stop.
    async fn persist(&mut self) -> Result<Persisting, ExecutorError>;
}
