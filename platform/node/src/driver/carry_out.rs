//! Carries out the effects of the protocol and of the forming machine, in their order.

use super::snapshots::{SnapshotOrder, SnapshotTask};
use super::{Disconnect, Driver, Durability, TurnOutput};
use bytes::Bytes;
use quorate_framework::{
    Accepted, Consensus, Destination, Effect, Encoded, Encoder, Event, ExecuteRange, ExecutorCommand, FormingEffect,
    FormingMessage, FrameClass, HaltReason, Lane, Origin, PeerFrame, ReplicaId, Start, Ticket, Time, Wire,
};

impl<C: Consensus> Driver<C> {
    /// Carries out what the protocol wants since its last event.
    pub(super) fn carry_out(&mut self, output: &mut TurnOutput<C>) {
        let mut list = std::mem::take(&mut self.effect_list);
        self.effects.drain_into(&mut list);
        for effect in list.drain(..) {
            if self.ended.is_some() {
                break;
            }
            self.carry_out_one(effect, output);
        }
        self.effect_list = list;
        self.tell_unknown(output);
    }

    fn carry_out_one(&mut self, effect: Effect<C>, output: &mut TurnOutput<C>) {
        match effect {
            Effect::Persist { ticket, record } => {
                self.issued = ticket;
                if self.settings.durability == Durability::External {
                    output.records.push((ticket, record));
                }
            }
            Effect::Send { to, message } => {
                if let Some(frame) = self.encode(&to, FrameClass::Message, &message) {
                    self.push_frame(frame, output);
                }
            }
            Effect::Promise { to, after, promise } => self.promise(&to, after, &promise, output),
            Effect::Accepted(list) => list.into_iter().for_each(|accepted| self.accepted(accepted, output)),
            Effect::Refused { origin, refusal } => {
                self.admission.decided(&origin);
                self.refuse(origin, refusal, output);
            }
            Effect::Dropped { origin } => self.dropped(origin),
            Effect::Forsaken { from } => self.waiters.forsake(from),
            Effect::Execute(range) => self.execute(range, output),
            Effect::Speculate { base, range, reply_after } => {
                self.waiters.speculate(&range, reply_after);
                output.commands.push(ExecutorCommand::Speculate { base, range });
            }
            Effect::Rollback { to } => {
                self.roll_back_answers(to);
                output.commands.push(ExecutorCommand::Rollback { to });
            }
            Effect::Operated { id, result } => output.operated.push((id, result)),
            Effect::LeaderIs { leader, .. } => {
                self.leader = leader;
                self.forming.elected(leader == Some(self.forming.replica()), &mut self.forming_effects);
                self.carry_out_forming_effects(output);
            }
            Effect::Members(vector) => {
                self.forming.members(vector, &mut self.forming_effects);
                self.carry_out_forming_effects(output);
            }
            Effect::Verifier(verifier) => self.verifier = verifier,
            Effect::Evidence { against, what } => output.evidence.push((against, what)),
            Effect::Observe(observation) => output.observations.push(observation),
            Effect::Halt(reason) => self.halt(reason, output),
            Effect::ServeRead { .. } => self.unsupported("ServeRead", output),
            Effect::TakeSnapshot { base } => self.place("TakeSnapshot", SnapshotOrder::Take(base), output),
            Effect::InstallSnapshot { id, base } => {
                self.place("InstallSnapshot", SnapshotOrder::Install { id, base }, output);
            }
            Effect::ForgetLog { through } => self.task("ForgetLog", SnapshotTask::ForgetLog(through), output),
            Effect::OfferSnapshot { to, at_least } => {
                self.task("OfferSnapshot", SnapshotTask::Offer { to, at_least }, output);
            }
            Effect::WithdrawSnapshot { to } => self.task("WithdrawSnapshot", SnapshotTask::Withdraw(to), output),
            Effect::FetchSnapshot { from, snapshot } => {
                self.task("FetchSnapshot", SnapshotTask::Fetch { from, snapshot }, output);
            }
            Effect::CancelFetch => self.task("CancelFetch", SnapshotTask::Cancel, output),
            Effect::FetchState { .. } => self.unsupported("FetchState", output),
            Effect::FetchPayload { .. } => self.unsupported("FetchPayload", output),
        }
    }

    fn unsupported(&mut self, name: &'static str, output: &mut TurnOutput<C>) {
        self.halt(HaltReason::EffectUnsupported(name), output);
    }

    fn accepted(&mut self, accepted: Accepted, output: &mut TurnOutput<C>) {
        let bytes = self.admission.decided(&accepted.origin);
        self.counters.accepted += u64::from(bytes.is_some());
        if let Err(error) = self.waiters.accept(accepted, bytes) {
            self.unknown.push(accepted.origin);
            self.halt(HaltReason::Safety(error.to_string()), output);
        }
    }

    /// The protocol gives up a request of its pool. Others may have got it, so its outcome is unknown.
    fn dropped(&mut self, origin: Origin) {
        if self.admission.decided(&origin).is_some() {
            self.unknown.push(origin);
        }
    }

