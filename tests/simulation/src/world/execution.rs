//! What the executors of the world are told, in its order.

use super::World;
use crate::oracle::Violation;
use crate::protocol::SimulatedProtocol;
use crate::random::SimulatedRandom;
use crate::written_out::WrittenOut;
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
        self.write_out_now_and_then(replica)
    }

    /// A store on disk writes a memory table out when it is full, which has nothing to do with anything else: here by the seed.
    fn write_out_now_and_then(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        if !self.plan.keeps_store {
            return Ok(());
        }
        let seed = self.plan.seed;
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        let Some(running) = process.running.as_mut() else { return Ok(()) };
        // Drawn from a generator of its own, so that it changes nothing else.
        let place = SimulatedRandom::new(seed ^ running.executor.executed().0 << 8 ^ u64::from(replica.0)).draw();
        if place.is_multiple_of(4) {
            let written = WrittenOut::of(&mut running.executor, running.snapshots.store_generation());
            let written = written.map_err(|error| Violation::new("executor", format!("replica {replica}: {error}")))?;
            process.written_out = Some(written);
            self.coverage.count("store: written out");
        }
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
