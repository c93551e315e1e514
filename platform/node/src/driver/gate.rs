//! Holds promises until the records they depend on are durable.
//!
//! A waiting promise delays nothing but itself: messages do not come here, and a promise whose own ticket is durable passes those
//! that still wait. Promises that become due together leave in the order in which they were made.
//!
//! A promise is for the links that were up when it was made: if a link goes down while the promise waits, it is lost for that peer
//! like a frame in flight, so a link never carries what was said before it came up.

use quorate_framework::{PeerFrame, ReplicaId, Ticket};
use std::collections::VecDeque;

/// Promises that wait at most. One more is dropped: a promise that is never made is never broken, and peers ask again.
pub const PROMISES_HELD: usize = 65_536;
/// Bytes of waiting promises at most, with the same consequence.
pub const PROMISE_BYTES_HELD: usize = 16 << 20;

#[derive(Debug)]
struct Held {
    after: Ticket,
    frame: PeerFrame,
}

/// The gate of one replica.
#[derive(Debug)]
pub struct PromiseGate {
    durable: Ticket,
    /// In the order in which they were made.
    held: VecDeque<Held>,
    held_bytes: usize,
    /// Whether the tickets in `held` never fall, so that the first one that is not durable ends the search.
    ascending: bool,
    dropped: u64,
}

impl Default for PromiseGate {
    fn default() -> PromiseGate {
        PromiseGate { durable: Ticket::RECOVERED, held: VecDeque::new(), held_bytes: 0, ascending: true, dropped: 0 }
    }
}

impl PromiseGate {
    /// Everything up to this ticket is durable.
    #[must_use]
    pub fn durable(&self) -> Ticket {
        self.durable
    }

    /// Promises that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.held.len()
    }

    /// Promises dropped because too many waited.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Gives the frame back if `after` is durable, otherwise keeps it (or drops it, above the bounds).
    pub fn offer(&mut self, after: Ticket, frame: PeerFrame) -> Option<PeerFrame> {
        if after <= self.durable {
            return Some(frame);
        }
        let length = frame.encoded.length();
        if self.held.len() >= PROMISES_HELD || self.held_bytes + length > PROMISE_BYTES_HELD {
            self.dropped += 1;
            return None;
        }
        self.ascending &= self.held.back().is_none_or(|last| last.after <= after);
        self.held_bytes += length;
        self.held.push_back(Held { after, frame });
        None
    }

    /// Everything up to `ticket` is durable: appends what is due to `frames`, in the order in which it was made.
    pub fn persisted(&mut self, ticket: Ticket, frames: &mut Vec<PeerFrame>) {
        self.durable = self.durable.max(ticket);
        while self.held.front().is_some_and(|first| first.after <= self.durable) {
            self.held.pop_front().into_iter().for_each(|held| self.release(held.frame, frames));
        }
        if self.ascending {
            return;
        }
        for _ in 0..self.held.len() {
            let Some(held) = self.held.pop_front() else { break };
            if held.after <= self.durable {
                self.release(held.frame, frames);
            } else {
                self.held.push_back(held);
            }
        }
        self.ascending = self.held.iter().zip(self.held.iter().skip(1)).all(|(one, next)| one.after <= next.after);
    }

    /// The link to a peer is down: what waits for it is lost.
    pub fn peer_down(&mut self, peer: ReplicaId) {
        for held in &mut self.held {
            held.frame.to.retain(|to| *to != peer);
        }
        let held_bytes = &mut self.held_bytes;
        self.held.retain(|held| {
            if held.frame.to.is_empty() {
                *held_bytes -= held.frame.encoded.length();
            }
            !held.frame.to.is_empty()
        });
    }

    /// Forgets everything that waits: the replica promises nothing more.
    pub fn clear(&mut self) {
        self.held.clear();
        self.held_bytes = 0;
        self.ascending = true;
    }

    fn release(&mut self, frame: PeerFrame, frames: &mut Vec<PeerFrame>) {
        self.held_bytes -= frame.encoded.length();
        frames.push(frame);
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
