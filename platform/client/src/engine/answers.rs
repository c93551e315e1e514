//! What replicas answer.

use super::Engine;
use crate::backoff::pause;
use crate::outcome::{ClientEvent, Done, NotDone, Outcome};
use crate::request::{LinkId, Place, Purpose, RequestKey};
use crate::session::{Session, SessionState};
use bytes::Bytes;
use quorate_framework::{ReplicaId, ReplyHeader, ReplyKind, SessionId, Status};
use rand::Rng;
use std::cmp::Reverse;
use std::time::Instant;

impl Engine {
    /// A reply has arrived.
    pub(crate) fn on_reply(&mut self, now: Instant, link: LinkId, reply: &ReplyHeader, body: Bytes) {
        let Some(from) = self.heard(now, link) else { return };
        if reply.kind != ReplyKind::Committed {
            return;
        }
        let Some(key) = self.route(reply.session, reply.sequence).or_else(|| self.route_opening(reply)) else {
            return; // What it answers has ended.
        };
        match reply.status {
            Status::Ok | Status::NotFound | Status::Conflict => {
                self.confirm(from);
                self.settle(now, key, reply, body);
            }
            Status::NotLeader | Status::Stopped => self.on_not_leader(now, key, link, from, reply),
            Status::Busy => self.on_busy(now, key, link, from),
            Status::Unknown => self.on_unknown(now, key, link, from),
            Status::Expired => self.on_expired(now, key),
            // Decided from the frame alone, so it holds for every attempt.
            Status::Invalid => self.fail(now, key, NotDone::Invalid(text(&body))),
            Status::Unsupported | Status::Gap => self.on_unsupported(now, key, link),
        }
    }

    fn heard(&mut self, now: Instant, link: LinkId) -> Option<usize> {
        let link = self.links.iter_mut().find(|known| known.id == link)?;
        link.heard = now;
        Some(link.replica)
    }

    /// The opening request of a reply: it echoes half of the nonce, and until the session is open no id.
    fn route_opening(&self, reply: &ReplyHeader) -> Option<RequestKey> {
        if self.sessions_missing() == 0 {
            return None;
        }
        let is_of = |session: &Session| matches!(session.state, SessionState::Opening { nonce } if nonce as u64 == reply.sequence.0);
        let session = self.sessions.iter().position(is_of)?;
        let opens = |key: &RequestKey| {
            self.requests
                .get(*key)
                .is_some_and(|request| request.purpose == Purpose::Open && request.session == session)
        };
        self.requests.keys().into_iter().find(opens)
    }

    fn confirm(&mut self, from: usize) {
        if from != self.search.target() || !self.search.confirm() {
            return;
        }
        self.probe = None;
        if self.leader != Some(from) {
            if self.leader.is_some() {
                self.counters.leader_changes += 1;
            }
            self.leader = Some(from);
            self.limit.forget();
            self.events.push(ClientEvent::Leader(self.replicas[from]));
        }
    }

    fn settle(&mut self, now: Instant, key: RequestKey, reply: &ReplyHeader, body: Bytes) {
        let Some(request) = self.requests.get(key) else { return };
        let count = request.count;
        if request.purpose == Purpose::Open {
            let session = request.session;
            self.end(now, key, Outcome::Unknown);
            self.opened(session, reply.session);
            return;
        }
        self.end(now, key, Outcome::Done(Done { status: reply.status, position: reply.position, count, body }));
        self.limit.answered(self.options.window_frames);
    }

    fn opened(&mut self, session: usize, id: SessionId) {
        if id.is_none() {
            self.open_failure = Some("a replica opened a session without giving its id".to_owned());
            return;
        }
        self.sessions[session].state = SessionState::Open(id);
        self.open_sessions.insert(id, session);
        self.room += self.sessions[session].room(self.options.session_window_frames);
    }

    /// Whether `link` carries the present attempt of a request; a refusal speaks of its own attempt only.
    fn is_present_attempt(&self, key: RequestKey, link: LinkId) -> bool {
        let request = self.requests.get(key);
        request.is_some_and(|request| matches!(request.place, Place::Sent { link: of, .. } if of == link))
    }

    fn on_not_leader(&mut self, now: Instant, key: RequestKey, link: LinkId, from: usize, reply: &ReplyHeader) {
        let hint = reply.hint.and_then(|id| self.replicas.iter().position(|replica| *replica == id));
        if !self.is_present_attempt(key, link) {
            return;
        }
        let random = self.random.next_u64();
        self.search.redirected(now, from, hint, random);
        self.counters.not_leader += 1;
        self.refused(key, reply.status, reply.hint);
        self.back_to_ready(key);
    }

