//! The client without its sockets: sessions, attempts, redirects, pauses, deadlines. Pure: time and bytes come in, bytes go out.
//!
//! Life of a request: it takes a sequence of a session and waits to be sent (`Ready`); it is sent to the leader (`Sent`); a refusal,
//! a lost connection or silence puts it back, with the same sequence, until an answer of its session or its deadline ends it.

mod answers;
mod failures;

use crate::deadlines::{Deadline, DeadlineQueue};
use crate::in_flight_limit::InFlightLimit;
use crate::options::ClientOptions;
use crate::outcome::{ClientCounters, ClientEvent, Ended, NotDone, Outcome};
use crate::request::{LinkId, Place, Purpose, Request, RequestKey, Requests};
use crate::search::LeaderSearch;
use crate::session::{Session, SessionState};
use bytes::{Bytes, BytesMut};
use quorate_framework::request::REQUEST_HEADER_BYTES;
use quorate_framework::{ReplicaId, RequestHeader, Sequence, SessionId};
use rand::Rng;
use rand::rngs::SmallRng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Instant;

/// Takes what the engine wants done.
pub(crate) trait Output {
    /// Queues a frame on a connection; false if it takes no more at present.
    fn send(&mut self, link: LinkId, frame: &Bytes) -> bool;

    /// Starts to connect to a replica; ends in `link_up` or `dial_failed`.
    fn dial(&mut self, replica: usize);
}

/// A connection that is up.
#[derive(Debug)]
struct Link {
    id: LinkId,
    replica: usize,
    /// When anything last came from it.
    heard: Instant,
}

/// Dials to one replica.
#[derive(Debug, Default)]
struct Dials {
    under_way: usize,
    failed_in_a_row: u32,
    not_before: Option<Instant>,
    last_error: Option<String>,
    reached: bool,
}

/// The client without its sockets.
#[derive(Debug)]
pub(crate) struct Engine {
    options: ClientOptions,
    replicas: Vec<ReplicaId>,
    requests: Requests,
    sessions: Vec<Session>,
    /// Where an open session stands in `sessions`.
    open_sessions: HashMap<SessionId, usize>,
    /// Where to look first for room.
    next_session: usize,
    room: usize,
    search: LeaderSearch,
    /// The request that asks an unconfirmed target, and that target.
    probe: Option<(RequestKey, usize)>,
    leader: Option<usize>,
    links: Vec<Link>,
    dials: Vec<Dials>,
    ready: VecDeque<RequestKey>,
    /// What a leader that is busy is given at a time.
    limit: InFlightLimit,
    paused: BinaryHeap<Reverse<(Instant, RequestKey)>>,
    attempts: DeadlineQueue,
    deadlines: DeadlineQueue,
    random: SmallRng,
    counters: ClientCounters,
    events: Vec<ClientEvent>,
    open_failure: Option<String>,
}

impl Engine {
    /// An engine that begins to open its sessions. The options were checked.
    pub(crate) fn new(options: ClientOptions, mut random: SmallRng, now: Instant) -> Engine {
        let count = options.replicas.len();
        let first = (random.next_u64() % count as u64) as usize;
        let mut engine = Engine {
            replicas: options.replicas.iter().map(|replica| replica.id).collect(),
            requests: Requests::default(),
            sessions: Vec::new(),
            open_sessions: HashMap::new(),
            next_session: 0,
            room: 0,
            search: LeaderSearch::new(count, first, options.pauses),
            probe: None,
            leader: None,
            links: Vec::new(),
            dials: (0..count).map(|_| Dials::default()).collect(),
            ready: VecDeque::new(),
            limit: InFlightLimit::default(),
            paused: BinaryHeap::new(),
            attempts: DeadlineQueue::default(),
            deadlines: DeadlineQueue::default(),
            random,
            counters: ClientCounters::default(),
            events: Vec::new(),
            open_failure: None,
            options,
        };
        for session in 0..engine.options.sessions() {
            let nonce = engine.nonce();
            engine.sessions.push(Session::opening(nonce));
            engine.ask_to_open(session, now);
        }
        engine
    }

