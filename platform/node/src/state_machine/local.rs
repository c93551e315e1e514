//! A key-value executor over any store, with a snapshot of it under way or none.

use super::{Keeping, Persisting, StateMachine};
use async_trait::async_trait;
use quorate_executor::{KvExecutor, OrderedStore, PersistLater, SnapshotWriter};
use quorate_framework::{
    ClusterId, ExecutedAt, ExecutorCommand, ExecutorError, Outcome, SnapshotBase, TransactionExecutor,
};
use std::fmt;
use std::future::ready;

/// An executor that works where it is called.
pub struct LocalMachine<S: OrderedStore> {
    executor: KvExecutor<S>,
    cluster: ClusterId,
    keeping: Keeping,
    writer: Option<SnapshotWriter<S::View>>,
}

impl<S: OrderedStore> fmt::Debug for LocalMachine<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LocalMachine").field("executed", &self.executor.executed()).finish_non_exhaustive()
    }
}

fn failed(error: impl fmt::Display) -> ExecutorError {
    ExecutorError::Store(error.to_string())
}

impl<S: OrderedStore> LocalMachine<S> {
    /// A machine over an executor whose store keeps its state this way.
    #[must_use]
    pub fn new(executor: KvExecutor<S>, cluster: ClusterId, keeping: Keeping) -> LocalMachine<S> {
        LocalMachine { executor, cluster, keeping, writer: None }
    }

    /// Where the executed state ends.
    #[must_use]
    pub fn executed(&self) -> ExecutedAt {
        self.executor.executed_at()
    }

    /// How it keeps its state.
    #[must_use]
    pub fn kept(&self) -> Keeping {
        self.keeping
    }

    /// [`TransactionExecutor::execute`], waiting where the store does.
    ///
    /// # Errors
    /// As there.
    pub fn apply(&mut self, group: &mut Vec<ExecutorCommand>) -> Result<Outcome, ExecutorError> {
        let mut outcome = Outcome::default();
        self.executor.apply(group.drain(..), &mut outcome)?;
        Ok(outcome)
    }

    /// [`StateMachine::begin_snapshot`], at once.
    ///
    /// # Errors
    /// As there.
    pub fn begin(&mut self, base: &SnapshotBase) -> Result<(), ExecutorError> {
        self.writer = None;
        self.writer = Some(self.executor.snapshot(self.cluster, base.clone()).map_err(failed)?);
        Ok(())
    }

    /// [`StateMachine::next_piece`], waiting where the store does.
    ///
    /// # Errors
    /// As there.
    pub fn piece(&mut self, budget_bytes: usize, bytes: &mut Vec<u8>) -> Result<bool, ExecutorError> {
        let Some(writer) = &mut self.writer else {
            return Err(ExecutorError::Store("a piece was asked for, and no snapshot is under way".to_owned()));
        };
        let is_last = writer.step(self.executor.store(), budget_bytes, bytes).map_err(failed)?.is_some();
        if is_last {
            self.writer = None;
        }
        Ok(is_last)
    }

    /// [`StateMachine::drop_snapshot`].
    pub fn let_go(&mut self) {
        self.writer = None;
    }

    /// What does the work of [`StateMachine::persist`], on any thread.
    #[must_use]
    pub fn persist_later(&self) -> PersistLater {
        self.executor.persist_later()
    }
}

#[async_trait]
impl<S: OrderedStore> TransactionExecutor for LocalMachine<S> {
    async fn execute(&mut self, group: &mut Vec<ExecutorCommand>) -> Result<Outcome, ExecutorError> {
        self.apply(group)
    }
}

#[async_trait]
impl<S: OrderedStore + 'static> StateMachine for LocalMachine<S> {
    fn keeping(&self) -> Keeping {
        self.kept()
    }

    async fn begin_snapshot(&mut self, base: &SnapshotBase) -> Result<(), ExecutorError> {
        self.begin(base)
    }

    async fn next_piece(&mut self, budget_bytes: usize, bytes: &mut Vec<u8>) -> Result<bool, ExecutorError> {
        self.piece(budget_bytes, bytes)
    }

    fn drop_snapshot(&mut self) {
        self.let_go();
    }

    async fn persist(&mut self) -> Result<Persisting, ExecutorError> {
        Ok(Box::pin(ready(self.executor.persist().map(drop))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_executor::{MemoryStore, ReplicatedLimits};
    use quorate_framework::Position;

    #[tokio::test]
    async fn a_snapshot_is_given_whole_and_only_at_its_own_position() {
        let executor = KvExecutor::new(MemoryStore::new(), ReplicatedLimits::default());
        let mut machine = LocalMachine::new(executor, ClusterId([3; 16]), Keeping::InSnapshots);
        assert_eq!((machine.keeping(), machine.executed()), (Keeping::InSnapshots, ExecutedAt::default()));
        let elsewhere = SnapshotBase { position: Position(4), ..SnapshotBase::default() };
        assert!(matches!(machine.begin_snapshot(&elsewhere).await, Err(ExecutorError::Store(_))));
        machine.begin_snapshot(&SnapshotBase::default()).await.unwrap();
        let mut bytes = Vec::new();
        while !machine.next_piece(64, &mut bytes).await.unwrap() {}
        assert!(bytes.starts_with(b"QUORSNAP") && bytes.ends_with(b"QUORDONE"));
        assert!(machine.next_piece(64, &mut bytes).await.is_err(), "it is over");
    }
}
