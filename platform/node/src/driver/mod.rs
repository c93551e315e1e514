//! The driver's turn: everything of a replica that is neither protocol nor I/O.
//!
//! A synchronous struct without tokio, clock, thread or I/O, which the node's async shell and the simulator both run. It owns the
//! protocol and its forming machine, feeds events to them in a fixed order, and turns their effects into lists of things to be done
//! ([`TurnOutput`]).
//!
//! # A turn
//! 1. New links of peers, 2. the timer, 3. what became durable, 4. what was executed, 5. the lanes in their order: votes and
//!    heartbeats, acknowledgements, replication, the client lane with all requests of the turn as one event, snapshots; 6. operators'
//!    wishes, 7. lost links, 8. clients that are gone. Lost links come late so that a peer's last words (a hand-over of leadership,
//!    say) are still heard.
//! 2. With [`Durability::InMemory`] everything is durable at once: the turn goes on until the protocol persists nothing more.
//!
//! # Rules
//! - A promise leaves only once its ticket is durable ([`gate`]).
//! - Frames of a peer reach the protocol only while forming counts the peer, and only from its present link.
//! - A request ends once: refused before it was proposed, or as its result, or as unknown ([`waiters`]). Success is said in one
//!   place, from an answer of the executor.
//! - After a halt nothing is promised, proposed or executed any more.

pub mod admission;
mod answers;
mod carry_out;
pub mod gate;
mod inbound;
pub mod input;
pub mod output;
#[cfg(any(test, feature = "testing"))]
pub mod scripted;
#[cfg(any(test, feature = "testing"))]
pub mod speculating;
pub mod status;
pub mod waiters;

#[cfg(test)]
mod tests;

pub use input::{Inbound, LinkId, ReceivedFrame, TurnInput};
pub use output::{Disconnect, TurnOutput};
pub use status::{DriverCounters, DriverStatus};

use admission::{Admission, Load};
use gate::PromiseGate;
use quorate_framework::{
    Answer, ConnectionId, Consensus, Digest, Effect, Effects, Event, Forming, FormingEffect, HaltReason, Lane, Origin, Outcome,
    Position, Proposal, RandomSource, RecoverySpec, Refusal, ReplicaId, Ticket, Time, limits,
};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use waiters::Waiters;

/// Rounds of persisting within one turn with [`Durability::InMemory`], at most: a protocol that persists for ever is broken.
pub const PERSIST_ROUNDS: usize = 1_000;

/// Who makes records durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nobody: recovery is off, records are taken as durable at once and dropped.
    InMemory,
    /// The shell: records are handed out, and [`TurnInput::persisted`] says what is durable.
    External,
}

/// How a driver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverSettings {
    /// This replica; the same as the forming machine's.
    pub replica: ReplicaId,
    /// Who makes records durable.
    pub durability: Durability,
    /// Client frames that may be let in and unanswered.
    pub admission_frames: usize,
    /// Bytes of client frames that may be let in and unanswered.
    pub admission_bytes: usize,
    /// Whether the protocol's invariants are checked after each event.
    pub validate: bool,
}

impl DriverSettings {
    /// The default limits; invariants are checked in debug builds.
    #[must_use]
    pub fn new(replica: ReplicaId, durability: Durability) -> DriverSettings {
        DriverSettings {
            replica,
            durability,
            admission_frames: limits::CLIENT_ADMISSION_FRAMES,
            admission_bytes: limits::CLIENT_ADMISSION_BYTES,
            validate: cfg!(debug_assertions),
        }
    }
}

/// Why the driver does nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ended {
    Stopped,
    Halted(HaltReason),
}