    /// Orders committed batches to be executed, in one command with those directly before them.
    fn execute(&mut self, mut range: ExecuteRange, output: &mut TurnOutput<C>) {
        if range.batches.is_empty() {
            return;
        }
        let answers = self.waiters.execute(&range);
        // An order in between has its place.
        let is_next = output.orders.last().is_none_or(|placed| placed.after < output.commands.len());
        if let Some(ExecutorCommand::Execute { range: before, answers: wanted }) = output.commands.last_mut()
            && is_next
            && before.last().next() == range.first
        {
            before.batches.append(&mut range.batches);
            *wanted |= answers;
        } else {
            output.commands.push(ExecutorCommand::Execute { range, answers });
        }
    }

    fn promise(&mut self, to: &Destination, after: Ticket, promise: &C::Promise, output: &mut TurnOutput<C>) {
        if let Some(frame) = self.encode(to, FrameClass::Promise, promise)
            && let Some(frame) = self.gate.offer(after, frame)
        {
            self.push_frame(frame, output);
        }
    }

    fn push_frame(&mut self, frame: PeerFrame, output: &mut TurnOutput<C>) {
        self.counters.frames_sent += 1;
        output.frames.push(frame);
    }

    /// Encodes a message once for all its destinations that count; none if nobody is there to hear it.
    fn encode(&self, to: &Destination, class: FrameClass, message: &impl Wire) -> Option<PeerFrame> {
        let is_counted = |peer: &ReplicaId| self.counted.binary_search(peer).is_ok();
        let to = match to {
            Destination::One(peer) if is_counted(peer) => vec![*peer],
            Destination::One(_) => return None,
            Destination::All => self.counted.clone(),
            Destination::Set(peers) => peers.iter().copied().filter(is_counted).collect(),
        };
        if to.is_empty() {
            return None;
        }
        let mut encoder = Encoder::new();
        message.encode(&mut encoder);
        Some(PeerFrame { to, lane: message.lane(), class, encoded: encoder.finish() })
    }

    /// Carries out what forming wants, and gives the protocol the events that follow.
    pub(super) fn carry_out_forming(&mut self, now: Time, output: &mut TurnOutput<C>) {
        self.carry_out_forming_effects(output);
        while let Some(event) = self.follow_up.pop_front() {
            self.handle(now, event, output);
        }
    }

    /// Carries out what forming wants; events that follow from it are left in `follow_up`, to come after the present one's effects.
    fn carry_out_forming_effects(&mut self, output: &mut TurnOutput<C>) {
        while !self.forming_effects.is_empty() {
            let mut list = std::mem::take(&mut self.forming_effects);
            for effect in list.drain(..) {
                self.carry_out_forming_one(effect, output);
            }
            if self.forming_effects.is_empty() {
                self.forming_effects = list;
                return;
            }
        }
    }

    fn carry_out_forming_one(&mut self, effect: FormingEffect, output: &mut TurnOutput<C>) {
        match effect {
            FormingEffect::PersistVector(_) if self.settings.durability == Durability::InMemory => {
                self.forming.vector_persisted(&mut self.forming_effects);
            }
            FormingEffect::PersistVector(vector) => {
                let ticket = self.effects.driver_ticket();
                self.issued = ticket;
                self.identity_ticket = Some(ticket);
                output.identity.push((ticket, vector));
            }
            FormingEffect::Formed(members) => {
                let state = self.recovered.take().unwrap_or_default();
                let (replica, executed) = (self.forming.replica(), self.began_at);
                self.follow_up.push_back(Event::Start(Start { replica, members, state, executed }));
            }
            FormingEffect::Announce(claim) => {
                output.claim = Some(claim);
                let to: Vec<ReplicaId> = self.links.keys().copied().collect();
                self.send_forming(to, &FormingMessage::Claim(claim), output);
            }
            FormingEffect::Send(peer, message) => self.send_forming(vec![peer], &message, output),
            FormingEffect::PeerUp(peer, incarnation) => {
                self.follow_up.push_back(Event::PeerUp { peer, incarnation });
            }
            FormingEffect::PeerDown(peer) => {
                // At once, so that nothing more is sent to an incarnation that no longer counts.
                self.counted.retain(|counted| *counted != peer);
                self.gate.peer_down(peer);
                self.follow_up.push_back(Event::PeerDown { peer });
            }
            FormingEffect::Refuse(peer, reason) => {
                if let Some(link) = self.links.get(&peer).copied() {
                    output.disconnect.push(Disconnect { peer, link, reason });
                }
            }
        }
    }

    fn send_forming(&mut self, to: Vec<ReplicaId>, message: &FormingMessage, output: &mut TurnOutput<C>) {
        if !to.is_empty() {
            let encoded = Encoded { head: Bytes::from(message.encode()), body: Vec::new() };
            self.push_frame(PeerFrame { to, lane: Lane::Control, class: FrameClass::Forming, encoded }, output);
        }
    }
}
