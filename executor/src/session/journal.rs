//! How changes of the session table that were made ahead of the commit are undone.
//!
//! While a journal is open every change notes what was before; undoing runs the notes backwards. Changes name sessions by id, never
//! by slot, since a session that comes back may take another slot.

use super::{Session, SessionTable, StoredAnswer};
use quorate_framework::SessionId;

/// One change and what it takes to undo it.
#[derive(Debug)]
pub(super) enum Change {
    /// A session was opened.
    Opened { id: SessionId },
    /// The least recently applied session went.
    Evicted(Box<Session>),
    /// A session became the most recent; `next` came after it before.
    Touched { id: SessionId, next: SessionId },
    /// A low mark rose.
    Acknowledged { id: SessionId, low: u64, dropped: Vec<(u64, StoredAnswer)> },
    /// An answer was stored.
    Recorded { id: SessionId, sequence: u64, highest: u64 },
}

/// The changes since the journal was opened; none are noted while it is closed.
#[derive(Debug, Default)]
pub(super) struct Journal(Option<Vec<Change>>);

impl Journal {
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    pub(super) fn note(&mut self, change: impl FnOnce() -> Change) {
        if let Some(changes) = &mut self.0 {
            changes.push(change());
        }
    }
}

/// What changed in a session table, in order.
#[derive(Debug)]
pub struct SessionChanges(pub(super) Vec<Change>);

impl SessionChanges {
    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl SessionTable {
    /// The changes since the journal was opened; they stay, and the journal is closed.
    pub fn take_changes(&mut self) -> SessionChanges {
        SessionChanges(self.journal.0.take().unwrap_or_default())
    }

    /// From now on changes can be undone. A journal that is open goes on.
    pub fn open_journal(&mut self) {
        self.journal.0.get_or_insert_default();
    }

    /// The changes since the journal was opened stay.
    pub fn keep_changes(&mut self) {
        self.journal.0 = None;
    }

    /// Undoes the changes since the journal was opened, if it is open.
    pub fn undo_changes(&mut self) {
        for change in self.journal.0.take().unwrap_or_default().into_iter().rev() {
            self.undo(change);
        }
    }

    fn undo(&mut self, change: Change) {
        match change {
            Change::Opened { id } => {
                if let Some(&slot) = self.places.get(&id) {
                    self.take(slot);
                }
            }
            Change::Evicted(session) => {
                let front = self.recency.front();
                self.insert(*session, front);
            }
            Change::Touched { id, next } => {
                let next = self.places.get(&next).copied();
                if let Some(&slot) = self.places.get(&id) {
                    self.recency.move_before(slot, next);
                }
            }
            Change::Acknowledged { id, low, dropped } => {
                let Some(&slot) = self.places.get(&id) else { return };
                let answers = &mut self.recency.get_mut(slot).answers;
                let before = answers.memory_bytes();
                answers.lower_low(low);
                for (sequence, answer) in dropped {
                    answers.insert(sequence, answer);
                }
                self.answer_bytes = self.answer_bytes + answers.memory_bytes() - before;
            }
            Change::Recorded { id, sequence, highest } => {
                let Some(&slot) = self.places.get(&id) else { return };
                let session = self.recency.get_mut(slot);
                session.highest = highest;
                let before = session.answers.memory_bytes();
                session.answers.remove(sequence);
                self.answer_bytes = self.answer_bytes + session.answers.memory_bytes() - before;
            }
        }
    }
}
