//! The session table as bytes, for digests and snapshots. Numbers are little-endian; sessions stand least recently applied first.
//!
//! ```text
//! | sessions: 4 | session ... |
//! session: | position: 8 | offset: 4 | ordered: 1 | nonce: 16 | low mark: 8 | highest: 8 | answers: 4 | answer ... |
//! answer:  | sequence: 8 | status: 1 | length: 4 | body |
//! ```
//! Equal tables are equal bytes, whatever their history.

use super::answers::{Answers, SPAN};
use super::{Session, SessionTable, StoredAnswer};
use crate::replicated_limits::ReplicatedLimits;
use quorate_framework::{Position, SessionId, Status, WireError};

/// Bytes of a session without its answers.
pub(super) const SESSION_BYTES: usize = 49;
const WHAT: &str = "session table";

impl Session {
    /// Its bytes without those of its answers, of which `answers` follow.
    pub(super) fn head(&self) -> [u8; SESSION_BYTES] {
        let mut bytes = [0; SESSION_BYTES];
        let mut rest = &mut bytes[..];
        let mut put = |piece: &[u8]| {
            let (place, behind) = std::mem::take(&mut rest).split_at_mut(piece.len());
            place.copy_from_slice(piece);
            rest = behind;
        };
        put(&self.id.position.0.to_le_bytes());
        put(&self.id.offset.to_le_bytes());
        put(&[u8::from(self.ordered)]);
        put(&self.nonce.to_le_bytes());
        put(&self.answers.low().to_le_bytes());
        put(&self.highest.to_le_bytes());
        put(&(self.answers.len() as u32).to_le_bytes());
        bytes
    }
}

/// Hands an answer's bytes over piece by piece.
pub(super) fn put_answer(sequence: u64, answer: &StoredAnswer, mut put: impl FnMut(&[u8])) {
    put(&sequence.to_le_bytes());
    put(&[answer.status as u8]);
    put(&(answer.body.len() as u32).to_le_bytes());
    put(&answer.body);
}

impl SessionTable {
    /// Hands the table's bytes over piece by piece.
    pub fn encode(&self, mut put: impl FnMut(&[u8])) {
        put(&(self.len() as u32).to_le_bytes());
        for session in self.recency.iter() {
            put(&session.head());
            for (sequence, answer) in session.answers.iter() {
                put_answer(sequence, answer, &mut put);
            }
        }
    }

    /// The table of bytes that [`SessionTable::encode`] made. Nothing larger than the bytes is allocated.
    ///
    /// # Errors
    /// [`WireError`] on anything that `encode` would not have written.
    pub fn decode(bytes: &[u8]) -> Result<SessionTable, WireError> {
        let mut reader = Reader { rest: bytes };
        let count = reader.u32()?;
        let mut builder = SessionTableBuilder::default();
        while builder.sessions() < u64::from(count) || builder.is_inside() {
            builder.read_item(&mut reader.rest)?;
        }
        match reader.rest.len() {
            0 => builder.finish(None),
            count => Err(WireError::Trailing { what: WHAT, count }),
        }
    }
}

/// Reads a table item by item: a session, then each of its answers. Nothing is allocated for what is only announced.
#[derive(Debug, Default)]
pub(crate) struct SessionTableBuilder {
    table: SessionTable,
    /// The session whose answers are being read, how many are missing, and the sequence read last.
    current: Option<(Session, u32, u64)>,
    answers: u64,
}

impl SessionTableBuilder {
    /// Sessions begun.
    pub(crate) fn sessions(&self) -> u64 {
        self.table.len() as u64 + u64::from(self.current.is_some())
    }

    /// Answers read.
    pub(crate) fn answers(&self) -> u64 {
        self.answers
    }

    /// Whether answers of the last session are missing.
    pub(crate) fn is_inside(&self) -> bool {
        self.current.is_some()
    }

    /// Takes the next item off the front of `rest`.
    pub(crate) fn read_item(&mut self, rest: &mut &[u8]) -> Result<(), WireError> {
        let mut reader = Reader { rest };
        if self.current.is_some() {
            self.read_answer(&mut reader)?;
        } else {
            let (session, count) = reader.session()?;
            if self.table.places.contains_key(&session.id) || self.table.nonces.contains_key(&session.nonce) {
                return Err(meaningless(session.id.position.0));
            }
            let low = session.answers.low();
            self.current = Some((session, count, low));
        }
        *rest = reader.rest;
        if let Some((session, ..)) = self.current.take_if(|(_, missing, _)| *missing == 0) {
            self.table.insert(session, None);
        }
        Ok(())
    }

    fn read_answer(&mut self, reader: &mut Reader<'_>) -> Result<(), WireError> {
        let Some((session, missing, last)) = &mut self.current else { return Err(meaningless(0)) };
        let sequence = reader.u64()?;
        if sequence <= *last || sequence > session.highest || sequence - session.answers.low() > SPAN {
            return Err(meaningless(sequence));
        }
        let [status] = reader.array()?;
        let length = reader.u32()? as usize;
        let answer = StoredAnswer::new(Status::from_wire(status)?, reader.take(length)?);
        session.answers.insert(sequence, answer);
        (*missing, *last) = (*missing - 1, sequence);
        self.answers += 1;
        Ok(())
    }

    /// The table, which must be whole and within these limits.
    pub(crate) fn finish(self, limits: Option<&ReplicatedLimits>) -> Result<SessionTable, WireError> {
        if let Some((session, ..)) = self.current {
            return Err(meaningless(session.id.position.0));
        }
        let (sessions, bytes) = (self.table.len() as u64, self.table.answer_bytes);
        if let Some(limits) = limits {
            let allowed = u64::from(limits.sessions.max(1));
            if sessions > allowed {
                return Err(WireError::TooLarge { what: "number of sessions", value: sessions, limit: allowed });
            }
            if bytes > limits.session_answer_bytes {
                let limit = limits.session_answer_bytes;
                return Err(WireError::TooLarge { what: "memory of answers", value: bytes, limit });
            }
        }
        Ok(self.table)
    }
}

fn meaningless(value: u64) -> WireError {
    WireError::Meaningless { what: WHAT, value }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, needed: usize) -> Result<&'a [u8], WireError> {
        let short = WireError::Short { what: WHAT, needed, present: self.rest.len() };
        let (taken, rest) = self.rest.split_at_checked(needed).ok_or(short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        Ok(*self.take(N)?.first_chunk().expect("as many bytes as were taken"))
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A session without its answers, and how many of those follow.
    fn session(&mut self) -> Result<(Session, u32), WireError> {
        let id = SessionId { position: Position(self.u64()?), offset: self.u32()? };
        let [ordered] = self.array()?;
        if id.is_none() || ordered > 1 {
            return Err(meaningless(u64::from(ordered)));
        }
        let nonce = u128::from_le_bytes(self.array()?);
        let (low, highest) = (self.u64()?, self.u64()?);
        let session = Session { id, nonce, ordered: ordered == 1, highest, answers: Answers::above(low) };
        Ok((session, self.u32()?))
    }
}
