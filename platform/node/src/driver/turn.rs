//! The turn: what is given to the protocol, in which order.

use super::{Driver, Durability, TurnInput, TurnOutput};
use quorate_framework::{ConnectionId, Consensus, Event, HaltReason, Lane, Origin, Proposal, Refusal, Ticket, Time};

/// Rounds of persisting within one turn with [`Durability::InMemory`], at most: a protocol that persists for ever is broken.
pub const PERSIST_ROUNDS: usize = 1_000;

impl<C: Consensus> Driver<C> {
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
        for event in input.snapshots.drain(..) {
            self.snapshot_event(now, event, output);
        }
        for (peer, link) in input.alive.drain(..) {
            self.alive(now, peer, link, output);
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
    pub(super) fn deliver(&mut self, now: Time, event: Event<C>, output: &mut TurnOutput<C>) {
        self.follow_up.push_back(event);
        while let Some(event) = self.follow_up.pop_front() {
            self.handle(now, event, output);
        }
    }

    pub(super) fn handle(&mut self, now: Time, event: Event<C>, output: &mut TurnOutput<C>) {
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
            } else if self.waiters.waits(&origin) {
                // Its first copy will be answered. Ordering it again would only add to the load that made the client impatient.
                self.counters.repeated += 1;
            } else if input.storage_is_full {
                self.refuse(origin, Refusal::Busy, output);
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
