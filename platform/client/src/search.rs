//! The search for the leader: whom to ask next, and when. Pure.
//!
//! One replica is the target. It is confirmed once it has executed something; until then a single request at a time is sent to it, so
//! that a change of leader does not throw the whole window at every replica in turn.

use crate::backoff::pause;
use crate::options::Pauses;
use std::time::{Duration, Instant};

/// Whom to ask.
#[derive(Debug)]
pub(crate) struct LeaderSearch {
    target: usize,
    confirmed: bool,
    /// Nothing is sent before.
    hold_until: Option<Instant>,
    /// Wrong turns since a target was last confirmed.
    wrong_turns: u32,
    /// Replicas that are not worth asking before these times.
    avoid_until: Vec<Option<Instant>>,
    pauses: Pauses,
}

impl LeaderSearch {
    pub(crate) fn new(replicas: usize, first: usize, pauses: Pauses) -> LeaderSearch {
        LeaderSearch {
            target: first,
            confirmed: false,
            hold_until: None,
            wrong_turns: 0,
            avoid_until: vec![None; replicas],
            pauses,
        }
    }

    pub(crate) fn target(&self) -> usize {
        self.target
    }

    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Whether something may be sent now.
    pub(crate) fn may_send(&self, now: Instant) -> bool {
        self.hold_until.is_none_or(|until| until <= now)
    }

    /// When the present pause ends.
    pub(crate) fn hold_until(&self) -> Option<Instant> {
        self.hold_until
    }

    /// The target has executed something. Gives whether that is news.
    pub(crate) fn confirm(&mut self) -> bool {
        let news = !self.confirmed;
        (self.confirmed, self.hold_until, self.wrong_turns) = (true, None, 0);
        self.avoid_until[self.target] = None;
        news
    }

    /// The target may lead no longer; ask it first.
    pub(crate) fn doubt(&mut self, now: Instant, random: u64) {
        if self.confirmed {
            self.confirmed = false;
        } else {
            self.move_on(now, random);
        }
    }

    /// `from` does not lead.
    pub(crate) fn redirected(&mut self, now: Instant, from: usize, hint: Option<usize>, random: u64) {
        if from != self.target {
            return;
        }
        self.confirmed = false;
        match hint {
            Some(hint) if hint != from && !self.is_avoided(hint, now) => {
                self.wrong_turns += 1;
                self.target = hint;
                // Replicas that point at each other in a circle are asked slowly.
                if self.wrong_turns as usize > self.avoid_until.len() {
                    self.hold(now, random);
                }
            }
            _ => self.move_on(now, random),
        }
    }

    /// The connection to `replica` was lost: nothing is wrong with asking it again, but others may know more.
    pub(crate) fn lost(&mut self, now: Instant, replica: usize) {
        if replica == self.target {
            self.confirmed = false;
            self.target = self.next_after(replica, now);
        }
    }

    /// `replica` could not be reached or did not answer: it is not asked again for a while unless nobody else is left.
    pub(crate) fn failed(&mut self, now: Instant, replica: usize, avoid: Duration, random: u64) {
        self.avoid_until[replica] = Some(now + avoid);
        if replica == self.target {
            self.confirmed = false;
            self.move_on(now, random);
        }
    }

    fn is_avoided(&self, replica: usize, now: Instant) -> bool {
        self.avoid_until[replica].is_some_and(|until| until > now)
    }

    fn move_on(&mut self, now: Instant, random: u64) {
        self.wrong_turns += 1;
        self.confirmed = false;
        self.target = self.next_after(self.target, now);
        self.hold(now, random);
    }

    fn hold(&mut self, now: Instant, random: u64) {
        let until = now + pause(self.pauses.search_min, self.pauses.search_max, self.wrong_turns - 1, random);
        // If everybody is avoided, the first whose time has come is asked then.
        let avoided = self.avoid_until[self.target].unwrap_or(now);
        self.hold_until = Some(until.max(avoided));
    }

    /// The next replica in the ring that is not avoided; if all are, the one whose time comes first.
    fn next_after(&self, replica: usize, now: Instant) -> usize {
        let count = self.avoid_until.len();
        let ring = (1..=count).map(|step| (replica + step) % count);
        let others = ring.clone().find(|candidate| !self.is_avoided(*candidate, now));
        others.or_else(|| ring.min_by_key(|candidate| self.avoid_until[*candidate])).unwrap_or(replica)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search() -> (LeaderSearch, Instant) {
        (LeaderSearch::new(3, 0, Pauses::default()), Instant::now())
    }

    #[test]
    fn a_hint_is_followed_at_once_and_confirmed_by_an_answer() {
        let (mut search, now) = search();
        search.redirected(now, 0, Some(2), 0);
        assert_eq!((search.target(), search.is_confirmed(), search.may_send(now)), (2, false, true));
        assert!(search.confirm(), "news");
        assert!(!search.confirm(), "no news");
        search.redirected(now, 0, Some(1), 0);
        assert_eq!((search.target(), search.is_confirmed()), (2, true), "what another replica says is old");
    }

    #[test]
    fn replicas_that_know_no_leader_are_asked_in_turn_with_growing_pauses() {
        let (mut search, now) = search();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let from = search.target();
            search.redirected(now, from, None, u64::MAX);
            assert_eq!(search.target(), (from + 1) % 3);
            pauses.push(search.hold_until().map(|until| until - now).unwrap().as_millis());
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 100, 100]);
        assert!(!search.may_send(now) && search.may_send(now + Duration::from_millis(100)));
    }

    #[test]
    fn replicas_that_point_at_each_other_are_asked_slowly() {
        let (mut search, now) = search();
        for turn in 0..3 {
            search.redirected(now, turn % 2, Some(1 - turn % 2), 0);
            assert!(search.may_send(now));
        }
        search.redirected(now, 1, Some(0), 0);
        assert!(!search.may_send(now));
    }

    #[test]
    fn a_hint_to_a_replica_that_cannot_be_reached_is_not_followed() {
        let (mut search, now) = search();
        search.failed(now, 0, Duration::from_secs(1), 0);
        assert_eq!(search.target(), 1);
        search.redirected(now, 1, Some(0), 0);
        assert_eq!(search.target(), 2);
        let later = now + Duration::from_secs(1);
        search.redirected(later, 2, Some(0), 0);
        assert_eq!(search.target(), 0, "its time has come");
    }

    #[test]
    fn if_nobody_can_be_reached_the_first_whose_time_has_come_is_asked_then() {
        let (mut search, now) = search();
        search.failed(now, 0, Duration::from_secs(3), 0);
        search.failed(now, 1, Duration::from_secs(2), 0);
        search.failed(now, 2, Duration::from_secs(5), 0);
        assert_eq!((search.target(), search.hold_until()), (1, Some(now + Duration::from_secs(2))));
    }

    #[test]
    fn a_lost_connection_asks_the_next_replica_without_a_pause() {
        let (mut search, now) = search();
        search.confirm();
        search.lost(now, 1);
        assert!(search.is_confirmed(), "the connection to another replica does not matter");
        search.lost(now, 0);
        assert_eq!((search.target(), search.is_confirmed(), search.may_send(now)), (1, false, true));
    }
}
