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
use quorate_framework::{Position, SessionId, Status, WireError};

const SESSION_BYTES: usize = 49;
const ANSWER_BYTES: usize = 13;
const WHAT: &str = "session table";

impl SessionTable {
    /// Hands the table's bytes over piece by piece.
    pub fn encode(&self, mut put: impl FnMut(&[u8])) {
        put(&(self.len() as u32).to_le_bytes());
        for session in self.recency.iter() {
            put(&session.id.position.0.to_le_bytes());
            put(&session.id.offset.to_le_bytes());
            put(&[u8::from(session.ordered)]);
            put(&session.nonce.to_le_bytes());
            put(&session.answers.low().to_le_bytes());
            put(&session.highest.to_le_bytes());
            put(&(session.answers.len() as u32).to_le_bytes());
            for (sequence, answer) in session.answers.iter() {
                put(&sequence.to_le_bytes());
                put(&[answer.status as u8]);
                put(&(answer.body.len() as u32).to_le_bytes());
                put(&answer.body);
            }
        }
    }

    /// The table of bytes that [`SessionTable::encode`] made. Nothing larger than the bytes is allocated.
    ///
    /// # Errors
    /// [`WireError`] on anything that `encode` would not have written.
    pub fn decode(bytes: &[u8]) -> Result<SessionTable, WireError> {
        let mut reader = Reader { rest: bytes };
        let mut table = SessionTable::new();
        for _ in 0..reader.count(SESSION_BYTES)? {
            let session = reader.session()?;
            if table.places.contains_key(&session.id) || table.nonces.contains_key(&session.nonce) {
                return Err(meaningless(session.id.position.0));
            }
            table.insert(session, None);
        }
        match reader.rest.len() {
            0 => Ok(table),
            count => Err(WireError::Trailing { what: WHAT, count }),
        }
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

    /// A count of things that take at least `least` bytes each, checked against the bytes that are there.
    fn count(&mut self, least: usize) -> Result<usize, WireError> {
        let (count, limit) = (self.u32()? as usize, self.rest.len() / least);
        if count > limit {
            return Err(WireError::TooLarge { what: WHAT, value: count as u64, limit: limit as u64 });
        }
        Ok(count)
    }

    fn session(&mut self) -> Result<Session, WireError> {
        let id = SessionId { position: Position(self.u64()?), offset: self.u32()? };
        let [ordered] = self.array()?;
        if id.is_none() || ordered > 1 {
            return Err(meaningless(u64::from(ordered)));
        }
        let nonce = u128::from_le_bytes(self.array()?);
        let (low, highest) = (self.u64()?, self.u64()?);
        let count = self.count(ANSWER_BYTES)?;
        let mut answers = Answers::above(low);
        let mut last = low;
        for _ in 0..count {
            let sequence = self.u64()?;
            if sequence <= last || sequence > highest || sequence - low > SPAN {
                return Err(meaningless(sequence));
            }
            last = sequence;
            let [status] = self.array()?;
            let length = self.u32()? as usize;
            answers.insert(sequence, StoredAnswer::new(Status::from_wire(status)?, self.take(length)?));
        }
        Ok(Session { id, nonce, ordered: ordered == 1, highest, answers })
    }
}
