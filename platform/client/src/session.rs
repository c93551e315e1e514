//! A session as its client sees it: which sequences are out, and up to where all have ended.

use crate::request::RequestKey;
use quorate_framework::{Sequence, SessionId};
use std::collections::VecDeque;

/// Whether the cluster has opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// Asked for under this nonce, the same in every attempt.
    Opening { nonce: u128 },
    /// Opened under this id.
    Open(SessionId),
}

/// One session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) state: SessionState,
    next: u64,
    /// All sequences up to this one have ended and are never asked again.
    low: u64,
    in_flight: usize,
    /// The requests of the sequences from `low + 1` on.
    requests: VecDeque<Option<RequestKey>>,
}

impl Session {
    pub(crate) fn opening(nonce: u128) -> Session {
        let state = SessionState::Opening { nonce };
        Session { state, next: 1, low: 0, in_flight: 0, requests: VecDeque::new() }
    }

    pub(crate) fn id(&self) -> Option<SessionId> {
        match self.state {
            SessionState::Open(id) => Some(id),
            SessionState::Opening { .. } => None,
        }
    }

    /// Frames that may still be put in: at most half of the window is in flight, and none lies beyond the window.
    pub(crate) fn room(&self, window: u64) -> usize {
        if self.id().is_none() {
            return 0;
        }
        let half = usize::try_from(window / 2).unwrap_or(usize::MAX).max(1);
        let span = usize::try_from((self.low + window + 1).saturating_sub(self.next)).unwrap_or(usize::MAX);
        half.saturating_sub(self.in_flight).min(span)
    }

    /// Takes the next sequence for a request, and gives the low mark beside it.
    pub(crate) fn take(&mut self, key: RequestKey) -> (Sequence, Sequence) {
        let sequence = self.next;
        self.next += 1;
        self.in_flight += 1;
        self.requests.push_back(Some(key));
        (Sequence(sequence), Sequence(self.low))
    }

    /// The request of a sequence, if it is in flight.
    pub(crate) fn find(&self, sequence: Sequence) -> Option<RequestKey> {
        let offset = sequence.0.checked_sub(self.low + 1)?;
        *self.requests.get(usize::try_from(offset).ok()?)?
    }

    /// A sequence has ended and is never asked again; the low mark follows.
    pub(crate) fn end(&mut self, sequence: Sequence) {
        let place = sequence.0.checked_sub(self.low + 1).and_then(|offset| usize::try_from(offset).ok());
        let Some(slot) = place.and_then(|place| self.requests.get_mut(place)) else { return };
        if slot.take().is_some() {
            self.in_flight -= 1;
        }
        while let Some(None) = self.requests.front() {
            self.requests.pop_front();
            self.low += 1;
        }
    }

    /// The requests in flight.
    pub(crate) fn requests(&self) -> Vec<RequestKey> {
        self.requests.iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_framework::Position;

    fn key(index: u32) -> RequestKey {
        RequestKey { index, generation: 0 }
    }

    fn open() -> Session {
        let mut session = Session::opening(1);
        assert_eq!(session.room(8), 0, "nothing is sent in a session that is not open");
        session.state = SessionState::Open(SessionId { position: Position(3), offset: 0 });
        session
    }

    #[test]
    fn the_low_mark_follows_the_ended_prefix_only() {
        let mut session = open();
        for index in 1..=4 {
            assert_eq!(session.take(key(index)), (Sequence(u64::from(index)), Sequence(0)));
        }
        session.end(Sequence(2));
        session.end(Sequence(3));
        assert_eq!(session.take(key(5)), (Sequence(5), Sequence(0)), "sequence 1 has not ended");
        session.end(Sequence(1));
        assert_eq!(session.take(key(6)), (Sequence(6), Sequence(3)));
        assert_eq!((session.find(Sequence(3)), session.find(Sequence(4))), (None, Some(key(4))));
        session.end(Sequence(3));
        assert_eq!(session.requests(), [key(4), key(5), key(6)], "what has ended cannot end again");
    }

    #[test]
    fn half_of_the_window_is_in_flight_and_nothing_lies_beyond_the_window() {
        let mut session = open();
        for index in 1..=4 {
            session.take(key(index));
        }
        assert_eq!(session.room(8), 0, "half of 8 are in flight");
        for round in 1..4 {
            session.end(Sequence(round + 1));
            assert_eq!(session.room(8), 1);
            session.take(key(9));
        }
        session.end(Sequence(5));
        assert_eq!(session.room(8), 1, "sequence 8 is within the window above the low mark 0");
        session.take(key(9));
        session.end(Sequence(6));
        assert_eq!(session.room(8), 0, "sequence 9 is not, as long as sequence 1 has not ended");
        session.end(Sequence(1));
        assert_eq!(session.room(8), 2);
    }
}
