//! Tickets: one total order over everything a replica persists.
//!
//! A ticket is what a promise depends on. Only persisting makes one, so a promise cannot be made without naming what must be durable
//! before it leaves; durability is never derived from an index, which can be truncated and used again.

use std::fmt;

/// The place of a record in the order in which this replica persists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

impl Ticket {
    /// What was recovered at start: durable before the core is started.
    pub const RECOVERED: Ticket = Ticket(0);
}

impl fmt::Display for Ticket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "#{}", self.0)
    }
}

/// Gives out tickets; a replica has one, which its driver owns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TicketSequence {
    last: u64,
}

impl TicketSequence {
    /// The next ticket.
    pub fn next_ticket(&mut self) -> Ticket {
        self.last += 1;
        Ticket(self.last)
    }

    /// The last ticket that was given out.
    #[must_use]
    pub fn last(&self) -> Ticket {
        Ticket(self.last)
    }
}
