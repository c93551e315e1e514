//! What the executor's state holds beyond the commit that is known here, as after a crash that cut the log and not the store.
//!
//! It is committed, so it is not executed again: the entries up to there are skipped as they are committed once more. That is right only
//! if they are the same ones. A store that is another's, or that outlived what the cluster has lost, would go on from a state that no
//! other replica has, and nobody would notice. So its last entry is compared as soon as it can be; by the log matching property all
//! before it are equal if that one is (Raft §5.3).

use crate::raft::{Raft, RaftEffects};
use crate::term::{Term, term_of};
use quorate_framework::{ExecutedAt, LOST_DATA, Position};

impl Raft {
    /// At the start: compares where the state ends with the log, as far as that reaches. False, and halted, if they contradict each other.
    pub(crate) fn join_executed(&mut self, executed: ExecutedAt, effects: &mut RaftEffects) -> bool {
        let ExecutedAt { position, block } = executed;
        if position == Position::ZERO {
            return true;
        }
        let Some(term) = term_of(block, position) else {
            self.halt(effects, format!("the state ends at {position} with block {block}, which is none of Raft's"));
            return false;
        };
        match self.log.term_at(position) {
            Some(found) if found == term => {
                // It was executed, so it is committed, and the log holds it: what cuts it cuts a committed entry.
                self.commit = self.commit.max(position);
                true
            }
            // Up to the snapshot the log's entries are the committed ones.
            Some(found) if position <= self.commit => {
                self.halt_as_diverged(position, term, found, effects);
                false
            }
            // An entry that was replaced may come back with a power cut, of an earlier term or of a later one: what replaced it may have been
            // committed by a leader of a still later term (§5.4.2, figure 8). It was executed, and is to be found again.
            _ => {
                self.ahead = Some((position, term));
                true
            }
        }
    }

    /// After each rise of the commit: is what is committed what the state holds? False, and halted, if not.
    pub(crate) fn check_ahead(&mut self, effects: &mut RaftEffects) -> bool {
        let Some((position, term)) = self.ahead else { return true };
        let reached = self.commit.min(position);
        let Some(found) = self.log.term_at(reached) else { return true };
        if reached < position && found <= term {
            return true;
        }
        // Terms never fall along a log: one above it before that entry leaves no place for it.
        if reached < position || found != term {
            self.halt_as_diverged(position, term, found, effects);
            return false;
        }
        self.ahead = None;
        true
    }

    fn halt_as_diverged(&mut self, position: Position, term: Term, found: Term, effects: &mut RaftEffects) {
        self.halt(
            effects,
            format!(
                "the store's state ends with entry {position} of term {term}, and an entry of term {found} is committed there or before: \
                 the store belongs to another log, or entries that were committed are lost; keep a copy of the directory. {LOST_DATA}"
            ),
        );
    }
}
