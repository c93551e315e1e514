//! Who waits for what is executed where.
//!
//! A wait begins when a protocol accepts a request at a position as a block. It ends once: with the answer of that block, or as
//! unknown when another block is executed or accepted there, when the protocol forsakes it, or when the position was executed without
//! an answer. Who is to be told is given by [`Waiters::drain_unknown`], once all effects of an event are carried out: a request whose
//! wait ends and that is accepted again elsewhere in the same event goes on waiting.
//! A speculative answer does not end it; the commit of the same block then ends it without a second answer.
//!
//! The slot of a request whose wait has ended early (its client is gone, or its session waits elsewhere) stays counted until its
//! position is executed or forsaken, because until then the request takes up memory.

use super::admission::Load;
use hashbrown::HashMap;
use quorate_framework::{Accepted, Answer, BlockId, ConnectionId, ExecuteRange, Origin, Position, ReplyKind, Ticket};
use std::collections::VecDeque;

/// Positions from the first to the last waiting one at most. Far above what admission lets in: more is a fault of the protocol.
pub const POSITIONS_SPANNED: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    /// Executed ahead of the commit; the answer may leave once the ticket is durable.
    Speculating(Ticket),
    /// The speculative answer has left.
    AnsweredSpeculatively,
}

#[derive(Debug)]
struct Slot {
    block: BlockId,
    /// None once nobody waits any more.
    origin: Option<Origin>,
    bytes: u32,
    phase: Phase,
}

/// What is to be done with an answer of the executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody waits for it, now.
    Nobody,
    /// Send it to this origin.
    Reply(Origin),
    /// Keep it until the ticket is durable, then ask [`Waiters::release`].
    Hold(Ticket),
    /// Another block was executed where this origin waits: its request may or may not have happened.
    Unknown(Origin),
}

/// A position so far from the waiting ones that the protocol must be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a request was accepted at position {position}, more than {POSITIONS_SPANNED} from the waiting position {waiting}"
)]
pub struct TooFar {
    /// The position given.
    pub position: Position,
    /// The first or last position that waits.
    pub waiting: Position,
}

/// The table of those that wait at one replica.
#[derive(Debug, Default)]
pub struct Waiters {
    /// The position of the first slot.
    base: Position,
    slots: VecDeque<Option<Slot>>,
    /// Where each origin waits: an origin waits at one position at most.
    index: HashMap<Origin, Position>,
    load: Load,
    /// Whose waits ended as unknown, with the sizes of their requests, and who was not told yet.
    unknown: Vec<(Origin, u32)>,
    /// Everything up to here was handed to the executor as committed.
    ordered: Position,
}

impl Waiters {
    /// The requests that take up memory: those that wait, and those whose wait ended before their position was executed.
    #[must_use]
    pub fn load(&self) -> Load {
        self.load
    }

    /// Whether this origin waits.
    #[must_use]
    pub fn waits(&self, origin: &Origin) -> bool {
        self.index.contains_key(origin)
    }

