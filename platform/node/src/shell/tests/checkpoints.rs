//! A store's checkpoint beside execution.

use crate::shell::execution::{Done, Execution, Task};
use crate::state_machine::{Keeping, Persisting, StateMachine};
use async_trait::async_trait;
use quorate_framework::{ExecutorCommand, ExecutorError, Outcome, Position, SnapshotBase, TransactionExecutor};
use std::sync::Arc;
use tokio::sync::Notify;

/// A machine whose disk takes until it is told, and then does what it is told.
struct SlowDisk {
    told: Arc<Notify>,
    outcome: Result<(), ExecutorError>,
}

#[async_trait]
impl TransactionExecutor for SlowDisk {
    async fn execute(&mut self, _group: &mut Vec<ExecutorCommand>) -> Result<Outcome, ExecutorError> {
        Ok(Outcome { executed: Position(9), ..Outcome::default() })
    }
}

#[async_trait]
impl StateMachine for SlowDisk {
    fn keeping(&self) -> Keeping {
        Keeping::OnDisk
    }

    async fn begin_snapshot(&mut self, _base: &SnapshotBase) -> Result<(), ExecutorError> {
        Ok(())
    }

    async fn next_piece(&mut self, _budget_bytes: usize, _bytes: &mut Vec<u8>) -> Result<bool, ExecutorError> {
        Ok(true)
    }

    fn drop_snapshot(&mut self) {}

    async fn persist(&mut self) -> Result<Persisting, ExecutorError> {
        let (told, outcome) = (Arc::clone(&self.told), self.outcome.clone());
        Ok(Box::pin(async move {
            told.notified().await;
            outcome
        }))
    }
}

fn base() -> SnapshotBase {
    SnapshotBase { position: Position(8), ..SnapshotBase::default() }
}

/// A machine with a checkpoint under way, and what lets that end.
async fn persisting(outcome: Result<(), ExecutorError>) -> (Execution<SlowDisk>, Arc<Notify>) {
    let told = Arc::new(Notify::new());
    let mut execution = Execution::new(SlowDisk { told: Arc::clone(&told), outcome });
    assert!(execution.begin(Task::Persist(base())).await.is_none(), "the disk takes its time");
    assert!(execution.is_idle() && execution.is_persisting());
    (execution, told)
}

#[tokio::test]
async fn execution_goes_on_while_a_store_makes_its_checkpoint_and_hears_of_its_end() {
    let (mut execution, told) = persisting(Ok(())).await;
    let done = execution.begin(Task::Execute).await;
    assert!(matches!(done, Some(Ok(Done::Executed(Outcome { executed: Position(9), .. })))), "{done:?}");
    assert!(execution.is_idle() && execution.is_persisting() && execution.look().await.is_none());
    told.notify_one();
    execution.finished().await;
    assert!(execution.is_persisting(), "nobody has heard of it");
    let done = execution.look().await;
    assert!(matches!(&done, Some(Ok(Done::Persisted(of))) if *of == base()), "{done:?}");
    assert!(!execution.is_persisting() && execution.look().await.is_none(), "once");
}

#[tokio::test]
async fn a_checkpoint_that_fails_is_an_error_like_that_of_any_task() {
    let (mut execution, told) = persisting(Err(ExecutorError::Store("the disk is full".to_owned()))).await;
    told.notify_one();
    let done = execution.look().await;
    assert!(matches!(&done, Some(Err(ExecutorError::Store(why))) if why == "the disk is full"), "{done:?}");
}

#[tokio::test]
async fn of_a_checkpoint_of_a_state_whose_place_was_taken_nothing_is_heard() {
    let (mut execution, told) = persisting(Ok(())).await;
    execution.forget_persisting();
    told.notify_one();
    assert!(!execution.is_persisting() && execution.look().await.is_none());
}
