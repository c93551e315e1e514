//! Deadlines that are all the same time ahead: the first that was set is the first that is due.

use crate::request::RequestKey;
use std::collections::VecDeque;
use std::time::Instant;

/// A deadline of one attempt (or of attempt 0: the request as a whole).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    pub(crate) key: RequestKey,
    pub(crate) attempt: u32,
}

/// A queue of deadlines. Those that have become void are dropped when they come to the front, so it stays about as long as what is
/// in flight.
#[derive(Debug, Default)]
pub(crate) struct DeadlineQueue {
    queue: VecDeque<Deadline>,
}

impl DeadlineQueue {
    /// Adds a deadline. If it is before the last one (a clock never goes back, a changed time-out might), it is due with that one.
    pub(crate) fn push(&mut self, mut deadline: Deadline) {
        if let Some(last) = self.queue.back() {
            deadline.at = deadline.at.max(last.at);
        }
        self.queue.push_back(deadline);
    }

    /// Drops void deadlines from the front and takes the first one if it is due.
    pub(crate) fn pop_due(&mut self, now: Instant, is_void: impl Fn(&Deadline) -> bool) -> Option<Deadline> {
        while let Some(front) = self.queue.front() {
            if is_void(front) {
                self.queue.pop_front();
            } else if front.at <= now {
                return self.queue.pop_front();
            } else {
                return None;
            }
        }
        None
    }

    /// When the first one is due; it may have become void.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.queue.front().map(|deadline| deadline.at)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn void_deadlines_are_dropped_and_due_ones_come_in_order() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let key = RequestKey { index: 0, generation: 0 };
        let mut queue = DeadlineQueue::default();
        for (ms, attempt) in [(1, 1), (5, 2), (3, 3), (9, 4)] {
            queue.push(Deadline { at: at(ms), key, attempt });
        }
        let void = |deadline: &Deadline| deadline.attempt == 1;
        assert_eq!(queue.pop_due(at(4), void), None);
        assert_eq!((queue.len(), queue.next()), (3, Some(at(5))));
        assert_eq!(queue.pop_due(at(5), void).map(|deadline| deadline.attempt), Some(2));
        assert_eq!(queue.pop_due(at(5), void).map(|deadline| deadline.attempt), Some(3));
        assert_eq!(queue.pop_due(at(5), void), None);
    }
}
