//! What the metadata name, and will name with the changes on their way.

use crate::driver::SnapshotEvent;
use crate::shell::storage::NamedSnapshot;
use quorate_framework::{Position, SnapshotBase, Ticket};
use std::collections::VecDeque;

/// A change of the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    /// None until it is submitted.
    ticket: Option<Ticket>,
    snapshot: NamedSnapshot,
    /// The event that follows, unless only the log's part has changed.
    then: Option<SnapshotEvent>,
}

/// What is named by the metadata, durably and by changes on their way, in the order of their tickets.
///
/// A crash may leave the metadata at any of these. So whatever one of them names must stay: its file and its generation of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Naming {
    durably: NamedSnapshot,
    changes: VecDeque<Change>,
}

impl Naming {
    pub(super) fn new(named: Option<NamedSnapshot>) -> Naming {
        let nothing = || NamedSnapshot { base: SnapshotBase::default(), store_generation: 0, released: Position::ZERO };
        Naming { durably: named.unwrap_or_else(nothing), changes: VecDeque::new() }
    }

    /// What is named when all changes are durable.
    pub(super) fn latest(&self) -> &NamedSnapshot {
        self.changes.back().map_or(&self.durably, |change| &change.snapshot)
    }

    /// Whether a change is on its way.
    pub(super) fn is_changing(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Whether a change is to be submitted.
    pub(super) fn wants_a_ticket(&self) -> bool {
        // They are submitted in their order.
        self.changes.back().is_some_and(|change| change.ticket.is_none())
    }

    /// Changes what is named, without metadata: at once.
    pub(super) fn set(&mut self, base: SnapshotBase, store_generation: u64) {
        self.durably = NamedSnapshot { base, store_generation, released: Position::ZERO };
    }

    /// Has the metadata name another snapshot; the event follows once they do.
    pub(super) fn name(&mut self, base: SnapshotBase, store_generation: u64, then: SnapshotEvent) {
        let snapshot = NamedSnapshot { base, store_generation, released: self.latest().released };
        self.changes.push_back(Change { ticket: None, snapshot, then: Some(then) });
    }

    /// Has the metadata say that the log may go up to here, unless they do.
    pub(super) fn release(&mut self, through: Position) {
        if through > self.latest().released {
            let snapshot = NamedSnapshot { released: through, ..self.latest().clone() };
            self.changes.push_back(Change { ticket: None, snapshot, then: None });
        }
    }

    /// The next change to be submitted, which gets its ticket now.
    pub(super) fn submit_next(&mut self, ticket: impl FnOnce() -> Ticket) -> Option<(Ticket, NamedSnapshot)> {
        let change = self.changes.iter_mut().find(|change| change.ticket.is_none())?;
        let ticket = ticket();
        change.ticket = Some(ticket);
        Some((ticket, change.snapshot.clone()))
    }

    /// Everything up to a ticket is durable. Puts what follows into `events`; whether the metadata name another snapshot now.
    pub(super) fn durable(&mut self, ticket: Ticket, events: &mut Vec<SnapshotEvent>) -> bool {
        let mut names_another = false;
        let is_durable = |change: &Change| change.ticket.is_some_and(|submitted| submitted <= ticket);
        while self.changes.front().is_some_and(is_durable)
            && let Some(change) = self.changes.pop_front()
        {
            names_another |= change.then.is_some();
            events.extend(change.then);
            self.durably = change.snapshot;
        }
        names_another
    }

    /// What a start may find named, now or after a change on its way.
    pub(super) fn all(&self) -> impl Iterator<Item = &NamedSnapshot> {
        std::iter::once(&self.durably).chain(self.changes.iter().map(|change| &change.snapshot))
    }
}
