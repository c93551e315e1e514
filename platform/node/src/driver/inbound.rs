//! What peers and operators want: links, frames, wishes.

use super::{Disconnect, Driver, ReceivedFrame, TurnOutput};
use quorate_framework::{
    Consensus, Decoder, Event, FormingEffect, FormingMessage, FrameClass, Incoming, Lane, LinkId, MemberClaim,
    Operation, OperationError, OperationId, Rejected, ReplicaId, Time, Verified, Wire, WireError,
};

impl<C: Consensus> Driver<C> {
    /// A handshake with a peer is done.
    pub(super) fn connected(
        &mut self,
        now: Time,
        peer: ReplicaId,
        link: LinkId,
        claim: MemberClaim,
        output: &mut TurnOutput<C>,
    ) {
        if self.ended.is_some() {
            return;
        }
        if peer == self.forming.replica() {
            let reason = format!("replica {peer} is this replica: two processes run under one id");
            output.disconnect.push(Disconnect { peer, link, reason });
            return;
        }
        self.forming.link_up(peer, claim, &mut self.forming_effects);
        // A link that is refused does not take the place of the one the peer may have.
        let refused = self.forming_effects.extract_if(.., |effect| matches!(effect, FormingEffect::Refuse(..))).last();
        match refused {
            Some(FormingEffect::Refuse(peer, reason)) => output.disconnect.push(Disconnect { peer, link, reason }),
            _ => {
                self.links.insert(peer, link);
            }
        }
        self.carry_out_forming(now, output);
    }

    /// The present link of a peer is gone.
    pub(super) fn link_lost(&mut self, now: Time, peer: ReplicaId, output: &mut TurnOutput<C>) {
        self.links.remove(&peer);
        self.forming.link_down(peer, &mut self.forming_effects);
        self.carry_out_forming(now, output);
    }

    /// Closes the present link of a peer: nothing more is heard from it.
    pub(super) fn cut(&mut self, now: Time, peer: ReplicaId, reason: String, output: &mut TurnOutput<C>) {
        if let Some(link) = self.links.get(&peer).copied() {
            output.disconnect.push(Disconnect { peer, link, reason });
            self.link_lost(now, peer, output);
        }
    }

    /// Parts of a long message of a peer arrive. Counts only where the message itself would.
    pub(super) fn alive(&mut self, now: Time, peer: ReplicaId, link: LinkId, output: &mut TurnOutput<C>) {
        if self.links.get(&peer) == Some(&link) && self.forming.is_counted(peer) {
            self.deliver(now, Event::PeerAlive { peer }, output);
        }
    }

    /// A frame from a peer.
    pub(super) fn frame(&mut self, now: Time, frame: ReceivedFrame, output: &mut TurnOutput<C>) {
        if self.ended.is_some() {
            return;
        }
        if self.links.get(&frame.peer) != Some(&frame.link) {
            self.counters.frames_stale += 1;
            return;
        }
        if frame.class == FrameClass::Forming {
            match forming_message(&frame) {
                Ok(message) => {
                    self.forming.message(frame.peer, message, &mut self.forming_effects);
                    self.carry_out_forming(now, output);
                }
                Err(error) => self.undecodable(now, frame.peer, &error, output),
            }
            return;
        }
        // Only what an incarnation says that is bound, and known to the protocol as up, may count for anything.
        if !self.started || !self.forming.is_counted(frame.peer) {
            self.counters.frames_uncounted += 1;
            return;
        }
        let (peer, lane) = (frame.peer, frame.lane);
        let incoming = match incoming::<C>(&frame) {
            Ok(incoming) => incoming,
            Err(error) => return self.undecodable(now, peer, &error, output),
        };
        if lane_of(&incoming) != lane {
            let reason = format!("a message came in the lane {lane:?}, but travels in {:?}", lane_of(&incoming));
            self.counters.frames_undecodable += 1;
            return self.cut(now, peer, reason, output);
        }
        match Verified::check(&self.verifier, peer, incoming) {
            Ok(message) => {
                self.counters.frames_received += 1;
                self.deliver(now, Event::Message { from: peer, message }, output);
            }
            Err(Rejected::Useless) => self.counters.frames_useless += 1,
            Err(rejected @ Rejected::Forged(_)) => {
                self.counters.frames_forged += 1;
                self.cut(now, peer, rejected.to_string(), output);
            }
        }
    }

    /// An operator's wish.
    pub(super) fn operate(&mut self, now: Time, id: OperationId, operation: Operation, output: &mut TurnOutput<C>) {
        if self.refusal_without_protocol().is_some() {
            output.operated.push((id, Err(OperationError::NotLeader { hint: None })));
        } else {
            self.deliver(now, Event::Operate { id, operation }, output);
        }
    }

    fn undecodable(&mut self, now: Time, peer: ReplicaId, error: &WireError, output: &mut TurnOutput<C>) {
        self.counters.frames_undecodable += 1;
        self.cut(now, peer, error.to_string(), output);
    }
}

fn forming_message(frame: &ReceivedFrame) -> Result<FormingMessage, WireError> {
    if !frame.body.is_empty() {
        return Err(WireError::Trailing { what: "forming message", count: frame.body.len() });
    }
    FormingMessage::decode(&frame.head)
}

fn incoming<C: Consensus>(frame: &ReceivedFrame) -> Result<Incoming<C::Message, C::Promise>, WireError> {
    let decoder = Decoder::new(&frame.head, frame.body.clone());
    match frame.class {
        FrameClass::Message => C::Message::decode(decoder).map(Incoming::Message),
        FrameClass::Promise => C::Promise::decode(decoder).map(Incoming::Promise),
        FrameClass::Forming => Err(WireError::Meaningless { what: "frame class", value: frame.class as u64 }),
    }
}

fn lane_of<M: Wire, P: Wire>(incoming: &Incoming<M, P>) -> Lane {
    match incoming {
        Incoming::Message(message) => message.lane(),
        Incoming::Promise(promise) => promise.lane(),
    }
}
