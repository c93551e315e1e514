//! What a leader believes of one follower, and what is on its way to it.

use quorate_framework::{Position, ServedSnapshot, Time};
use std::collections::VecDeque;

/// How entries flow to a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ProgressState {
    /// Where the logs agree is not known: one append at a time, and only its answer moves `next`.
    Probe {
        /// The probe that waits for an answer, and when it was sent.
        outstanding: Option<(u64, Time)>,
    },
    /// The logs agree: appends are pipelined, and `next` moves as they are sent.
    Replicate,
    /// The follower needs entries that the log no longer holds. Only heartbeats until it gets a snapshot.
    NeedsSnapshot,
    /// It is being brought back by a snapshot. Only heartbeats and the offer; the log above the snapshot is held for it.
    Snapshot(Transfer),
}

/// A snapshot on its way to a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transfer {
    /// What it was offered; none while the node makes it ready.
    pub(crate) offered: Option<ServedSnapshot>,
    /// The log above this is held.
    pub(crate) position: Position,
    /// When the offer is said again, in case it or its answer was lost.
    pub(crate) repeat_at: Time,
    /// When the follower is given up, if it pulls nothing until then.
    pub(crate) give_up_at: Time,
}

/// An append on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct InFlight {
    request: u64,
    last: Position,
    bytes: usize,
    sent_at: Time,
}

/// A follower as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Progress {
    pub(crate) state: ProgressState,
    /// Whether the link is up.
    pub(crate) connected: bool,
    /// Highest index known to be durable there and equal to this log.
    pub(crate) matched: Position,
    /// Next index to be sent.
    pub(crate) next: Position,
    /// When it was last heard in this term.
    pub(crate) heard: Option<Time>,
    /// No snapshot is made ready for it before this.
    pub(crate) snapshot_not_before: Time,
    /// After a snapshot: the log is held for it until it has got this far.
    held_until: Option<Position>,
    /// The number of the last request sent to it.
    last_request: u64,
    /// Answers to requests before this one belong to an earlier state: they may raise `matched`, nothing else.
    first_request_of_state: u64,
    in_flight: VecDeque<InFlight>,
    in_flight_bytes: usize,
}

impl Progress {
    /// A follower of a new leader: its log is unknown, so the search starts at the leader's end.
    pub(crate) fn new(next: Position, connected: bool) -> Progress {
        Progress {
            state: ProgressState::Probe { outstanding: None },
            connected,
            matched: Position::ZERO,
            next,
            heard: None,
            snapshot_not_before: Time::ZERO,
            held_until: None,
            last_request: 0,
            first_request_of_state: 1,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
        }
    }

    /// Messages in flight.
    pub(crate) fn in_flight_messages(&self) -> usize {
        self.in_flight.len()
    }

    /// Bytes in flight.
    pub(crate) fn in_flight_bytes(&self) -> usize {
        self.in_flight_bytes
    }

    /// Whether another append may be sent under these limits. A window without any message takes one of any size.
    pub(crate) fn has_room(&self, messages: usize, bytes: usize) -> bool {
        self.in_flight.is_empty() || (self.in_flight.len() < messages && self.in_flight_bytes < bytes)
    }

    /// Notes an append that leaves now and gives its number. In REPLICATE `next` moves at once.
    pub(crate) fn on_sent(&mut self, now: Time, last: Position, bytes: usize) -> u64 {
        self.last_request += 1;
        let request = self.last_request;
        match &mut self.state {
            ProgressState::Probe { outstanding } => *outstanding = Some((request, now)),
            ProgressState::Replicate => {
                self.next = last.next();
                self.in_flight.push_back(InFlight { request, last, bytes, sent_at: now });
                self.in_flight_bytes += bytes;
            }
            ProgressState::NeedsSnapshot | ProgressState::Snapshot(_) => {}
        }
        request
    }

    /// Whether `request` is the probe whose answer is waited for.
    pub(crate) fn is_outstanding_probe(&self, request: u64) -> bool {
        matches!(self.state, ProgressState::Probe { outstanding: Some((probe, _)) } if probe == request)
    }

    /// Whether `request` was sent in the present state; a refusal of an older one is out of date.
    pub(crate) fn is_of_this_state(&self, request: u64) -> bool {
        (self.first_request_of_state..=self.last_request).contains(&request)
    }

    /// Everything up to `index` is known to be there: it is no longer in flight.
    pub(crate) fn on_matched(&mut self, index: Position) {
        self.matched = self.matched.max(index);
        self.next = self.next.max(self.matched.next());
        while let Some(oldest) = self.in_flight.front().filter(|oldest| oldest.last <= index) {
            self.in_flight_bytes -= oldest.bytes;
            self.in_flight.pop_front();
        }
        if self.held_until.is_some_and(|until| self.matched >= until) {
            self.held_until = None;
        }
    }