    fn on_busy(&mut self, now: Instant, key: RequestKey, link: LinkId, from: usize) {
        if !self.is_present_attempt(key, link) {
            return;
        }
        let random = self.random.next_u64();
        // A replica that is full without having proven to lead may not be the one to wait for.
        if from == self.search.target() && !self.search.is_confirmed() {
            self.search.doubt(now, random);
        }
        self.counters.busy += 1;
        self.refused(key, Status::Busy, None);
        self.forget_probe(key);
        self.limit.returned();
        self.limit.refused(self.options.window_frames);
        let Some(request) = self.requests.get_mut(key) else { return };
        if self.limit.is_idle() {
            // No answer will come that could show room: the leader is left alone for a while.
            let time = pause(self.options.pauses.busy_min, self.options.pauses.busy_max, request.busy, random);
            request.busy += 1;
            request.place = Place::Paused;
            self.paused.push(Reverse((now + time, key)));
        } else {
            // The limit holds it until an answer comes. Before newer ones: its session must not wait for it.
            request.place = Place::Ready;
            self.ready.push_front(key);
        }
    }

    /// Counts and tells a refusal, for this attempt.
    fn refused(&mut self, key: RequestKey, status: Status, hint: Option<ReplicaId>) {
        if let Some(request) = self.requests.get_mut(key) {
            request.last_refusal = Some(status);
            if let Purpose::Commands(number) = request.purpose {
                self.events.push(ClientEvent::Refused { number, status, hint });
            }
        }
    }

    fn on_unknown(&mut self, now: Instant, key: RequestKey, link: LinkId, from: usize) {
        self.counters.unknown_answers += 1;
        if let Some(request) = self.requests.get_mut(key) {
            request.may_have_happened = true;
        }
        if self.is_present_attempt(key, link) {
            if from == self.search.target() {
                let random = self.random.next_u64();
                self.search.doubt(now, random);
            }
            self.back_to_ready(key);
        }
    }

    /// The cluster no longer knows the session: everything in it ends, and a new one is asked for.
    fn on_expired(&mut self, now: Instant, key: RequestKey) {
        let Some(request) = self.requests.get(key) else { return };
        if request.purpose == Purpose::Open {
            self.open_failure = Some("a replica answered the opening of a session with Expired".to_owned());
            return;
        }
        let session = request.session;
        self.counters.sessions_expired += 1;
        for key in self.sessions[session].requests() {
            let Some(request) = self.requests.get(key) else { continue };
            let outcome = match request.unsettled(NotDone::SessionEnded) {
                Outcome::Unknown => Outcome::Expired,
                certain => certain,
            };
            self.end(now, key, outcome);
        }
        self.room -= self.sessions[session].room(self.options.session_window_frames);
        if let Some(id) = self.sessions[session].id() {
            self.open_sessions.remove(&id);
        }
        let nonce = self.nonce();
        self.sessions[session] = Session::opening(nonce);
        self.ask_to_open(session, now);
    }

    fn on_unsupported(&mut self, now: Instant, key: RequestKey, link: LinkId) {
        if !self.is_present_attempt(key, link) {
            return;
        }
        // This attempt is refused for good; of an earlier one it says nothing.
        let earlier_may_have = self.requests.get(key).is_some_and(|request| request.may_have_happened);
        if earlier_may_have {
            self.end(now, key, Outcome::Unknown);
        } else {
            self.fail(now, key, NotDone::Unsupported);
        }
    }

    fn fail(&mut self, now: Instant, key: RequestKey, reason: NotDone) {
        if self.requests.get(key).is_some_and(|request| request.purpose == Purpose::Open) {
            self.open_failure = Some(reason.to_string());
        }
        self.end(now, key, Outcome::NotDone(reason));
    }

    /// The request is sent again as soon as a leader takes it, before those that were never sent.
    pub(super) fn back_to_ready(&mut self, key: RequestKey) {
        self.forget_probe(key);
        if let Some(request) = self.requests.get_mut(key) {
            if matches!(request.place, Place::Sent { .. }) {
                self.limit.returned();
            }
            request.place = Place::Ready;
            self.ready.push_front(key);
        }
    }
}

fn text(body: &[u8]) -> String {
    const SHOWN: usize = 200;
    String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).into_owned()
}
