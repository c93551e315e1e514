//! Leader completeness: what is committed in a term is in the log of each later leader (Raft §5.4).

use super::Violation;
use quorate_framework::{BlockId, ExecuteRange, Position, ReplicaId};
use quorate_raft::{Raft, Term, block_of};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct LeaderCompleteness {
    /// What was committed: the block, and the lowest term in which a replica was when it executed it.
    committed: BTreeMap<Position, (BlockId, Term)>,
    /// The leaderships that were looked at.
    checked: BTreeMap<ReplicaId, (u64, Term)>,
}

impl LeaderCompleteness {
    pub(super) fn committed(&mut self, term: Term, range: &ExecuteRange) {
        for (batch, position) in range.batches.iter().zip(range.first.0..) {
            let known = self.committed.entry(Position(position)).or_insert((batch.block, term));
            known.1 = known.1.min(term);
        }
    }

    pub(super) fn check(&mut self, replica: ReplicaId, life: u64, core: &Raft) -> Result<(), Violation> {
        if !core.is_leader() || self.checked.insert(replica, (life, core.term())) == Some((life, core.term())) {
            return Ok(());
        }
        let held = self.committed.range(core.base_index().next()..);
        for (index, (block, in_term)) in held.filter(|(_, (_, in_term))| *in_term < core.term()) {
            let own = core.term_at(*index).map(|term| block_of(term, *index));
            if own != Some(*block) {
                let what = format!(
                    "leader {replica} of term {} lacks entry {index}, committed in term {in_term} or before",
                    core.term()
                );
                return Err(Violation::new("leader completeness", what));
            }
        }
        Ok(())
    }
}