    /// Starts a search at `next`; what is in flight no longer counts.
    pub(crate) fn become_probe(&mut self, next: Position) {
        self.enter(ProgressState::Probe { outstanding: None });
        self.next = next.max(self.matched.next());
    }

    /// The logs agree up to `matched`.
    pub(crate) fn become_replicate(&mut self) {
        self.enter(ProgressState::Replicate);
        self.next = self.matched.next();
    }

    /// The follower needs a snapshot.
    pub(crate) fn become_needs_snapshot(&mut self) {
        self.enter(ProgressState::NeedsSnapshot);
        self.held_until = None;
    }

    /// A snapshot is being made ready for it, which will be at `position` or above.
    pub(crate) fn become_snapshot(&mut self, transfer: Transfer) {
        self.enter(ProgressState::Snapshot(transfer));
    }

    /// The snapshot brought it to a place in the log, of which what follows, up to `end`, is held for it.
    pub(crate) fn leave_snapshot(&mut self, end: Position) {
        self.become_replicate();
        self.held_until = Some(end).filter(|end| *end > self.matched);
    }

    /// The snapshot on its way to it.
    pub(crate) fn transfer(&self) -> Option<&Transfer> {
        match &self.state {
            ProgressState::Snapshot(transfer) => Some(transfer),
            _ => None,
        }
    }

    /// The snapshot on its way to it.
    pub(crate) fn transfer_mut(&mut self) -> Option<&mut Transfer> {
        match &mut self.state {
            ProgressState::Snapshot(transfer) => Some(transfer),
            _ => None,
        }
    }

    /// The log above this is held for it.
    pub(crate) fn holds_above(&self) -> Option<Position> {
        match &self.state {
            ProgressState::Snapshot(transfer) => Some(transfer.position),
            _ => self.held_until.map(|_| self.matched),
        }
    }

    /// Nothing is held for it any longer.
    pub(crate) fn release(&mut self) {
        self.held_until = None;
    }

    /// When the oldest unanswered append or probe was sent.
    pub(crate) fn oldest_unanswered(&self) -> Option<Time> {
        match self.state {
            ProgressState::Probe { outstanding } => outstanding.map(|(_, sent_at)| sent_at),
            ProgressState::Replicate => self.in_flight.front().map(|oldest| oldest.sent_at),
            ProgressState::NeedsSnapshot | ProgressState::Snapshot(_) => None,
        }
    }

    fn enter(&mut self, state: ProgressState) {
        self.state = state;
        self.first_request_of_state = self.last_request + 1;
        self.in_flight.clear();
        self.in_flight_bytes = 0;
    }

    /// The state's name, for operators.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.state {
            ProgressState::Probe { .. } => "probe",
            ProgressState::Replicate => "replicate",
            ProgressState::NeedsSnapshot => "needs_snapshot",
            ProgressState::Snapshot(_) => "snapshot",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicating() -> Progress {
        let mut progress = Progress::new(Position(1), true);
        progress.become_replicate();
        progress
    }

    #[test]
    fn the_window_counts_messages_and_bytes_and_an_empty_one_takes_a_message_of_any_size() {
        let mut progress = replicating();
        assert!(progress.has_room(2, 10));
        progress.on_sent(Time(1), Position(1), 1_000);
        assert!(!progress.has_room(2, 1_000), "bytes are full");
        assert!(progress.has_room(2, 1_001));
        progress.on_sent(Time(2), Position(2), 0);
        assert!(!progress.has_room(2, 10_000), "messages are full");
        progress.on_matched(Position(1));
        assert_eq!((progress.in_flight_messages(), progress.in_flight_bytes()), (1, 0));
    }

    #[test]
    fn a_refusal_from_before_a_search_is_out_of_date_after_it() {
        let mut progress = replicating();
        let stale = progress.on_sent(Time(1), Position(5), 10);
        progress.become_probe(Position(3));
        let probe = progress.on_sent(Time(2), Position(3), 10);
        assert!(!progress.is_outstanding_probe(stale) && progress.is_outstanding_probe(probe));
        progress.on_matched(Position(3));
        progress.become_replicate();
        assert!(!progress.is_of_this_state(stale) && !progress.is_of_this_state(probe));
    }

    #[test]
    fn next_moves_with_sending_in_replicate_and_never_in_probe() {
        let mut progress = Progress::new(Position(4), true);
        progress.on_sent(Time(1), Position(9), 10);
        assert_eq!(progress.next, Position(4));
        progress.on_matched(Position(9));
        progress.become_replicate();
        progress.on_sent(Time(2), Position(12), 10);
        assert_eq!(progress.next, Position(13));
    }
}
