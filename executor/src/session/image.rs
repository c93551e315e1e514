//! The session table as it is at one moment, to be written down while the table goes on.

use super::codec::put_answer;
use super::{Session, SessionTable};
use std::vec;

/// A copy of the table, given out item by item in the table's coding. Bodies of answers are shared with the table; what was given out is
/// freed.
#[derive(Debug, Default)]
pub(crate) struct SessionImage {
    sessions: vec::IntoIter<Session>,
    /// The session whose answers are being given out, and how many slots of its ring were passed.
    current: Option<(Session, usize)>,
}

impl SessionTable {
    /// The table as it is now.
    pub(crate) fn image(&self) -> SessionImage {
        let sessions: Vec<Session> = self.recency.iter().cloned().collect();
        SessionImage { sessions: sessions.into_iter(), current: None }
    }
}

/// What an item of the table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionItem {
    Session,
    Answer,
}

impl SessionImage {
    /// Appends the next item to `output`; none are left when it gives none.
    pub(crate) fn write_item(&mut self, output: &mut Vec<u8>) -> Option<SessionItem> {
        if let Some((session, passed)) = &mut self.current {
            if let Some((slot, sequence, answer)) = session.answers.next_from(*passed) {
                put_answer(sequence, answer, |piece| output.extend_from_slice(piece));
                *passed = slot + 1;
                return Some(SessionItem::Answer);
            }
            self.current = None;
        }
        let session = self.sessions.next()?;
        output.extend_from_slice(&session.head());
        self.current = Some((session, 0));
        Some(SessionItem::Session)
    }
}
