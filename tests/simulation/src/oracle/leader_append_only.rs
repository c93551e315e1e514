//! Leader append-only: a leader never overwrites or drops its own entries (Raft §5.3).

use super::Violation;
use quorate_framework::{Position, ReplicaId};
use quorate_raft::{Raft, Term};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct LeaderAppendOnly {
    /// The last entry each leader was seen with: its life, term, and index and term of the entry.
    seen: BTreeMap<ReplicaId, (u64, Term, Position, Term)>,
}

impl LeaderAppendOnly {
    pub(super) fn check(&mut self, replica: ReplicaId, life: u64, core: &Raft) -> Result<(), Violation> {
        if !core.is_leader() {
            self.seen.remove(&replica);
            return Ok(());
        }
        let (last, last_term) = core.last_entry();
        let before = self.seen.insert(replica, (life, core.term(), last, last_term));
        let Some((_, _, index, term)) = before.filter(|(in_life, of, _, _)| (*in_life, *of) == (life, core.term()))
        else {
            return Ok(());
        };
        let kept = last >= index && (index < core.base_index() || core.term_at(index) == Some(term));
        if kept {
            return Ok(());
        }
        let what =
            format!("leader {replica} of term {} held entry {index} of term {term}, and no longer does", core.term());
        Err(Violation::new("leader append-only", what))
    }
}
