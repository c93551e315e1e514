//! The session table as records of their own, for a store that keeps it: a session is one, each of its answers is one. A change of the
//! table writes only the records it touched.
//!
//! ```text
//! session: | ordered: 1 | nonce: 16 | low mark: 8 | highest: 8 | stamp: 8 |
//! answer:  | status: 1 | body |
//! ```
//! The stamp stands for the order of recency: it rises whenever a session becomes the most recent one. Stamps are not part of the
//! replicated state; only their order is.

use super::answers::{Answers, SPAN};
use super::journal::{Change, SessionChanges};
use super::{Session, SessionTable, StoredAnswer};
use hashbrown::HashMap;
use quorate_framework::{SessionId, Status};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use thiserror::Error;

const SESSION_BYTES: usize = 41;

/// A write to the table's records.
#[derive(Debug)]
pub(crate) enum SessionWrite<'a> {
    Session { id: SessionId, value: [u8; SESSION_BYTES] },
    RemoveSession { id: SessionId },
    Answer { id: SessionId, sequence: u64, answer: &'a StoredAnswer },
    RemoveAnswer { id: SessionId, sequence: u64 },
}

/// The stamp of every session.
#[derive(Debug)]
pub(crate) struct SessionStamps {
    stamps: HashMap<SessionId, u64>,
    next: u64,
}

impl SessionStamps {
    /// None given yet; the next one is this.
    pub(crate) fn starting_at(next: u64) -> SessionStamps {
        SessionStamps { stamps: HashMap::new(), next }
    }

    /// The stamp that is given next.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    fn give(&mut self, id: SessionId) {
        self.stamps.insert(id, self.next);
        self.next += 1;
    }

    /// Hands over the writes that bring the records from before the changes to the table as it is now.
    pub(crate) fn write_changes(
        &mut self,
        table: &SessionTable,
        changes: SessionChanges,
        mut write: impl FnMut(SessionWrite<'_>),
    ) {
        let mut touched = BTreeSet::new();
        for change in changes.0 {
            match change {
                Change::Opened { id } | Change::Touched { id, .. } => {
                    self.give(id);
                    touched.insert(id);
                }
                Change::Recorded { id, sequence, .. } => {
                    touched.insert(id);
                    // Gone if a later change of the same batch dropped it.
                    if let Some(answer) = table.find(id).and_then(|session| session.answers.get(sequence)) {
                        write(SessionWrite::Answer { id, sequence, answer });
                    }
                }
                Change::Acknowledged { id, dropped, .. } => {
                    touched.insert(id);
                    for (sequence, _) in dropped {
                        write(SessionWrite::RemoveAnswer { id, sequence });
                    }
                }
                Change::Evicted(session) => {
                    let id = session.id;
                    self.stamps.remove(&id);
                    touched.remove(&id);
                    for (sequence, _) in session.answers.iter() {
                        write(SessionWrite::RemoveAnswer { id, sequence });
                    }
                    write(SessionWrite::RemoveSession { id });
                }
            }
        }
        for id in touched {
            if let Some(session) = table.find(id) {
                write(SessionWrite::Session { id, value: self.value(session) });
            }
        }
    }

    /// Hands over the records of a whole table, of which none is stored yet.
    pub(crate) fn write_all(&mut self, table: &SessionTable, mut write: impl FnMut(SessionWrite<'_>)) {
        for session in table.recency.iter() {
            let id = session.id;
            self.give(id);
            write(SessionWrite::Session { id, value: self.value(session) });
            for (sequence, answer) in session.answers.iter() {
                write(SessionWrite::Answer { id, sequence, answer });
            }
        }
    }

    fn value(&self, session: &Session) -> [u8; SESSION_BYTES] {
        let stamp = self.stamps.get(&session.id).copied().unwrap_or_default();
        let mut value = [0; SESSION_BYTES];
        value[0] = u8::from(session.ordered);
        value[1..17].copy_from_slice(&session.nonce.to_le_bytes());
        value[17..25].copy_from_slice(&session.answers.low().to_le_bytes());
        value[25..33].copy_from_slice(&session.highest.to_le_bytes());
        value[33..].copy_from_slice(&stamp.to_le_bytes());
        value
    }
}

impl SessionTable {
    fn find(&self, id: SessionId) -> Option<&Session> {
        self.places.get(&id).map(|slot| self.recency.get(*slot))
    }
}

/// Records that do not make a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the record of session {id} has no meaning: {what}")]
pub(crate) struct RecordError {
    pub(crate) id: SessionId,
    pub(crate) what: &'static str,
}

/// Records being read: first all sessions, then all answers, those of a session by rising sequence.
#[derive(Debug, Default)]
pub(crate) struct StoredSessions {
    sessions: BTreeMap<SessionId, (u64, Session)>,
}

impl StoredSessions {
    pub(crate) fn session(&mut self, id: SessionId, value: &[u8]) -> Result<(), RecordError> {
        let wrong = |what| RecordError { id, what };
        let value: &[u8; SESSION_BYTES] = value.try_into().map_err(|_| wrong("its length"))?;
        let number = |at: usize| value[at..].first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if id.is_none() || value[0] > 1 {
            return Err(wrong("its first byte"));
        }
        let nonce = u128::from(number(1)) | u128::from(number(9)) << 64;
        let session =
            Session { id, nonce, ordered: value[0] == 1, highest: number(25), answers: Answers::above(number(17)) };
        self.sessions.insert(id, (number(33), session));
        Ok(())
    }

    pub(crate) fn answer(&mut self, id: SessionId, sequence: u64, value: &[u8]) -> Result<(), RecordError> {
        let wrong = |what| RecordError { id, what };
        let (_, session) = self.sessions.get_mut(&id).ok_or(wrong("an answer without a session"))?;
        let low = session.answers.low();
        if sequence <= low || sequence > session.highest || sequence - low > SPAN {
            return Err(wrong("the sequence of an answer"));
        }
        let (&status, body) = value.split_first().ok_or(wrong("an empty answer"))?;
        let status = Status::from_wire(status).map_err(|_| wrong("the status of an answer"))?;
        session.answers.insert(sequence, StoredAnswer::new(status, body));
        Ok(())
    }

    /// The table, and its stamps, of which the next one is `next`.
    pub(crate) fn finish(self, next: u64) -> Result<(SessionTable, SessionStamps), RecordError> {
        let mut stamps = SessionStamps::starting_at(next);
        let mut sessions: Vec<(u64, Session)> = self.sessions.into_values().collect();
        sessions.sort_by_key(|(stamp, _)| *stamp);
        let mut table = SessionTable::new();
        let mut last = None;
        for (stamp, session) in sessions {
            let id = session.id;
            if last == Some(stamp) || stamp >= next {
                return Err(RecordError { id, what: "its stamp" });
            }
            if table.nonces.contains_key(&session.nonce) {
                return Err(RecordError { id, what: "its nonce is that of another" });
            }
            last = Some(stamp);
            stamps.stamps.insert(id, stamp);
            table.insert(session, None);
        }
        Ok((table, stamps))
    }
}
