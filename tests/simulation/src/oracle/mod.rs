//! What must never happen, one file each, named as in the list of invariants of the Raft crate.

mod acknowledged_writes;
mod bounds;
mod disk_stall;
mod election_safety;
mod leader_append_only;
mod leader_completeness;
mod log_matching;
mod own_term_commit;
mod promises;
mod quorum_contact;
mod state_machine_safety;

pub use acknowledged_writes::check_tokens;
pub use bounds::check as check_bounds;
pub use state_machine_safety::StateMachineSafety;

use crate::coverage::Coverage;
use crate::event::Flight;
use crate::model::Contents;
use crate::protocol::{Moment, Watch};
use quorate_framework::{Consensus, ExecutorCommand, ReplicaId, Time};
use quorate_raft::{Raft, RaftRecord};
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

/// All oracles that watch a run of Raft.
#[derive(Debug, Default)]
pub struct Oracles {
    elections: election_safety::ElectionSafety,
    append_only: leader_append_only::LeaderAppendOnly,
    matching: log_matching::LogMatching,
    completeness: leader_completeness::LeaderCompleteness,
    execution: state_machine_safety::StateMachineSafety,
    own_term: own_term_commit::OwnTermCommit,
    contact: quorum_contact::QuorumContact,
    stall: disk_stall::DiskStall,
}

impl Watch<Raft> for Oracles {
    fn after_turn(
        &mut self,
        at: Moment,
        core: &Raft,
        commands: &[ExecutorCommand],
        coverage: &mut Coverage,
    ) -> Result<(), Violation> {
        self.own_term.check(at.replica, at.life, core)?;
        self.contact.check(at, core)?;
        self.stall.check(at, core, coverage)?;
        self.elections.check(at.replica, at.life, core)?;
        self.append_only.check(at.replica, at.life, core)?;
        self.matching.check(at.replica, at.life, core)?;
        self.completeness.check(at.replica, at.life, core)?;
        for command in commands {
            if let ExecutorCommand::Execute { range, .. } = command {
                self.execution.check(at.replica, range)?;
                self.completeness.committed(core.term(), range);
            }
        }
        Ok(())
    }

    fn before_sending(&self, durable: &Contents<RaftRecord>, flight: &Flight) -> Result<(), Violation> {
        promises::check(durable, flight)
    }

    fn heard(&mut self, at: ReplicaId, from: ReplicaId, now: Time) {
        self.contact.heard(at, from, now);
    }

    fn count_states(&self, core: &Raft, coverage: &mut Coverage) {
        let status = core.status();
        coverage.count(match status.role {
            "leader" => "role: leader",
            "candidate" => "role: candidate",
            "pre_candidate" => "role: pre-candidate",
            _ => "role: follower",
        });
        if status.role == "leader" {
            for peer in &status.peers {
                coverage.count(match peer.state {
                    "probe" => "progress: probe",
                    "replicate" => "progress: replicate",
                    "snapshot" => "progress: snapshot",
                    _ => "progress: needs snapshot",
                });
            }
        }
    }
}
