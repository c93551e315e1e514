//! Links to peers come and go, and over them peers show that they live.

use crate::raft::{Raft, RaftEffects};
use crate::role::Role;
use quorate_framework::{Incarnation, ReplicaId, Time};

impl Raft {
    /// A link to a peer is up.
    pub(crate) fn on_peer_up(
        &mut self,
        now: Time,
        peer: ReplicaId,
        incarnation: Incarnation,
        effects: &mut RaftEffects,
    ) {
        self.links.insert(peer, incarnation);
        if self.leader == Some(peer) {
            self.leader_link_lost = false;
        }
        self.on_follower_link(now, peer, true, effects);
    }

    /// The link to a peer was lost.
    pub(crate) fn on_peer_down(&mut self, now: Time, peer: ReplicaId, effects: &mut RaftEffects) {
        self.links.remove(&peer);
        if self.leader == Some(peer) {
            self.leader_link_lost = true;
            self.manager.on_peer_down(now, effects.random_u64());
        }
        self.on_follower_link(now, peer, false, effects);
    }

    /// Parts of a long message of a peer arrive: a leader that sends it lives, and so does a follower.
    pub(crate) fn on_peer_alive(&mut self, now: Time, peer: ReplicaId, effects: &mut RaftEffects) {
        if !self.links.contains_key(&peer) {
            return;
        }
        match &self.role {
            Role::Follower if self.leader == Some(peer) => self.manager.on_leader_message(now, effects.random_u64()),
            Role::Leader(_) => self.on_follower_alive(now, peer),
            _ => {}
        }
    }
}
