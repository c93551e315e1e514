//! The session table: which frames of which session were applied, and what they were answered. Part of the replicated state.
//!
//! A session is opened through the log; its id is (position of that frame, 0). It holds
//! - the nonce it was opened with, and whether it is ordered;
//! - its low mark: up to there the client has acknowledged the answers; it never falls;
//! - the highest sequence applied;
//! - for every sequence applied above the low mark the answer: status and body, nothing else. Position and block of a repeated
//!   answer are those of the repetition.
//!
//! What a frame with a sequence meets, in this order (first its acknowledgement raises the low mark):
//! 1. unknown session: `Expired`, never a new session;
//! 2. at or below the low mark: `Expired`; beyond low mark plus window: `Invalid`;
//! 3. applied before: the stored answer, byte for byte;
//! 4. ordered session and not the sequence after the highest applied one: `Gap`;
//! 5. it is applied and its answer stored. A frame whose body is malformed is stored too, as `Invalid`.
//!
//! Bounds: sessions by number, stored answers by memory ([`StoredAnswer::memory_bytes`]). Beyond a bound the least recently applied
//! session goes, whole. Only a frame that is applied, or that opens a session, makes a session recent; repetitions and refusals do
//! not. A session that holds more than half of the memory when the bound is reached pays for it alone, so that nobody drives out all
//! others by never acknowledging: it stays, but its low mark rises over its oldest answers.

mod answer;
mod answers;
mod codec;
mod image;
mod journal;
mod recency;
#[cfg(feature = "lsm")]
mod records;
#[cfg(test)]
mod tests;

pub use answer::{ANSWER_OVERHEAD_BYTES, StoredAnswer};
pub(crate) use codec::SessionTableBuilder;
pub(crate) use image::{SessionImage, SessionItem};
pub use journal::SessionChanges;
#[cfg(feature = "lsm")]
pub(crate) use records::{RecordError, SessionStamps, SessionWrite, StoredSessions};

use crate::replicated_limits::ReplicatedLimits;
use answers::{Answers, SPAN};
use hashbrown::HashMap;
use journal::{Change, Journal};
use quorate_framework::{Sequence, SessionId, Status};
use recency::{Recency, Slot};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Session {
    id: SessionId,
    nonce: u128,
    ordered: bool,
    /// The highest sequence applied.
    highest: u64,
    answers: Answers,
}

/// Leave to apply a frame; its answer is to be recorded.
#[derive(Debug)]
#[must_use]
pub struct Admitted {
    slot: Slot,
    sequence: u64,
}

/// What the table says to a frame.
#[derive(Debug)]
pub enum Admission {
    /// It is new: apply it and record its answer.
    Apply(Admitted),
    /// It was applied before: this was its answer.
    Replay(StoredAnswer),
    /// It is not applied.
    Refuse(Status),
}

/// The sessions of the replicated state.
#[derive(Debug, Default)]
pub struct SessionTable {
    places: HashMap<SessionId, Slot>,
    nonces: HashMap<u128, SessionId>,
    recency: Recency,
    answer_bytes: u64,
    journal: Journal,
}

impl SessionTable {
    /// An empty table.
    #[must_use]
    pub fn new() -> SessionTable {
        SessionTable::default()
    }

    /// Sessions in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is no session.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Memory that the stored answers are counted with, in bytes.
    #[must_use]
    pub fn answer_bytes(&self) -> u64 {
        self.answer_bytes
    }

    /// Whether a session is in the table.
    #[must_use]
    pub fn contains(&self, id: SessionId) -> bool {
        self.places.contains_key(&id)
    }

    /// Opens a session, or gives the one that was opened with this nonce.
    pub fn open(&mut self, id: SessionId, nonce: u128, ordered: bool, limits: &ReplicatedLimits) -> SessionId {
        if let Some(known) = self.nonces.get(&nonce) {
            return *known;
        }
        self.insert(Session { id, nonce, ordered, highest: 0, answers: Answers::above(0) }, None);
        self.journal.note(|| Change::Opened { id });
        while self.len() > (limits.sessions as usize).max(1) {
            self.evict_front();
        }
        id
    }