    /// Requests that may be submitted now.
    pub(crate) fn capacity(&self) -> usize {
        self.room.min(self.options.window_frames.saturating_sub(self.in_flight()))
    }

    /// The user's requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        (self.counters.submitted - self.counters.done - self.counters.failed) as usize
    }

    /// Sessions that are not open.
    pub(crate) fn sessions_missing(&self) -> usize {
        self.sessions.iter().filter(|session| session.id().is_none()).count()
    }

    /// Why the cluster will not open a session, if it will not.
    pub(crate) fn open_failure(&self) -> Option<&str> {
        self.open_failure.as_deref()
    }

    pub(crate) fn counters(&self) -> ClientCounters {
        self.counters
    }

    /// The replica that has last proven to lead.
    pub(crate) fn leader(&self) -> Option<ReplicaId> {
        self.leader.map(|replica| self.replicas[replica])
    }

    /// What became of the last dial to each replica, where it failed.
    pub(crate) fn dial_errors(&self) -> impl Iterator<Item = (usize, &str)> {
        self.dials.iter().enumerate().filter_map(|(replica, dials)| Some((replica, dials.last_error.as_deref()?)))
    }

    /// Whether a replica was ever connected.
    pub(crate) fn was_reached(&self, replica: usize) -> bool {
        self.dials[replica].reached
    }

    pub(crate) fn take_events(&mut self, events: &mut Vec<ClientEvent>) {
        events.append(&mut self.events);
    }

    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Puts a request in flight; false if there is no capacity. It is sent by the next `pump`.
    pub(crate) fn submit(&mut self, now: Instant, number: u64, count: u32, body: &[u8]) -> bool {
        if self.capacity() == 0 {
            return false;
        }
        let window = self.options.session_window_frames;
        let sessions = self.sessions.len();
        let order = (0..sessions).map(|step| (self.next_session + step) % sessions);
        let Some(session) = order.into_iter().find(|session| self.sessions[*session].room(window) > 0) else {
            return false;
        };
        self.next_session = (session + 1) % sessions;
        let Some(id) = self.sessions[session].id() else { return false };
        let key = self.insert(Purpose::Commands(number), session, Bytes::new(), now);
        let (sequence, acknowledged) = self.sessions[session].take(key);
        if let Some(request) = self.requests.get_mut(key) {
            let header =
                RequestHeader { session: id, sequence, acknowledged, count, signature_length: 0, ordered: false };
            (request.id, request.sequence, request.count) = (id, sequence, count);
            request.frame = frame(&header, body);
        }
        self.room -= 1;
        self.counters.submitted += 1;
        self.deadlines.push(Deadline { at: now + self.options.request_deadline, key, attempt: 0 });
        true
    }

    /// Sends what may be sent and dials whom it needs.
    pub(crate) fn pump(&mut self, now: Instant, output: &mut impl Output) {
        if self.ready.is_empty() || !self.search.may_send(now) {
            return;
        }
        let target = self.search.target();
        let confirmed = self.search.is_confirmed();
        let up = self.links.iter().filter(|link| link.replica == target).count();
        let wanted = if confirmed { self.options.connections } else { 1 };
        let dials = &mut self.dials[target];
        if up + dials.under_way < wanted && dials.not_before.is_none_or(|time| time <= now) {
            for _ in up + dials.under_way..wanted {
                dials.under_way += 1;
                output.dial(target);
            }
        }
        if up == 0 {
            return;
        }
        if confirmed {
            while self.send_next(now, target, up, output).is_some() {}
        } else if self.probe.is_none_or(|(_, asked)| asked != target) {
            self.probe = self.send_next(now, target, up, output).map(|key| (key, target));
        }
    }

    /// Sends the first ready request to the target. None: nothing is ready, or its connection takes no more.
    fn send_next(&mut self, now: Instant, target: usize, up: usize, output: &mut impl Output) -> Option<RequestKey> {
        loop {
            let key = *self.ready.front().filter(|_| self.limit.has_room())?;
            let Some(request) = self.requests.get_mut(key).filter(|request| request.place == Place::Ready) else {
                self.ready.pop_front();
                continue;
            };
            let mut of_target = self.links.iter().filter(|link| link.replica == target);
            let link = of_target.nth(request.session % up)?.id;
            if !output.send(link, &request.frame) {
                return None;
            }
            self.ready.pop_front();
            if request.attempts > 0 {
                self.counters.retried += 1;
            }
            request.place = Place::Sent { link, at: now };
            self.limit.sent();
            request.attempts += 1;
            request.extensions = 0;
            let deadline = Deadline { at: now + self.options.attempt_timeout, key, attempt: request.attempts };
            self.attempts.push(deadline);
            return Some(key);
        }
    }

    /// When `on_time` or `pump` have something to do without anything having arrived; both were just called with `now`.
    pub(crate) fn next_wake(&self, now: Instant) -> Option<Instant> {
        let paused = self.paused.peek().map(|Reverse((at, _))| *at);
        let sending = if self.ready.is_empty() {
            None
        } else {
            let dial = self.dials[self.search.target()].not_before;
            // What is over already has let `pump` do what it could.
            self.search.hold_until().into_iter().chain(dial).filter(|time| *time > now).max()
        };
        [paused, sending, self.attempts.next(), self.deadlines.next()].into_iter().flatten().min()
    }

    /// Ends everything that is in flight.
    pub(crate) fn close(&mut self) {
        for key in self.requests.keys() {
            if let Some(request) = self.requests.get(key) {
                let outcome = request.unsettled(NotDone::Closed);
                self.end(Instant::now(), key, outcome);
            }
        }
    }

    fn nonce(&mut self) -> u128 {
        u128::from(self.random.next_u64()) | u128::from(self.random.next_u64()) << 64
    }

    fn ask_to_open(&mut self, session: usize, now: Instant) {
        let SessionState::Opening { nonce } = self.sessions[session].state else { return };
        self.insert(Purpose::Open, session, frame(&RequestHeader::open(nonce, false), &[]), now);
    }

    fn insert(&mut self, purpose: Purpose, session: usize, frame: Bytes, now: Instant) -> RequestKey {
        let key = self.requests.insert(Request {
            purpose,
            session,
            id: SessionId::NONE,
            sequence: Sequence(0),
            count: 0,
            frame,
            submitted: now,
            place: Place::Ready,
            attempts: 0,
            extensions: 0,
            busy: 0,
            may_have_happened: false,
            last_refusal: None,
        });
        self.ready.push_back(key);
        key
    }

    /// Ends a request and frees its slot and sequence.
    fn end(&mut self, now: Instant, key: RequestKey, outcome: Outcome) {
        let Some(request) = self.requests.remove(key) else { return };
        if matches!(request.place, Place::Sent { .. }) {
            self.limit.returned();
        }
        self.forget_probe(key);
        let Purpose::Commands(number) = request.purpose else { return };
        let window = self.options.session_window_frames;
        let session = &mut self.sessions[request.session];
        // A request of a session that has been given up has no sequence in the present one.
        if session.id() == Some(request.id) {
            let before = session.room(window);
            session.end(request.sequence);
            self.room = self.room + session.room(window) - before;
        }
        match outcome {
            Outcome::Done(_) => self.counters.done += 1,
            _ => self.counters.failed += 1,
        }
        let latency = now.saturating_duration_since(request.submitted);
        let (attempts, submitted_at) = (request.attempts, request.submitted);
        self.events.push(ClientEvent::Ended(Ended { number, outcome, latency, submitted_at, attempts }));
    }

    fn forget_probe(&mut self, key: RequestKey) {
        if self.probe.is_some_and(|(probe, _)| probe == key) {
            self.probe = None;
        }
    }

    /// The request that a reply speaks of.
    fn route(&self, session: SessionId, sequence: Sequence) -> Option<RequestKey> {
        self.sessions[*self.open_sessions.get(&session)?].find(sequence)
    }
}

fn frame(header: &RequestHeader, body: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(REQUEST_HEADER_BYTES + body.len());
    header.encode(&mut frame);
    frame.extend_from_slice(body);
    frame.freeze()
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