/// A replica without its shell.
pub struct Driver<C: Consensus> {
    settings: DriverSettings,
    core: C,
    /// What was recovered, until the protocol is started with it.
    recovered: Option<<C::Record as RecoverySpec>::State>,
    started: bool,
    verifier: C::Verifier,
    effects: Effects<C>,
    /// Scratch: the effects being carried out.
    effect_list: Vec<Effect<C>>,
    /// Events that carrying out effects has caused, for the protocol, in order.
    follow_up: VecDeque<Event<C>>,
    forming: Forming,
    forming_started: bool,
    forming_effects: Vec<FormingEffect>,
    /// The ticket of the member vector that is on its way to be durable.
    identity_ticket: Option<Ticket>,
    /// The present link of each linked peer.
    links: BTreeMap<ReplicaId, LinkId>,
    /// The peers the protocol knows to be up, ascending.
    counted: Vec<ReplicaId>,
    leader: Option<ReplicaId>,
    gate: PromiseGate,
    /// The last ticket that was given out.
    issued: Ticket,
    admission: Admission,
    waiters: Waiters,
    /// Speculative answers whose ticket is not durable yet.
    held_answers: Vec<(Ticket, Answer)>,
    /// What was executed since the last turn, for the protocol.
    executed: Vec<(Position, Option<Digest>)>,
    executed_position: Position,
    /// Scratch: origins whose request ended as unknown.
    unknown: Vec<Origin>,
    ended: Option<Ended>,
    counters: DriverCounters,
}

