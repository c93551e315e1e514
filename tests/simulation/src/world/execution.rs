//! What the executors of the world are told, in its order.

use super::World;
use crate::oracle::Violation;
use crate::protocol::SimulatedProtocol;
use quorate_framework::{Digest, ExecutorCommand, Outcome, Position, ReplicaId};
use quorate_node::driver::{PlacedOrder, SnapshotOrder};

impl<P: SimulatedProtocol> World<P> {
    /// Executes what was ordered, and in between carries out the orders about snapshots, each in its place.
    pub(super) fn execute(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        let Some(running) = self.running_mut(replica) else { return Ok(()) };
        let mut commands = std::mem::take(&mut running.output.commands);
        let mut done = 0;
        for PlacedOrder { after, order } in std::mem::take(&mut running.output.orders) {
            let first = commands.drain(..after.saturating_sub(done)).collect();
            done = after;
            self.apply(replica, first)?;
            match order {
                SnapshotOrder::Take(base) => self.take_snapshot(replica, base)?,
                SnapshotOrder::Install { id, base } => self.install_snapshot(replica, id, &base)?,
            }
        }
        self.apply(replica, commands)
    }

    fn apply(&mut self, replica: ReplicaId, commands: Vec<ExecutorCommand>) -> Result<(), Violation> {
        let Some(running) = self.running_mut(replica).filter(|_| !commands.is_empty()) else { return Ok(()) };
        let mut outcome = Outcome::default();
        running
            .executor
            .apply(commands, &mut outcome)
            .map_err(|error| Violation::new("executor", format!("replica {replica}: {error}")))?;
        running.snapshots.executed(outcome.transactions);
        running.driver.executed(outcome, &mut running.output);
        Ok(())
    }

    /// A state at a position must be the same everywhere.
    pub(super) fn compare_digest(
        &mut self,
        replica: ReplicaId,
        position: Position,
        digest: Digest,
    ) -> Result<(), Violation> {
        let (first, by) = *self.digests.entry(position).or_insert((digest, replica));
        if first == digest {
            return Ok(());
        }
        let what = format!("the states of replicas {by} and {replica} at {position} differ");
        Err(Violation::new("state-machine safety", what))
    }
}
