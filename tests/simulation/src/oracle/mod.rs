//! What must never happen, one file each, named as in the list of invariants of the Raft crate.

mod acknowledged_writes;
mod bounds;
mod election_safety;
mod leader_append_only;
mod leader_completeness;
mod log_matching;
mod own_term_commit;
mod promises;
mod quorum_contact;
mod state_machine_safety;

pub use acknowledged_writes::check_tokens;

use crate::disk::Disk;
use crate::event::Flight;
use quorate_framework::{ExecutorCommand, ReplicaId, Time};
use quorate_node::driver::DriverStatus;
use quorate_raft::Raft;
use std::fmt;

/// A broken promise of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which oracle saw it.
    pub oracle: &'static str,
    /// What it saw.
    pub what: String,
}

impl Violation {
    /// What an oracle saw.
    #[must_use]
    pub fn new(oracle: &'static str, what: String) -> Violation {
        Violation { oracle, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.oracle, self.what)
    }
}

/// All oracles that watch a run.
#[derive(Debug, Default)]
pub struct Oracles {
    elections: election_safety::ElectionSafety,
    append_only: leader_append_only::LeaderAppendOnly,
    matching: log_matching::LogMatching,
    completeness: leader_completeness::LeaderCompleteness,
    execution: state_machine_safety::StateMachineSafety,
    own_term: own_term_commit::OwnTermCommit,
    contact: quorum_contact::QuorumContact,
}

impl Oracles {
    /// Looks at a core after its turn. `life` tells one process of the replica from the next.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn after_turn(
        &mut self,
        replica: ReplicaId,
        life: u64,
        core: &Raft,
        members: usize,
        now: Time,
    ) -> Result<(), Violation> {
        self.own_term.check(replica, life, core)?;
        self.contact.check(replica, life, core, members, now)?;
        self.elections.check(replica, life, core)?;
        self.append_only.check(replica, life, core)?;
        self.matching.check(replica, life, core)?;
        self.completeness.check(replica, life, core)
    }

    /// A replica got something from a peer.
    pub fn heard(&mut self, at: ReplicaId, from: ReplicaId, now: Time) {
        self.contact.heard(at, from, now);
    }

    /// Looks at what a replica is about to execute.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn before_execution(
        &mut self,
        replica: ReplicaId,
        core: &Raft,
        commands: &[ExecutorCommand],
    ) -> Result<(), Violation> {
        for command in commands {
            if let ExecutorCommand::Execute { range, .. } = command {
                self.execution.check(replica, range)?;
                self.completeness.committed(core.term(), range);
            }
        }
        Ok(())
    }

    /// Looks at what a replica is about to say, against what its disk reported durable.
    ///
    /// # Errors
    /// A [`Violation`].
    pub fn before_sending(&self, disk: &Disk, flight: &Flight) -> Result<(), Violation> {
        promises::check(disk, flight)
    }

    /// Looks at queues and memory.
    ///
    /// # Errors
    /// A [`Violation`].
    pub fn bounds(&self, status: &DriverStatus, log_memory_bytes: usize) -> Result<(), Violation> {
        bounds::check(status, log_memory_bytes)
    }
}