impl<C: Consensus> fmt::Debug for Driver<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Driver")
            .field("settings", &self.settings)
            .field("core", &self.core)
            .field("forming", &self.forming)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl<C: Consensus> Driver<C> {
    /// A driver that has recovered nothing. The protocol gets its first event once the replica is formed.
    #[must_use]
    pub fn new(core: C, settings: DriverSettings, forming: Forming, random: Box<dyn RandomSource>) -> Driver<C> {
        let limit = Load { frames: settings.admission_frames, bytes: settings.admission_bytes };
        Driver {
            settings,
            verifier: core.verifier(),
            core,
            recovered: Some(Default::default()),
            started: false,
            effects: Effects::new(random),
            effect_list: Vec::new(),
            follow_up: VecDeque::new(),
            forming,
            forming_started: false,
            forming_effects: Vec::new(),
            identity_ticket: None,
            links: BTreeMap::new(),
            counted: Vec::new(),
            leader: None,
            gate: PromiseGate::default(),
            issued: Ticket::RECOVERED,
            admission: Admission::new(limit),
            waiters: Waiters::default(),
            held_answers: Vec::new(),
            executed: Vec::new(),
            executed_position: Position::ZERO,
            unknown: Vec::new(),
            ended: None,
            counters: DriverCounters::default(),
        }
    }

    /// The same, with what was recovered. All of it must be durable.
    #[must_use]
    pub fn with_recovered(mut self, state: <C::Record as RecoverySpec>::State) -> Driver<C> {
        self.recovered = Some(state);
        self
    }

    /// The protocol, to look at.
    #[must_use]
    pub fn core(&self) -> &C {
        &self.core
    }

    /// The forming machine, to look at; its claim is what handshakes say.
    #[must_use]
    pub fn forming(&self) -> &Forming {
        &self.forming
    }

    /// One turn: takes everything out of `input` and appends what must be done to `output`. Never blocks. The first turn starts the
    /// forming machine, so it must be run even with an empty input.
    pub fn turn(&mut self, now: Time, input: &mut TurnInput, output: &mut TurnOutput<C>) {
        self.counters.turns += 1;
        if self.ended.is_some() {
            input.forget_peers();
        } else if !self.forming_started {
            self.forming_started = true;
            self.forming.start(&mut self.forming_effects);
            self.carry_out_forming(now, output);
        }
        for (peer, link, claim) in input.connected.drain(..) {
            self.connected(now, peer, link, claim, output);
        }
        if self.started && self.core.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.deliver(now, Event::Tick, output);
        }
        if let Some(ticket) = input.persisted.take()
            && self.settings.durability == Durability::External
        {
            self.persisted(now, ticket, output);
        }
        for (position, digest) in std::mem::take(&mut self.executed) {
            self.deliver(now, Event::Executed { position, digest }, output);
        }
        for lane in Lane::ALL {
            for frame in input.lanes[lane as usize].drain(..) {
                self.frame(now, frame, output);
            }
            if lane == Lane::Client {
                self.requests(now, input, output);
            }
        }
        for (id, operation) in input.operations.drain(..) {
            self.operate(now, id, operation, output);
        }
        for (peer, link) in input.disconnected.drain(..) {
            if self.links.get(&peer) == Some(&link) {
                self.link_lost(now, peer, output);
            }
        }
        self.settle(now, output);
        self.depart(&mut input.departed);
        self.report_halt(output);
    }

    /// What came of the executor's commands: answers whoever waits. The protocol hears of it in the next turn (see
    /// [`Driver::next_deadline`]).
    pub fn executed(&mut self, outcome: Outcome, output: &mut TurnOutput<C>) {
        if self.ended.is_some() {
            return;
        }
        self.counters.transactions += outcome.transactions;
        for answer in outcome.answers {
            self.answer(answer, output);
        }
        self.waiters.executed(outcome.executed, &mut self.unknown);
        self.tell_unknown(output);
        if outcome.executed > self.executed_position || outcome.digest.is_some() {
            self.executed_position = self.executed_position.max(outcome.executed);
            match self.executed.last_mut() {
                Some((position, digest @ None)) => (*position, *digest) = (outcome.executed, outcome.digest),
                _ => self.executed.push((outcome.executed, outcome.digest)),
            }
        }
    }

    /// When the next turn is due if nothing comes in before: at [`Time::ZERO`], which means at once, if something waits already.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        if self.ended.is_some() {
            return None;
        }
        if !self.forming_started || !self.executed.is_empty() {
            return Some(Time::ZERO);
        }
        self.core.next_deadline().filter(|_| self.started)
    }

    /// A picture for operators. May cost; not for every turn.
    #[must_use]
    pub fn status(&self) -> DriverStatus {
        let (waiting, undecided) = (self.waiters.load(), self.admission.undecided());
        DriverStatus {
            replica: self.settings.replica,
            protocol: self.core.status(),
            forming: self.forming.status(),
            leader: self.leader,
            unbound_peers: self.forming.unbound_peers().collect(),
            waiting: self.waiters.waiting(),
            admitted_frames: waiting.frames + undecided.frames,
            admitted_bytes: waiting.bytes + undecided.bytes,
            promises_waiting: self.gate.waiting(),
            stopped: self.ended.as_ref().map(|ended| match ended {
                Ended::Stopped => "stopped".to_owned(),
                Ended::Halted(reason) => reason.to_string(),
            }),
            counters: DriverCounters { promises_dropped: self.gate.dropped(), ..self.counters },
        }
    }

    /// Stops for good: those that wait are told `Unknown`, later requests are refused as `Stopped`.
    pub fn stop(&mut self, output: &mut TurnOutput<C>) {
        self.end(Ended::Stopped, output);
    }

    /// Stops for good because of a failure outside (storage, executor). Those that wait are told `Unknown`; nothing further is
    /// promised. The first reason stays.
    pub fn halt(&mut self, reason: HaltReason, output: &mut TurnOutput<C>) {
        self.end(Ended::Halted(reason), output);
        self.report_halt(output);
    }

    fn end(&mut self, ended: Ended, output: &mut TurnOutput<C>) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(ended);
        self.gate.clear();
        self.held_answers.clear();
        self.executed.clear();
        self.follow_up.clear();
        self.waiters.forsake(Position::ZERO, &mut self.unknown);
        self.admission.abandon(&mut self.unknown);
        self.tell_unknown(output);
    }

    fn report_halt(&self, output: &mut TurnOutput<C>) {
        if let Some(Ended::Halted(reason)) = &self.ended {
            output.halt = Some(reason.clone());
        }
    }

    /// Everything up to `ticket` is durable.
    fn persisted(&mut self, now: Time, ticket: Ticket, output: &mut TurnOutput<C>) {
        if self.ended.is_some() || ticket <= self.gate.durable() {
            return;
        }
        if ticket > self.issued {
            let reason = format!("ticket {ticket} was reported durable, but {} is the last one given out", self.issued);
            self.halt(HaltReason::Safety(reason), output);
            return;
        }
        let frames = output.frames.len();
        self.gate.persisted(ticket, &mut output.frames);
        self.counters.frames_sent += (output.frames.len() - frames) as u64;
        self.release_answers(output);
        self.deliver(now, Event::Persisted(ticket), output);
        if self.identity_ticket.is_some_and(|identity| identity <= ticket) {
            self.identity_ticket = None;
            self.forming.vector_persisted(&mut self.forming_effects);
            self.carry_out_forming(now, output);
        }
    }

    /// With recovery off: what was persisted is durable, until nothing more is persisted.
    fn settle(&mut self, now: Time, output: &mut TurnOutput<C>) {
        if self.settings.durability == Durability::External {
            return;
        }
        for _ in 0..PERSIST_ROUNDS {
            if self.ended.is_some() || self.issued == self.gate.durable() {
                return;
            }
            self.persisted(now, self.issued, output);
        }
        let reason = format!("the protocol still persisted after {PERSIST_ROUNDS} rounds of one turn");
        self.halt(HaltReason::Safety(reason), output);
    }

    /// Gives an event to the protocol, and the events that follow from its effects.
    fn deliver(&mut self, now: Time, event: Event<C>, output: &mut TurnOutput<C>) {
        self.follow_up.push_back(event);
        while let Some(event) = self.follow_up.pop_front() {
            self.handle(now, event, output);
        }
    }

    fn handle(&mut self, now: Time, event: Event<C>, output: &mut TurnOutput<C>) {
        match &event {
            _ if self.ended.is_some() => return,
            Event::Start(_) => self.started = true,
            _ if !self.started => return,
            Event::PeerUp { peer, .. } => {
                if let Err(place) = self.counted.binary_search(peer) {
                    self.counted.insert(place, *peer);
                }
            }
            Event::PeerDown { peer } => self.counted.retain(|counted| counted != peer),
            _ => {}
        }
        self.counters.events += 1;
        self.core.on_event(now, event, &mut self.effects);
        if self.settings.validate
            && let Err(broken) = self.core.validate()
        {
            self.effects.drain_into(&mut self.effect_list);
            self.effect_list.clear();
            self.halt(HaltReason::Safety(broken), output);
            return;
        }
        self.carry_out(output);
    }

    /// Hands the turn's requests to the protocol as one event, after admission.
    fn requests(&mut self, now: Time, input: &mut TurnInput, output: &mut TurnOutput<C>) {
        if input.requests.is_empty() {
            return;
        }
        let waiting = self.waiters.load();
        let mut proposals = Vec::with_capacity(input.requests.len());
        for (connection, frame) in input.requests.drain(..) {
            let origin = Origin { connection, session: frame.header.session, sequence: frame.header.sequence };
            if let Some(refusal) = self.refusal_without_protocol() {
                self.refuse(origin, refusal, output);
            } else if self.admission.admit(waiting, origin, u32::try_from(frame.bytes.len()).unwrap_or(u32::MAX)) {
                proposals.push(Proposal::new(connection, frame));
            } else {
                self.refuse(origin, Refusal::Busy, output);
            }
        }
        if !proposals.is_empty() {
            self.deliver(now, Event::Propose(proposals), output);
        }
    }

    /// Takes note of clients that are gone.
    fn depart(&mut self, departed: &mut Vec<ConnectionId>) {
        if !departed.is_empty() {
            departed.sort_unstable();
            self.waiters.depart(departed);
            departed.clear();
        }
    }
}
