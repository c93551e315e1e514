//! Recovery is off: nothing is durable, and nothing waits for it.

use super::{NamedSnapshot, Storage, StorageFigures};
use quorate_framework::{Consensus, MemberVector, Ticket};

/// Keeps nothing. Its driver takes every record as durable at once and hands out none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStorage;

impl<C: Consensus> Storage<C> for NoStorage {
    fn submit(&mut self, records: &mut Vec<(Ticket, C::Record)>, identity: &mut Vec<(Ticket, MemberVector)>) {
        debug_assert!(records.is_empty() && identity.is_empty(), "without recovery a driver hands out no records");
        records.clear();
        identity.clear();
    }

    fn name_snapshot(&mut self, _ticket: Ticket, _snapshot: NamedSnapshot) {}

    fn durable(&self) -> Ticket {
        Ticket::RECOVERED
    }

    fn failure(&self) -> Option<String> {
        None
    }

    fn pending_bytes(&self) -> u64 {
        0
    }

    fn submitted_bytes(&self) -> u64 {
        0
    }

    fn begin_stop(&mut self) {}

    fn is_stopped(&self) -> bool {
        true
    }

    fn figures(&self) -> Option<StorageFigures> {
        None
    }
}
