//! How far the log is durable: derived from tickets, never from an index, which can be truncated and used again.

use crate::stall::HandedOut;
use quorate_framework::{Position, Ticket, Time};
use std::collections::VecDeque;

/// The durable end of the log, and what is on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Durability {
    persisted: Position,
    /// Appends on their way: their tickets, and the index that is durable with each. Indexes never fall along the queue.
    pending: VecDeque<(Ticket, Position)>,
    /// Ticket of the newest term and vote.
    hard_state: Ticket,
    /// Everything up to this ticket is durable.
    reached: Ticket,
    /// The newest ticket given out.
    issued: Ticket,
    /// When what is not durable was given out.
    unpersisted: HandedOut<Ticket>,
}

impl Durability {
    pub(crate) fn recovered(last: Position) -> Durability {
        Durability {
            persisted: last,
            pending: VecDeque::new(),
            hard_state: Ticket::RECOVERED,
            reached: Ticket::RECOVERED,
            issued: Ticket::RECOVERED,
            unpersisted: HandedOut::default(),
        }
    }

    /// The last durable index.
    pub(crate) fn persisted(&self) -> Position {
        self.persisted
    }

    /// Ticket of the newest term and vote.
    pub(crate) fn hard_state(&self) -> Ticket {
        self.hard_state
    }

    /// Whether the newest term and vote are durable.
    pub(crate) fn hard_state_reached(&self) -> bool {
        self.hard_state <= self.reached
    }

    /// What must be durable for a promise about everything up to `index`: the entries and the term.
    pub(crate) fn ticket_for(&self, index: Position) -> Ticket {
        let entries =
            self.pending.iter().find(|(_, last)| *last >= index).map_or(Ticket::RECOVERED, |(ticket, _)| *ticket);
        if index <= self.persisted { self.hard_state } else { entries.max(self.hard_state) }
    }

    pub(crate) fn on_append(&mut self, ticket: Ticket, last: Position) {
        self.pending.push_back((ticket, last));
        self.issued = ticket;
    }

    /// A snapshot up to `last` was installed, and the log above `common`, the commit before it, is dropped. Until the record that
    /// says so is durable, only what was committed before counts.
    pub(crate) fn on_reset(&mut self, ticket: Ticket, last: Position, common: Position) {
        self.persisted = self.persisted.min(common);
        self.pending.iter_mut().for_each(|(_, index)| *index = (*index).min(common));
        self.on_append(ticket, last);
    }

    /// Since when the oldest record that is not durable waits.
    pub(crate) fn oldest_unpersisted(&self) -> Option<Time> {
        self.unpersisted.oldest()
    }

    /// Records given out by the present event wait since now.
    pub(crate) fn note_issued(&mut self, now: Time) {
        if self.issued > self.reached {
            self.unpersisted.note(self.issued, now);
        }
    }

    pub(crate) fn on_hard_state(&mut self, ticket: Ticket) {
        self.hard_state = ticket;
        self.issued = ticket;
    }

    /// Entries from `first` on are gone: tickets that stood for them stand for what is left.
    pub(crate) fn on_truncate(&mut self, first: Position) {
        let last = Position(first.0.saturating_sub(1));
        self.persisted = self.persisted.min(last);
        self.pending.iter_mut().for_each(|(_, index)| *index = (*index).min(last));
    }

    pub(crate) fn on_persisted(&mut self, ticket: Ticket) {
        self.reached = self.reached.max(ticket);
        self.unpersisted.answered(ticket);
        while let Some((_, last)) = self.pending.front().filter(|(pending, _)| *pending <= ticket) {
            self.persisted = self.persisted.max(*last);
            self.pending.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_framework::TicketSequence;

    #[test]
    fn an_old_ticket_never_makes_a_reused_index_durable() {
        let mut tickets = TicketSequence::default();
        let mut durability = Durability::recovered(Position(5));
        let old = tickets.next_ticket();
        durability.on_append(old, Position(10));
        durability.on_truncate(Position(8));
        let new = tickets.next_ticket();
        durability.on_append(new, Position(9));
        assert_eq!(durability.ticket_for(Position(9)), new);
        assert_eq!(durability.ticket_for(Position(7)), old);
        durability.on_persisted(old);
        assert_eq!(durability.persisted(), Position(7), "indexes 8 to 10 of the old append are gone");
        durability.on_persisted(new);
        assert_eq!(durability.persisted(), Position(9));
    }

    #[test]
    fn a_promise_about_durable_entries_still_waits_for_the_term() {
        let mut tickets = TicketSequence::default();
        let mut durability = Durability::recovered(Position(5));
        let term = tickets.next_ticket();
        durability.on_hard_state(term);
        assert_eq!(durability.ticket_for(Position(3)), term);
        assert!(!durability.hard_state_reached());
        durability.on_persisted(term);
        assert!(durability.hard_state_reached());
    }
}