    /// Judges a frame before it is applied.
    pub fn admit(
        &mut self,
        id: SessionId,
        sequence: Sequence,
        acknowledged: Sequence,
        limits: &ReplicatedLimits,
    ) -> Admission {
        let Some(&slot) = self.places.get(&id) else { return Admission::Refuse(Status::Expired) };
        self.raise_low(slot, acknowledged.0);
        let session = self.recency.get(slot);
        let sequence = sequence.0;
        let low = session.answers.low();
        if sequence <= low {
            return Admission::Refuse(Status::Expired);
        }
        if sequence - low > u64::from(limits.session_window_frames).min(SPAN) {
            return Admission::Refuse(Status::Invalid);
        }
        if let Some(answer) = session.answers.get(sequence) {
            return Admission::Replay(answer.clone());
        }
        if session.ordered && sequence != session.highest.max(low) + 1 {
            return Admission::Refuse(Status::Gap);
        }
        Admission::Apply(Admitted { slot, sequence })
    }

    /// Stores the answer of a frame that was just admitted; nothing may have been called on the table in between.
    pub fn record(&mut self, admitted: Admitted, answer: StoredAnswer, limits: &ReplicatedLimits) {
        let Admitted { slot, sequence } = admitted;
        if let Some(next) = self.recency.next(slot) {
            let (id, next) = (self.recency.get(slot).id, self.recency.get(next).id);
            self.journal.note(|| Change::Touched { id, next });
            self.recency.move_before(slot, None);
        }
        let session = self.recency.get_mut(slot);
        let (id, highest, before) = (session.id, session.highest, session.answers.memory_bytes());
        session.answers.insert(sequence, answer);
        self.answer_bytes = self.answer_bytes + session.answers.memory_bytes() - before;
        session.highest = highest.max(sequence);
        self.journal.note(|| Change::Recorded { id, sequence, highest });
        let share = limits.session_answer_bytes / 2;
        while self.answer_bytes > limits.session_answer_bytes {
            if self.recency.front() != Some(slot) && self.recency.get(slot).answers.memory_bytes() <= share {
                self.evict_front();
                continue;
            }
            let Some(oldest) = self.recency.get(slot).answers.oldest() else { break };
            self.raise_low(slot, oldest);
        }
    }

    /// Raises a low mark, dropping the answers up to it.
    fn raise_low(&mut self, slot: Slot, to: u64) {
        let session = self.recency.get_mut(slot);
        let (id, low, before) = (session.id, session.answers.low(), session.answers.memory_bytes());
        if to <= low {
            return;
        }
        let mut dropped = Vec::new();
        let is_open = self.journal.is_open();
        session.answers.raise_low(to, |sequence, answer| {
            if is_open {
                dropped.push((sequence, answer));
            }
        });
        self.answer_bytes = self.answer_bytes + session.answers.memory_bytes() - before;
        self.journal.note(|| Change::Acknowledged { id, low, dropped });
    }

    fn evict_front(&mut self) {
        let Some(slot) = self.recency.front() else { return };
        let session = self.take(slot);
        self.journal.note(|| Change::Evicted(Box::new(session)));
    }

    fn insert(&mut self, session: Session, next: Option<Slot>) {
        let (id, nonce) = (session.id, session.nonce);
        self.answer_bytes += session.answers.memory_bytes();
        let slot = self.recency.insert(session, next);
        self.places.insert(id, slot);
        self.nonces.insert(nonce, id);
    }

    fn take(&mut self, slot: Slot) -> Session {
        let session = self.recency.remove(slot);
        self.places.remove(&session.id);
        self.nonces.remove(&session.nonce);
        self.answer_bytes -= session.answers.memory_bytes();
        session
    }
}
