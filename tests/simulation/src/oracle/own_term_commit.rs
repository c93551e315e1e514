//! Commit in the own term: a leader raises its commit index only to an entry of its own term (Raft §5.4.2).

use super::Violation;
use quorate_framework::{Position, ReplicaId};
use quorate_raft::{Raft, Term};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct OwnTermCommit {
    /// The commit index of each leadership when it was last seen.
    seen: BTreeMap<ReplicaId, (u64, Term, Position)>,
}

impl OwnTermCommit {
    pub(super) fn check(&mut self, replica: ReplicaId, life: u64, core: &Raft) -> Result<(), Violation> {
        if !core.is_leader() {
            self.seen.remove(&replica);
            return Ok(());
        }
        let (term, commit) = (core.term(), core.commit_index());
        let before = self.seen.insert(replica, (life, term, commit));
        let raised = before.is_some_and(|(of_life, of, index)| (of_life, of) == (life, term) && commit > index);
        if raised && core.term_at(commit).is_some_and(|of| of != term) {
            let what = format!(
                "leader {replica} of term {term} committed up to entry {commit} of term {:?}",
                core.term_at(commit)
            );
            return Err(Violation::new("commit in the own term", what));
        }
        Ok(())
    }
}
