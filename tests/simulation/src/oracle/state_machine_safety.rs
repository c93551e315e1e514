//! State-machine safety: no two replicas execute different entries at one index (Raft §5.4.3).

use super::Violation;
use bytes::Bytes;
use quorate_framework::{BlockId, ExecuteRange, Position, ReplicaId};
use std::collections::BTreeMap;

/// What was executed where, by whom first.
#[derive(Debug, Default)]
pub struct StateMachineSafety {
    executed: BTreeMap<Position, (BlockId, Bytes, ReplicaId)>,
}

impl StateMachineSafety {
    /// Looks at what a replica is about to execute as committed.
    ///
    /// # Errors
    /// A [`Violation`].
    pub fn check(&mut self, replica: ReplicaId, range: &ExecuteRange) -> Result<(), Violation> {
        for (batch, position) in range.batches.iter().zip(range.first.0..) {
            let first = self
                .executed
                .entry(Position(position))
                // Copied: what a replica executed must not pin its log.
                .or_insert_with(|| (batch.block, Bytes::copy_from_slice(&batch.payload), replica));
            if (first.0, &first.1) != (batch.block, &batch.payload) {
                let what = format!(
                    "replica {replica} executes block {} at {position}, replica {} executed {}",
                    batch.block, first.2, first.0
                );
                return Err(Violation::new("state-machine safety", what));
            }
        }
        Ok(())
    }
}
