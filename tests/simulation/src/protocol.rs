//! What the world must know of a protocol that runs in it.

use crate::coverage::Coverage;
use crate::disk::Disk;
use crate::event::Flight;
use crate::oracle::{Oracles, Violation};
use crate::plan::Plan;
use quorate_framework::{Consensus, ExecutorCommand, ReplicaId, Time};
use quorate_raft::{Raft, RaftSettings};

/// Which replica is looked at, and when.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The replica.
    pub replica: ReplicaId,
    /// Tells one process of it from the next.
    pub life: u64,
    /// The true time.
    pub now: Time,
    /// Replicas in all.
    pub members: usize,
}

/// What watches the replicas of one protocol.
pub trait Watch<C: Consensus>: Default {
    /// Looks at a core after its turn, and at what it is about to execute.
    ///
    /// # Errors
    /// The first [`Violation`].
    fn after_turn(&mut self, at: Moment, core: &C, commands: &[ExecutorCommand]) -> Result<(), Violation>;

    /// Looks at what a replica is about to say, against what its disk reported durable.
    ///
    /// # Errors
    /// A [`Violation`].
    fn before_sending(&self, disk: &Disk<C>, flight: &Flight) -> Result<(), Violation>;

    /// A replica got something from a peer.
    fn heard(&mut self, at: ReplicaId, from: ReplicaId, now: Time);

    /// Counts the protocol's states.
    fn count_states(&self, core: &C, coverage: &mut Coverage);
}

/// A protocol that runs in the world.
pub trait SimulatedProtocol {
    /// Its core: the shipped one.
    type Core: Consensus;
    /// What watches it.
    type Watch: Watch<Self::Core>;

    /// A core under a plan.
    fn core(plan: &Plan, replica: ReplicaId) -> Self::Core;

    /// Bytes of the log that a recovered state brings along.
    fn recovered_log_bytes(disk: &Disk<Self::Core>) -> usize;
}

/// Raft.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedRaft;

impl SimulatedProtocol for SimulatedRaft {
    type Core = Raft;
    type Watch = Oracles;

    fn core(plan: &Plan, _replica: ReplicaId) -> Raft {
        Raft::new(RaftSettings {
            log_memory_bytes: plan.log_memory_bytes,
            in_flight_messages: plan.in_flight_messages,
            entries_per_append: plan.entries_per_append,
            ..RaftSettings::default()
        })
    }

    fn recovered_log_bytes(disk: &Disk<Raft>) -> usize {
        disk.state.entries.iter().map(quorate_framework::entry::Entry::encoded_length).sum()
    }
}
