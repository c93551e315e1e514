//! What a replica is in its term, and how that changes.

use crate::progress::Progress;
use crate::raft::{Raft, RaftEffects};
use crate::record::{HardState, RaftRecord};
use crate::term::Term;
use quorate_framework::{Effect, ReplicaId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// What a replica is in its term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// Follows, whoever leads.
    Follower,
    /// Asks whether it could win the next term, without entering it.
    PreCandidate {
        /// Who would vote for it.
        granted: BTreeSet<ReplicaId>,
    },
    /// Asks for votes in its term. Its own counts once it is durable.
    Candidate {
        /// Who voted for it.
        granted: BTreeSet<ReplicaId>,
    },
    /// Leads its term.
    Leader(Leadership),
}

/// What belongs to one leadership and goes with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leadership {
    /// The followers.
    pub(crate) followers: BTreeMap<ReplicaId, Progress>,
    /// Number and time of the last heartbeat round.
    pub(crate) round: (u64, Time),
    /// When the leader last checked that a majority hears it.
    pub(crate) quorum_checked: Time,
    /// With a linger: when new entries are sent at the latest.
    pub(crate) flush_at: Option<Time>,
}

impl Raft {
    /// Enters a newer term as a follower: durable before anything is said in it.
    pub(crate) fn enter_term(&mut self, now: Time, term: Term, effects: &mut RaftEffects) {
        debug_assert!(term > self.term(), "terms only grow");
        self.set_hard_state(HardState { term, voted_for: None }, effects);
        self.become_follower(now, None, effects);
        // What a leader of an older term vouched for may differ from the new leader's log, but for what is committed.
        self.verified = self.commit;
    }

    pub(crate) fn set_hard_state(&mut self, hard_state: HardState, effects: &mut RaftEffects) {
        self.hard_state = hard_state;
        let ticket = effects.persist(RaftRecord::HardState(hard_state));
        self.durability.on_hard_state(ticket);
    }

    /// Becomes a follower in the current term. What belonged to a leadership goes with it; whoever waits is told.
    pub(crate) fn become_follower(&mut self, now: Time, leader: Option<ReplicaId>, effects: &mut RaftEffects) {
        let was_leader = self.is_leader();
        if was_leader {
            self.counters.step_downs += 1;
            // Entries stay in the log: a majority may hold them already. Their fate is unknown to whoever waits.
            effects.push(Effect::Forsaken { from: self.commit.next() });
            self.withdraw_all_snapshots(effects);
        }
        if was_leader || leader.is_none() {
            self.manager.step_down(now, effects.random_u64());
        }
        self.role = Role::Follower;
        self.set_leader(leader, effects);
    }

    pub(crate) fn set_leader(&mut self, leader: Option<ReplicaId>, effects: &mut RaftEffects) {
        if self.leader != leader {
            self.leader = leader;
            self.leader_link_lost =
                leader.is_some_and(|leader| leader != self.replica && !self.links.contains_key(&leader));
            effects.push(Effect::LeaderIs { leader, view: self.term().0 });
        }
    }
}
