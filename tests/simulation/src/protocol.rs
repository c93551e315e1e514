//! What the world must know of a protocol that runs in it.

use crate::coverage::Coverage;
use crate::event::Flight;
use crate::model::Contents;
use crate::oracle::{Oracles, Violation};
use crate::plan::Plan;
use crate::raft_contents;
use quorate_framework::{Consensus, ExecutorCommand, RecoverySpec, ReplicaId, Time};
use quorate_raft::{Raft, RaftRecord, RaftSettings, RaftState};
use std::time::Duration;

/// The records of a simulated protocol.
pub type RecordOf<P> = <<P as SimulatedProtocol>::Core as Consensus>::Record;
/// What is durable of a simulated protocol.
pub type ContentsOf<P> = Contents<RecordOf<P>>;
/// What a simulated protocol starts from.
pub type StateOf<P> = <RecordOf<P> as RecoverySpec>::State;

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
    /// For how long the oldest thing handed to its disk has not been reported durable.
    pub unreported_for: Duration,
}

/// What watches the replicas of one protocol.
pub trait Watch<C: Consensus>: Default {
    /// Looks at a core after its turn, and at what it is about to execute.
    ///
    /// # Errors
    /// The first [`Violation`].
    fn after_turn(
        &mut self,
        at: Moment,
        core: &C,
        commands: &[ExecutorCommand],
        coverage: &mut Coverage,
    ) -> Result<(), Violation>;

    /// Looks at what a replica is about to say, against what its disk reported durable.
    ///
    /// # Errors
    /// A [`Violation`].
    fn before_sending(&self, durable: &Contents<C::Record>, flight: &Flight) -> Result<(), Violation>;

    /// A replica got something from a peer.
    fn heard(&mut self, at: ReplicaId, from: ReplicaId, now: Time);

    /// Counts the protocol's states.
    fn count_states(&self, core: &C, coverage: &mut Coverage);
}

/// A protocol that runs in the world.
pub trait SimulatedProtocol {
    /// Its core: the shipped one.
    type Core: Consensus<Record: Clone>;
    /// What watches it.
    type Watch: Watch<Self::Core>;

    /// Its name in a data directory.
    const NAME: &'static str;

    /// A core under a plan.
    fn core(plan: &Plan, replica: ReplicaId) -> Self::Core;

    /// Bytes of the log that a recovered state brings along.
    fn recovered_log_bytes(state: &StateOf<Self>) -> usize;

    /// Whether a start that found the second found exactly the first, but for what may differ.
    fn is_same(expected: &ContentsOf<Self>, found: &ContentsOf<Self>) -> bool;

    /// Contents in a line.
    fn describe(contents: &ContentsOf<Self>) -> String;
}

/// Raft.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedRaft;

impl SimulatedProtocol for SimulatedRaft {
    type Core = Raft;
    type Watch = Oracles;

    const NAME: &'static str = quorate_recovery_raft::PROTOCOL;

    fn core(plan: &Plan, _replica: ReplicaId) -> Raft {
        Raft::new(RaftSettings {
            log_memory_bytes: plan.log_memory_bytes,
            log_held_bytes: plan.log_held_bytes,
            log_tail_entries: plan.log_tail_entries,
            in_flight_messages: plan.in_flight_messages,
            entries_per_append: plan.entries_per_append,
            snapshots: true,
            ..RaftSettings::default()
        })
    }

    fn recovered_log_bytes(state: &RaftState) -> usize {
        state.entries.iter().map(quorate_framework::entry::Entry::encoded_length).sum()
    }

    fn is_same(expected: &Contents<RaftRecord>, found: &Contents<RaftRecord>) -> bool {
        raft_contents::is_same(expected, found)
    }

    fn describe(contents: &Contents<RaftRecord>) -> String {
        let state = &contents.state;
        format!(
            "{:?}, entries {} to {}, snapshot {}, members {:?}",
            state.hard_state,
            state.base.0.next(),
            raft_contents::last_of(state),
            contents.snapshot_position(),
            contents.members.as_ref().map(std::collections::BTreeMap::len),
        )
    }
}
