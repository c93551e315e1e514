//! What a simulated process leaves behind: records in the order of their tickets, of which only a reported prefix is sure to survive.

use crate::random::SimulatedRandom;
use quorate_framework::{Consensus, Incarnation, MemberVector, RecoverySpec, ReplayError, Ticket};
use std::collections::VecDeque;

/// One thing made durable.
#[derive(Debug)]
pub enum Written<C: Consensus> {
    /// A record of the protocol.
    Record(C::Record),
    /// The member vector of the metadata.
    Vector(MemberVector),
}

/// A replica's data.
#[derive(Debug)]
pub struct Disk<C: Consensus> {
    /// The incarnation that owns the data.
    pub incarnation: Incarnation,
    /// How often it was started.
    pub start_counter: u64,
    /// What was reported durable, replayed.
    pub state: <C::Record as RecoverySpec>::State,
    /// The durable member vector.
    pub vector: Option<MemberVector>,
    /// Written, and not yet reported durable.
    pending: VecDeque<(Ticket, Written<C>)>,
}

impl<C: Consensus> Disk<C> {
    /// An empty directory of a new incarnation.
    #[must_use]
    pub fn empty(incarnation: Incarnation) -> Disk<C> {
        Disk { incarnation, start_counter: 0, state: Default::default(), vector: None, pending: VecDeque::new() }
    }

    /// Takes a record to be made durable.
    pub fn write(&mut self, ticket: Ticket, written: Written<C>) {
        self.pending.push_back((ticket, written));
    }

    /// The last ticket that waits to be made durable.
    #[must_use]
    pub fn last_pending(&self) -> Option<Ticket> {
        self.pending.back().map(|(ticket, _)| *ticket)
    }

    /// Everything up to a ticket is durable.
    ///
    /// # Errors
    /// [`ReplayError`] if the records do not follow one another.
    pub fn synced(&mut self, ticket: Ticket) -> Result<(), ReplayError> {
        while self.pending.front().is_some_and(|(pending, _)| *pending <= ticket) {
            if let Some((_, written)) = self.pending.pop_front() {
                self.keep(written)?;
            }
        }
        Ok(())
    }

    /// The process is gone: of what was not reported, the disk may have kept some first records.
    ///
    /// # Errors
    /// [`ReplayError`] if the records do not follow one another.
    pub fn crash(&mut self, random: &mut SimulatedRandom) -> Result<u64, ReplayError> {
        let extra = random.below(self.pending.len() as u64 + 1);
        for (_, written) in std::mem::take(&mut self.pending).into_iter().take(extra as usize) {
            self.keep(written)?;
        }
        Ok(extra)
    }

    fn keep(&mut self, written: Written<C>) -> Result<(), ReplayError> {
        match written {
            Written::Record(record) => record.replay(&mut self.state),
            Written::Vector(vector) => {
                self.vector = Some(vector);
                Ok(())
            }
        }
    }
}
