//! Log matching: logs that hold an entry of equal index and term are equal up to it (Raft §5.3).
//!
//! By induction: wherever an entry of this index and term appears, it has the same bytes and the same term before it.

use super::Violation;
use quorate_framework::{Position, ReplicaId};
use quorate_raft::{Raft, Term};
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Default)]
pub(super) struct LogMatching {
    /// Of each entry ever seen: the term before it, and its CRC.
    entries: HashMap<(Position, Term), (Term, u32)>,
    /// What each replica's log was last seen to hold.
    known: BTreeMap<ReplicaId, (u64, BTreeMap<Position, Term>)>,
}

impl LogMatching {
    pub(super) fn check(&mut self, replica: ReplicaId, life: u64, core: &Raft) -> Result<(), Violation> {
        let (last, _) = core.last_entry();
        let (of_life, known) = self.known.entry(replica).or_default();
        if *of_life != life {
            (*of_life, *known) = (life, BTreeMap::new());
        }
        known.split_off(&last.next());
        let mut index = last;
        // Back to where the log is as it was last seen; before it nothing can have changed without a change here.
        while index > core.base_index() {
            let (Some(term), Some(entry)) = (core.term_at(index), core.entry_at(index)) else { break };
            if known.get(&index) == Some(&term) {
                break;
            }
            known.insert(index, term);
            let before = core.term_at(Position(index.0 - 1)).unwrap_or_default();
            let seen = *self.entries.entry((index, term)).or_insert((before, entry.checksum()));
            if seen != (before, entry.checksum()) {
                let what = format!(
                    "entry {index} of term {term} at replica {replica} follows term {before} with CRC {:08x}, elsewhere term {} \
                     with CRC {:08x}",
                    entry.checksum(),
                    seen.0,
                    seen.1
                );
                return Err(Violation::new("log matching", what));
            }
            index = Position(index.0 - 1);
        }
        Ok(())
    }
}
