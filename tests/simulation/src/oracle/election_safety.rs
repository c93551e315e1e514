//! Election safety: at most one leader a term (Raft §5.2).

use super::Violation;
use quorate_framework::ReplicaId;
use quorate_raft::{Raft, Term};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct ElectionSafety {
    /// Who led each term, in which life.
    leaders: BTreeMap<Term, (ReplicaId, u64)>,
}

impl ElectionSafety {
    pub(super) fn check(&mut self, replica: ReplicaId, life: u64, core: &Raft) -> Result<(), Violation> {
        if !core.is_leader() {
            return Ok(());
        }
        let (leader, in_life) = *self.leaders.entry(core.term()).or_insert((replica, life));
        if (leader, in_life) == (replica, life) {
            return Ok(());
        }
        let what = format!(
            "replica {replica} (life {life}) leads term {}, which replica {leader} (life {in_life}) led",
            core.term()
        );
        Err(Violation::new("election safety", what))
    }
}
