//! Which starts of which incarnations were seen: two processes on copies of one data directory, or on one that was rolled back,
//! must not both be believed.

use crate::forming::MemberClaim;
use crate::ids::{Incarnation, ReplicaId};
use std::collections::{BTreeMap, VecDeque};

/// Incarnations remembered of one replica; the oldest is forgotten first.
const INCARNATIONS_PER_REPLICA: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SeenStart {
    incarnation: Incarnation,
    counter: u64,
    nonce: u64,
}

/// The highest start seen so far of each incarnation. Its memory is bounded: a few dozen bytes for each of the last incarnations of
/// each replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Starts {
    seen: BTreeMap<ReplicaId, VecDeque<SeenStart>>,
}

impl Starts {
    /// Notes a start; false, and nothing noted, if an equal or higher start counter of this incarnation was seen from another start.
    pub fn admit(&mut self, replica: ReplicaId, claim: &MemberClaim) -> bool {
        let (incarnation, counter, nonce) = (claim.incarnation, claim.start_counter, claim.start_nonce);
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
        seen.push_back(SeenStart { incarnation, counter, nonce });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(incarnation: u64, start_counter: u64, start_nonce: u64) -> MemberClaim {
        MemberClaim { incarnation: Incarnation(incarnation), formed_on: None, start_counter, start_nonce }
    }

    #[test]
    fn a_copied_or_rolled_back_directory_is_refused_and_a_reconnect_or_restart_is_not() {
        let mut starts = Starts::default();
        let replica = ReplicaId(1);
        assert!(starts.admit(replica, &claim(7, 3, 100)));
        assert!(starts.admit(replica, &claim(7, 3, 100)), "the same start connects again");
        assert!(!starts.admit(replica, &claim(7, 3, 200)), "a copy with the same counter");
        assert!(!starts.admit(replica, &claim(7, 2, 200)), "an older directory");
        assert!(starts.admit(replica, &claim(7, 4, 300)), "a restart");
        assert!(!starts.admit(replica, &claim(7, 3, 100)), "the start before it");
        assert!(starts.admit(replica, &claim(8, 0, 1)), "another incarnation");
        assert!(starts.admit(ReplicaId(2), &claim(7, 0, 1)), "another replica");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut starts = Starts::default();
        (0..100).for_each(|number| assert!(starts.admit(ReplicaId(1), &claim(number, 0, 0))));
        assert_eq!(starts.seen[&ReplicaId(1)].len(), INCARNATIONS_PER_REPLICA);
    }
}