    /// Origins that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.index.len()
    }

    /// Moves to `unknown` whose waits ended as unknown since the last call, in that order. Each must be told.
    pub fn drain_unknown(&mut self, unknown: &mut Vec<Origin>) {
        unknown.extend(self.unknown.drain(..).map(|(origin, _)| origin));
    }

    /// A request of `bytes` waits from now on. `bytes` is none for a request that entered before and is accepted again elsewhere: it
    /// then takes its size with it.
    ///
    /// # Errors
    /// [`TooFar`]; the request then does not wait.
    pub fn accept(&mut self, accepted: Accepted, bytes: Option<u32>) -> Result<(), TooFar> {
        let Accepted { origin, position, block } = accepted;
        let moved = self.leave_earlier_wait(&origin, bytes.is_some());
        let bytes = bytes.or(moved).unwrap_or(0);
        if position <= self.ordered {
            // It was handed to the executor before anybody was known to wait: no answer may come.
            self.unknown.push((origin, bytes));
            return Ok(());
        }
        self.make_room(position)?;
        let offset = (position.0 - self.base.0) as usize;
        self.end(offset);
        self.load.add(bytes);
        self.index.insert(origin, position);
        self.slots[offset] = Some(Slot { block, origin: Some(origin), bytes, phase: Phase::Waiting });
        Ok(())
    }

    /// These batches are handed to the executor as committed; gives whether any answer is wanted. Who waits there for another
    /// block waits in vain.
    pub fn execute(&mut self, range: &ExecuteRange) -> bool {
        let mut wanted = false;
        if !self.index.is_empty() {
            for (offset, batch) in self.offsets(range.first).zip(&range.batches) {
                let Some(Some(slot)) = offset.and_then(|offset| self.slots.get_mut(offset)) else { continue };
                let Some(origin) = slot.origin else { continue };
                if slot.block == batch.block && slot.phase != Phase::AnsweredSpeculatively {
                    wanted = true;
                    continue;
                }
                slot.origin = None;
                self.index.remove(&origin);
                if slot.block != batch.block {
                    self.unknown.push((origin, slot.bytes));
                }
            }
        }
        self.ordered = self.ordered.max(range.last());
        wanted
    }

    /// These batches are executed ahead of their commit; their answers may leave once `reply_after` is durable.
    pub fn speculate(&mut self, range: &ExecuteRange, reply_after: Ticket) {
        if self.index.is_empty() {
            return;
        }
        for (offset, batch) in self.offsets(range.first).zip(&range.batches) {
            if let Some(Some(slot)) = offset.and_then(|offset| self.slots.get_mut(offset))
                && slot.block == batch.block
                && slot.phase != Phase::AnsweredSpeculatively
            {
                slot.phase = Phase::Speculating(reply_after);
            }
        }
    }

    /// What was executed ahead above `to` is undone: answers that have not left must not leave.
    pub fn rollback(&mut self, to: Position) {
        let kept = (to.next().0.saturating_sub(self.base.0) as usize).min(self.slots.len());
        for slot in self.slots.range_mut(kept..).flatten() {
            if let Phase::Speculating(_) = slot.phase {
                slot.phase = Phase::Waiting;
            }
        }
    }

    /// Judges an answer of the executor, given what is durable; ends the wait of a committed one.
    pub fn answer(&mut self, answer: &Answer, durable: Ticket) -> Verdict {
        let Some((offset, slot)) = self.slot(answer.position) else { return Verdict::Nobody };
        let Some(origin) = slot.origin else { return Verdict::Nobody };
        let same_block = slot.block == answer.block;
        match (answer.kind, slot.phase) {
            (ReplyKind::Speculative, Phase::Speculating(after)) if same_block && after > durable => {
                Verdict::Hold(after)
            }
            (ReplyKind::Speculative, Phase::Speculating(_)) if same_block => {
                slot.phase = Phase::AnsweredSpeculatively;
                Verdict::Reply(origin)
            }
            (ReplyKind::Speculative, _) => Verdict::Nobody,
            (ReplyKind::Committed, phase) => {
                self.remove(offset);
                match (same_block, phase) {
                    (false, _) => Verdict::Unknown(origin),
                    (true, Phase::AnsweredSpeculatively) => Verdict::Nobody,
                    (true, _) => Verdict::Reply(origin),
                }
            }
        }
    }

    /// The ticket of a held speculative answer is durable: gives the origin, unless the wait has ended or the block was rolled back
    /// since.
    pub fn release(&mut self, answer: &Answer, durable: Ticket) -> Option<Origin> {
        match self.answer(answer, durable) {
            Verdict::Reply(origin) => Some(origin),
            Verdict::Nobody | Verdict::Hold(_) | Verdict::Unknown(_) => None,
        }
    }

    /// Everything up to `position` is executed and its answers were given: whoever still waits there waits in vain.
    pub fn executed(&mut self, position: Position) {
        while self.base <= position && !self.slots.is_empty() {
            match self.slots.front() {
                // What was ordered is known to be the block whose speculative answer has left.
                Some(Some(slot)) if slot.phase == Phase::AnsweredSpeculatively && self.base <= self.ordered => {
                    self.remove(0);
                }
                _ => self.end(0),
            }
            self.slots.pop_front();
            self.base = self.base.next();
        }
        self.ordered = self.ordered.max(position);
        self.trim();
    }

    /// Whoever waits at `from` or above waits in vain.
    pub fn forsake(&mut self, from: Position) {
        let kept = (from.0.saturating_sub(self.base.0) as usize).min(self.slots.len());
        for offset in kept..self.slots.len() {
            self.end(offset);
        }
        self.slots.truncate(kept);
    }

    /// These connections are gone: nobody is there to answer. `connections` is sorted.
    pub fn depart(&mut self, connections: &[ConnectionId]) {
        for slot in self.slots.iter_mut().flatten() {
            if let Some(origin) = slot.origin
                && connections.binary_search(&origin.connection).is_ok()
            {
                slot.origin = None;
                self.index.remove(&origin);
            }
        }
    }

    fn offsets(&self, first: Position) -> impl Iterator<Item = Option<usize>> + use<> {
        let base = self.base.0;
        (first.0..).map(move |position| position.checked_sub(base).map(|offset| offset as usize))
    }

    fn slot(&mut self, position: Position) -> Option<(usize, &mut Slot)> {
        let offset = position.0.checked_sub(self.base.0)? as usize;
        self.slots.get_mut(offset)?.as_mut().map(|slot| (offset, slot))
    }

    /// Ends the wait that `origin` has elsewhere, or had until this event. The request there stays counted if another frame
    /// (`another`) has come; otherwise it is the same request, and its size is given.
    fn leave_earlier_wait(&mut self, origin: &Origin, another: bool) -> Option<u32> {
        if let Some(place) = self.unknown.iter().rposition(|(ended, _)| ended == origin) {
            return Some(self.unknown.remove(place).1);
        }
        let position = self.index.remove(origin)?;
        let (offset, slot) = self.slot(position)?;
        slot.origin = None;
        let bytes = slot.bytes;
        if !another {
            self.remove(offset);
            self.trim();
        }
        Some(bytes)
    }

    /// Stretches the slots to `position`.
    fn make_room(&mut self, position: Position) -> Result<(), TooFar> {
        if self.slots.is_empty() {
            self.base = position;
        }
        let end = self.base.0 + self.slots.len() as u64;
        if position.0 >= self.base.0.saturating_add(POSITIONS_SPANNED)
            || position.0.saturating_add(POSITIONS_SPANNED) <= end
        {
            let waiting = if position < self.base { Position(end - 1) } else { self.base };
            return Err(TooFar { position, waiting });
        }
        while position < self.base {
            self.slots.push_front(None);
            self.base.0 -= 1;
        }
        while position.0 >= self.base.0 + self.slots.len() as u64 {
            self.slots.push_back(None);
        }
        Ok(())
    }

    /// Empties a slot, and keeps in mind who waited there in vain.
    fn end(&mut self, offset: usize) {
        if let Some(Slot { origin: Some(origin), bytes, .. }) = self.remove(offset) {
            self.unknown.push((origin, bytes));
        }
    }

    /// Empties a slot.
    fn remove(&mut self, offset: usize) -> Option<Slot> {
        let slot = self.slots.get_mut(offset).and_then(Option::take)?;
        self.load.remove(slot.bytes);
        if let Some(origin) = slot.origin {
            self.index.remove(&origin);
        }
        Some(slot)
    }

    /// Drops empty slots at the front.
    fn trim(&mut self) {
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.base = self.base.next();
        }
    }
}

#[cfg(test)]
#[path = "waiters_tests.rs"]
mod tests;
