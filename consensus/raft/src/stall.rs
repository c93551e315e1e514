//! Hung disks and hung executors: what was handed out and is not answered for too long.

use crate::raft::{Raft, RaftEffects};
use quorate_framework::Time;
use std::collections::VecDeque;

/// Things handed out in rising order, and when; answered in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HandedOut<M> {
    waiting: VecDeque<(M, Time)>,
}

impl<M> Default for HandedOut<M> {
    fn default() -> HandedOut<M> {
        HandedOut { waiting: VecDeque::new() }
    }
}

impl<M: Copy + Ord> HandedOut<M> {
    /// Everything up to `mark` is handed out, what was not noted before since now.
    pub(crate) fn note(&mut self, mark: M, now: Time) {
        if self.waiting.back().is_none_or(|(last, _)| *last < mark) {
            self.waiting.push_back((mark, now));
        }
    }

    /// Everything up to `mark` is answered.
    pub(crate) fn answered(&mut self, mark: M) {
        while self.waiting.front().is_some_and(|(waiting, _)| *waiting <= mark) {
            self.waiting.pop_front();
        }
    }

    /// Since when the oldest waits.
    pub(crate) fn oldest(&self) -> Option<Time> {
        self.waiting.front().map(|(_, since)| *since)
    }
}

impl Raft {
    /// Notes when what the event just handled wants to be durable or executed was handed out.
    pub(crate) fn note_handed_out(&mut self, now: Time) {
        self.durability.note_issued(now);
        if self.handed > self.executed {
            self.executing.note(self.handed, now);
        }
    }

    /// When disk or executor count as hung, if nothing is answered until then.
    pub(crate) fn stall_deadline(&self) -> Option<Time> {
        let oldest = match (self.durability.oldest_unpersisted(), self.executing.oldest()) {
            (Some(record), Some(order)) => record.min(order),
            (record, order) => record.or(order)?,
        };
        Some(oldest + self.settings.disk_stall_timeout)
    }

    /// Whether disk or executor hang: such a replica must not lead, however well its network is (cases/open.md B11).
    pub(crate) fn is_stalled(&self, now: Time) -> bool {
        self.stall_deadline().is_some_and(|deadline| now >= deadline)
    }

    /// Whether this replica may campaign, or take over leadership.
    pub(crate) fn may_lead(&self, now: Time) -> bool {
        self.is_voter(self.replica) && !self.is_stalled(now) && !self.is_installing()
    }

    /// A leader whose disk or executor hangs gives up; entries and waiting promises stay as they are.
    pub(crate) fn step_down_if_stalled(&mut self, now: Time, effects: &mut RaftEffects) -> bool {
        let stalled = self.is_stalled(now);
        if stalled {
            self.counters.stall_step_downs += 1;
            self.become_follower(now, None, effects);
        }
        stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_unanswered_counts_from_its_own_hand_out() {
        let mut orders = HandedOut::default();
        orders.note(3, Time(10));
        orders.note(3, Time(20));
        orders.note(5, Time(30));
        assert_eq!(orders.oldest(), Some(Time(10)));
        orders.answered(2);
        assert_eq!(orders.oldest(), Some(Time(10)), "3 is still under way");
        orders.answered(4);
        assert_eq!(orders.oldest(), Some(Time(30)));
        orders.answered(5);
        assert_eq!(orders.oldest(), None);
    }
}
