//! Which starts of which incarnations were seen: two processes on copies of one data directory, or on one that was rolled back,
//! must not both be believed.

use quorate_framework::{Incarnation, ReplicaId};
use std::collections::{HashMap, VecDeque};

/// Incarnations remembered of one replica.
const INCARNATIONS_PER_REPLICA: usize = 16;

#[derive(Debug)]
struct Start {
    incarnation: Incarnation,
    counter: u64,
    nonce: u64,
}

/// The starts seen so far.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    seen: HashMap<ReplicaId, VecDeque<Start>>,
}

impl Starts {
    /// Notes a start; false if an equal or higher start counter of this incarnation was seen from another start.
    pub(crate) fn admit(&mut self, replica: ReplicaId, incarnation: Incarnation, counter: u64, nonce: u64) -> bool {
        let seen = self.seen.entry(replica).or_default();
        if let Some(start) = seen.iter_mut().find(|start| start.incarnation == incarnation) {
            if start.nonce == nonce && start.counter == counter {
                return true;
            }
            if counter <= start.counter {
                return false;
            }
            (start.counter, start.nonce) = (counter, nonce);
            return true;
        }
        if seen.len() == INCARNATIONS_PER_REPLICA {
            seen.pop_front();
        }
        seen.push_back(Start { incarnation, counter, nonce });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_or_rolled_back_directory_is_refused_and_a_reconnect_or_restart_is_not() {
        let mut starts = Starts::default();
        let (replica, incarnation) = (ReplicaId(1), Incarnation(7));
        assert!(starts.admit(replica, incarnation, 3, 100));
        assert!(starts.admit(replica, incarnation, 3, 100), "the same start connects again");
        assert!(!starts.admit(replica, incarnation, 3, 200), "a copy with the same counter");
        assert!(!starts.admit(replica, incarnation, 2, 200), "an older directory");
        assert!(starts.admit(replica, incarnation, 4, 300), "a restart");
        assert!(!starts.admit(replica, incarnation, 3, 100), "the start before it");
        assert!(starts.admit(replica, Incarnation(8), 0, 1), "another incarnation");
        assert!(starts.admit(ReplicaId(2), incarnation, 0, 1), "another replica");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut starts = Starts::default();
        (0..100).for_each(|number| assert!(starts.admit(ReplicaId(1), Incarnation(number), 0, 0)));
        assert_eq!(starts.seen[&ReplicaId(1)].len(), INCARNATIONS_PER_REPLICA);
    }
}
