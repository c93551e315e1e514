//! What happens when nobody answers: lost connections, failed dials, silence, deadlines.

use super::{Engine, Link};
use crate::backoff::pause;
use crate::deadlines::Deadline;
use crate::outcome::NotDone;
use crate::request::{LinkId, Place, Purpose, Requests};
use rand::Rng;
use std::cmp::Reverse;
use std::time::Instant;

/// Times an attempt is given more time because its replica answers others, before it is repeated all the same.
const EXTENSIONS: u32 = 3;

impl Engine {
    /// A connection is up.
    pub(crate) fn link_up(&mut self, now: Instant, id: LinkId, replica: usize) {
        let dials = &mut self.dials[replica];
        dials.under_way = dials.under_way.saturating_sub(1);
        (dials.failed_in_a_row, dials.not_before, dials.last_error) = (0, None, None);
        dials.reached = true;
        self.links.push(Link { id, replica, heard: now });
    }

    /// A dial has failed.
    pub(crate) fn dial_failed(&mut self, now: Instant, replica: usize, error: String) {
        let random = self.random.next_u64();
        let dials = &mut self.dials[replica];
        dials.under_way = dials.under_way.saturating_sub(1);
        let time = pause(self.options.pauses.dial_min, self.options.pauses.dial_max, dials.failed_in_a_row, random);
        dials.failed_in_a_row += 1;
        dials.not_before = Some(now + time);
        dials.last_error = Some(error);
        // One connection less to a leader that is connected changes nothing else.
        if !self.links.iter().any(|link| link.replica == replica) {
            self.search.failed(now, replica, time, random);
        }
    }

    /// A connection is gone: what was on it may have happened, and is asked again in its session.
    pub(crate) fn link_down(&mut self, now: Instant, id: LinkId) {
        let Some(place) = self.links.iter().position(|link| link.id == id) else { return };
        let replica = self.links.remove(place).replica;
        let mut lost = Vec::new();
        for key in self.requests.keys() {
            let Some(request) = self.requests.get_mut(key) else { continue };
            if matches!(request.place, Place::Sent { link, .. } if link == id) {
                request.may_have_happened = true;
                lost.push((request.submitted, key));
            }
        }
        self.counters.connection_lost += lost.len() as u64;
        lost.sort_unstable_by(|left, right| right.cmp(left));
        lost.into_iter().for_each(|(_, key)| self.back_to_ready(key));
        if !self.links.iter().any(|link| link.replica == replica) {
            self.search.lost(now, replica);
        }
    }

    /// Time has passed: pauses end, attempts and requests run out.
    pub(crate) fn on_time(&mut self, now: Instant) {
        while let Some(Reverse((at, key))) = self.paused.peek().copied() {
            if at > now {
                break;
            }
            self.paused.pop();
            if let Some(request) = self.requests.get_mut(key).filter(|request| request.place == Place::Paused) {
                request.place = Place::Ready;
                // Before newer ones, as every other retry.
                self.ready.push_front(key);
            }
        }
        while let Some(due) = pop_due(&mut self.deadlines, &self.requests, now, |_, _| false) {
            let Some(request) = self.requests.get(due.key) else { continue };
            let reason = NotDone::NotTaken { last_refusal: request.last_refusal };
            let outcome = request.unsettled(reason);
            self.end(now, due.key, outcome);
        }
        let is_over = |requests: &Requests, deadline: &Deadline| {
            let request = requests.get(deadline.key);
            request.is_none_or(|request| {
                request.attempts != deadline.attempt || !matches!(request.place, Place::Sent { .. })
            })
        };
        while let Some(due) = pop_due(&mut self.attempts, &self.requests, now, is_over) {
            self.attempt_ran_out(now, due);
        }
    }

    fn attempt_ran_out(&mut self, now: Instant, due: Deadline) {
        let Some(request) = self.requests.get_mut(due.key) else { return };
        let Place::Sent { link, .. } = request.place else { return };
        let time_out = self.options.attempt_timeout;
        let heard = self.links.iter().find(|known| known.id == link).map(|known| (known.heard, known.replica));
        let is_probe = self.probe.is_some_and(|(probe, _)| probe == due.key);
        // A replica that answers others is slow, not lost: asking another one would only add to its load.
        if let Some((heard, _)) = heard
            && now.saturating_duration_since(heard) < time_out
            && request.extensions < EXTENSIONS
            && !is_probe
        {
            request.extensions += 1;
            // Until it has been silent for as long: a replica that stops right after an answer gets no second whole time-out.
            self.attempts.push(Deadline { at: heard + time_out, ..due });
            return;
        }
        request.may_have_happened = true;
        if matches!(request.purpose, Purpose::Commands(_)) {
            self.counters.timed_out += 1;
        }
        if let Some((heard, replica)) = heard
            && (is_probe || now.saturating_duration_since(heard) >= time_out)
        {
            let random = self.random.next_u64();
            self.search.failed(now, replica, time_out, random);
        }
        self.back_to_ready(due.key);
    }
}

/// The first deadline that is due and not void.
fn pop_due(
    queue: &mut crate::deadlines::DeadlineQueue,
    requests: &Requests,
    now: Instant,
    is_over: impl Fn(&Requests, &Deadline) -> bool,
) -> Option<Deadline> {
    queue.pop_due(now, |deadline| requests.get(deadline.key).is_none() || is_over(requests, deadline))
}
