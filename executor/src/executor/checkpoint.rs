//! What outlives the process: snapshots of the executed state, and what a store on disk keeps beside the entries.

use super::{KvExecutor, store_failed};
use crate::snapshot::{SnapshotError, SnapshotHeader, SnapshotWriter};
use crate::store::{ExecutorState, OrderedStore, PersistLater, StoreError};
use quorate_framework::{BlockId, ClusterId, ExecutorError, Position, SnapshotBase};

impl<S: OrderedStore> KvExecutor<S> {
    /// The store alone. What is executed ahead is dropped.
    #[must_use]
    pub fn into_store(self) -> S {
        self.store
    }

    /// Makes the executed state survive a power cut, where the store is on disk; gives the position up to which it now vouches for
    /// itself: what the log holds up to there may be forgotten. A store in memory gives zero: it is a snapshot file that vouches for it.
    /// Blocks.
    ///
    /// # Errors
    /// [`ExecutorError::Store`]; final.
    pub fn persist(&mut self) -> Result<Position, ExecutorError> {
        let persisted = self.store.persist().map_err(store_failed);
        if let Err(error) = &persisted {
            self.failed = Some(error.clone());
        }
        persisted
    }

    /// [`KvExecutor::persist`] for another thread, which must stop the replica if it fails.
    #[must_use]
    pub fn persist_later(&self) -> PersistLater {
        self.store.persist_later()
    }

    /// Begins a snapshot of the committed state, which must be exactly the one at the base's position. Execution may go on at once;
    /// [`SnapshotWriter::step`] with [`KvExecutor::store`] gives the bytes.
    ///
    /// # Errors
    /// [`SnapshotError::NotAt`]; [`SnapshotError::Store`].
    pub fn snapshot(
        &mut self,
        cluster: ClusterId,
        base: SnapshotBase,
    ) -> Result<SnapshotWriter<S::View>, SnapshotError> {
        if base.position != self.executed {
            return Err(SnapshotError::NotAt { wanted: base.position, executed: self.executed });
        }
        let ahead = self.drop_speculation();
        let (sessions, view) = (self.sessions.image(), self.store.view());
        if let Some(range) = ahead {
            self.run_ahead(range).map_err(|error| {
                self.failed = Some(error.clone());
                StoreError::Medium(error.to_string())
            })?;
        }
        let header = SnapshotHeader { cluster, base, block: self.block, limits: self.limits };
        Ok(SnapshotWriter::new(header, view?, sessions))
    }

    /// Lets the store, if it keeps such things, join what changed beside the entries to its open batch.
    pub(super) fn keep_state(&mut self, block: BlockId) -> Result<(), ExecutorError> {
        if !S::KEEPS_EXECUTOR_STATE {
            return Ok(());
        }
        let changes = self.sessions.take_changes();
        let state = ExecutorState { block, limits: &self.limits, sessions: &self.sessions, changes };
        self.store.keep_state(state).map_err(store_failed)
    }
}
