//! Forming: how n replicas that were each started alone agree, once, on which incarnations are the cluster.
//!
//! A pure state machine, independent of the protocol. It sees what handshakes claim, decides when this replica is *formed*, and from
//! then on lets only links of bound incarnations through to the protocol.
//!
//! # Rules
//! 1. A forming replica neither votes nor campaigns: the protocol is not started before it is formed.
//! 2. It becomes formed when, since its own start, it has itself shaken hands with all seed members, the links are up, and each of
//!    them is forming, or formed on the identical vector id → incarnation. The vector is made durable before the protocol starts.
//! 3. It takes a vector second-hand only from an elected leader, and only if the vector holds its own incarnation.
//! 4. A link whose incarnation is not the bound one never reaches the protocol: neither votes nor acknowledgements count.
//! 5. An incarnation that is seen with an equal or lower start counter from another start is a clone or was rolled back: refused.

use crate::control;
use crate::event::MemberVector;
use crate::ids::{Digest, Incarnation, ReplicaId};
use crate::lost_data::LOST_DATA;
use crate::starts::Starts;
use crate::wire::WireError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a replica says of itself in a handshake, and again when it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberClaim {
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Digest of the vector it formed on; none while it is forming.
    pub formed_on: Option<Digest>,
    /// How many times this incarnation was started.
    pub start_counter: u64,
    /// A random number of this start, which tells two starts with the same counter apart.
    pub start_nonce: u64,
}

/// What forming replicas tell one another outside the handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FormingMessage {
    /// The sender's claim has changed.
    Claim(MemberClaim),
    /// The vector the sender formed on.
    Vector {
        /// The vector.
        vector: MemberVector,
        /// Whether the sender is an elected leader.
        elected: bool,
    },
}

impl FormingMessage {
    /// The message's bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut output = Vec::new();
        control::encode(self, &mut output);
        output
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn decode(bytes: &[u8]) -> Result<FormingMessage, WireError> {
        control::decode("forming message", bytes)
    }
}

/// What forming wants done, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormingEffect {
    /// Make this vector durable, then call [`Forming::vector_persisted`].
    PersistVector(MemberVector),
    /// The replica is formed: start the protocol with these members.
    Formed(MemberVector),
    /// Use this claim in handshakes from now on, and tell it to all linked peers.
    Announce(MemberClaim),
    /// Send a message to one peer.
    Send(ReplicaId, FormingMessage),
    /// A link of a bound incarnation is up.
    PeerUp(ReplicaId, Incarnation),
    /// The link of a bound incarnation is down.
    PeerDown(ReplicaId),
    /// Close the link: the peer may not take part. The text says why and what to do.
    Refuse(ReplicaId, String),
}

/// How far forming has come, for operators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum FormingStatus {
    /// Waiting for a first handshake with these members, or for the links of these to come up at the same time.
    Forming {
        /// Who is missing.
        waiting_for: Vec<ReplicaId>,
    },
    /// Formed.
    Formed,
    /// The cluster formed with another incarnation of this replica: it neither votes nor counts.
    Unbound {
        /// Why, and what to do.
        reason: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Peer {
    claim: MemberClaim,
    link_up: bool,
    /// Whether the protocol was told that the link is up.
    counted: bool,
}

/// The forming machine of one replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Forming {
    replica: ReplicaId,
    claim: MemberClaim,
    seed: BTreeSet<ReplicaId>,
    /// The bound members, durable; from the log's membership once there is one.
    vector: Option<MemberVector>,
    /// A vector on its way to be durable.
    persisting: Option<MemberVector>,
    peers: BTreeMap<ReplicaId, Peer>,
    starts: Starts,
    elected: bool,
    unbound: Option<MemberVector>,
}

/// The digest of a vector, as claims carry it.
#[must_use]
pub fn vector_digest(vector: &MemberVector) -> Digest {
    let mut hasher = blake3::Hasher::new();
    for (replica, incarnation) in vector {
        // Both parts are fixed-width, so the bytes are canonical.
        hasher.update(&replica.0.to_le_bytes());
        hasher.update(&incarnation.0.to_le_bytes());
    }
    Digest(*hasher.finalize().as_bytes())
}

impl Forming {
    /// A replica that starts: with the vector its metadata holds, or forming. `seed` are the ids of the cluster file, its own among
    /// them. A cluster of one that is forming is formed by [`Forming::start`].
    #[must_use]
    pub fn new(
        replica: ReplicaId,
        claim: MemberClaim,
        seed: BTreeSet<ReplicaId>,
        vector: Option<MemberVector>,
    ) -> Forming {
        let claim = MemberClaim { formed_on: vector.as_ref().map(vector_digest), ..claim };
        Forming {
            replica,
            claim,
            seed,
            vector,
            persisting: None,
            peers: BTreeMap::new(),
            starts: Starts::default(),
            elected: false,
            unbound: None,
        }
    }

    /// The first call: a replica with a vector is formed at once, and so is a cluster of one.
    pub fn start(&mut self, effects: &mut Vec<FormingEffect>) {
        match &self.vector {
            Some(vector) => effects.push(FormingEffect::Formed(vector.clone())),
            None => self.try_to_form(effects),
        }
    }

    /// Which replica this is.
    #[must_use]
    pub fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// What to claim in handshakes.
    #[must_use]
    pub fn claim(&self) -> MemberClaim {
        self.claim
    }

    /// The bound members, once formed.
    #[must_use]
    pub fn vector(&self) -> Option<&MemberVector> {
        self.vector.as_ref()
    }

    /// Linked peers whose incarnation is not bound.
    pub fn unbound_peers(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        self.peers
            .iter()
            .filter(|(id, peer)| peer.link_up && self.vector.is_some() && !self.is_bound(**id, peer.claim.incarnation))
            .map(|(id, _)| *id)
    }

    /// Whether frames of this peer may reach the protocol.
    #[must_use]
    pub fn is_counted(&self, peer: ReplicaId) -> bool {
        self.peers.get(&peer).is_some_and(|peer| peer.counted)
    }

    /// How far it has come.
    #[must_use]
    pub fn status(&self) -> FormingStatus {
        if self.vector.is_some() {
            return FormingStatus::Formed;
        }
        if let Some(vector) = &self.unbound {
            let (replica, incarnation) = (self.replica, self.claim.incarnation);
            let reason = match vector.get(&replica) {
                Some(bound) => {
                    format!(
                        "the cluster is formed with {bound} as replica {replica}, this process is {incarnation}; {LOST_DATA}"
                    )
                }
                None => format!(
                    "the cluster was formed with replicas {}, and replica {replica} is not one of them; changing which replicas are \
                     members is not part of this version",
                    vector.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                ),
            };
            return FormingStatus::Unbound { reason };
        }
        FormingStatus::Forming { waiting_for: self.missing().collect() }
    }

    /// A handshake with a peer is done.
    pub fn link_up(&mut self, peer: ReplicaId, claim: MemberClaim, effects: &mut Vec<FormingEffect>) {
        if !self.seed.contains(&peer) && self.vector.as_ref().is_none_or(|vector| !vector.contains_key(&peer)) {
            effects.push(FormingEffect::Refuse(peer, format!("replica {peer} is not in the cluster file")));
            return;
        }
        if !self.starts.admit(peer, &claim) {
            effects.push(FormingEffect::Refuse(
                peer,
                format!(
                    "incarnation {} of replica {peer} was seen with start {} or later from another process: its data directory \
                     was copied or rolled back, and only the one of the latest start may go on; {LOST_DATA}",
                    claim.incarnation, claim.start_counter
                ),
            ));
            return;
        }
        self.take_down(peer, effects);
        self.peers.insert(peer, Peer { claim, link_up: true, counted: false });
        if let Some(vector) = self.vector.clone()
            && claim.formed_on.is_none()
        {
            effects.push(FormingEffect::Send(peer, FormingMessage::Vector { vector, elected: self.elected }));
        }
        self.count(peer, effects);
        self.try_to_form(effects);
    }

    /// A link is gone.
    pub fn link_down(&mut self, peer: ReplicaId, effects: &mut Vec<FormingEffect>) {
        self.take_down(peer, effects);
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.link_up = false;
        }
    }

    /// A linked peer says something about forming.
    pub fn message(&mut self, from: ReplicaId, message: FormingMessage, effects: &mut Vec<FormingEffect>) {
        match message {
            FormingMessage::Claim(claim) => {
                let Some(peer) = self.peers.get_mut(&from).filter(|peer| peer.link_up) else { return };
                // A link speaks for the start it shook hands with, never for another.
                if (peer.claim.incarnation, peer.claim.start_nonce) == (claim.incarnation, claim.start_nonce) {
                    peer.claim = claim;
                    self.try_to_form(effects);
                }
            }
            FormingMessage::Vector { vector, elected } if self.vector.is_none() => {
                if vector.get(&self.replica) != Some(&self.claim.incarnation) {
                    self.unbound = Some(vector);
                } else if elected && self.persisting.is_none() {
                    self.persist(vector, effects);
                }
            }
            FormingMessage::Vector { .. } => {}
        }
    }

    /// The vector of the last [`FormingEffect::PersistVector`] is durable.
    pub fn vector_persisted(&mut self, effects: &mut Vec<FormingEffect>) {
        let Some(vector) = self.persisting.take() else { return };
        self.adopt(vector.clone());
        effects.push(FormingEffect::Announce(self.claim));
        effects.push(FormingEffect::Formed(vector));
        self.count_all(effects);
    }

    /// The protocol's own member list is the authority from now on.
    pub fn members(&mut self, vector: MemberVector, effects: &mut Vec<FormingEffect>) {
        if self.vector.as_ref() == Some(&vector) {
            return;
        }
        self.adopt(vector);
        effects.push(FormingEffect::Announce(self.claim));
        let dropped: Vec<ReplicaId> = self
            .peers
            .iter()
            .filter(|(id, peer)| !self.is_bound(**id, peer.claim.incarnation))
            .map(|(id, _)| *id)
            .collect();
        for peer in dropped {
            self.take_down(peer, effects);
        }
        self.count_all(effects);
    }

    /// Whether this replica is an elected leader; if so, forming peers are given the vector.
    pub fn elected(&mut self, elected: bool, effects: &mut Vec<FormingEffect>) {
        self.elected = elected;
        let Some(vector) = self.vector.clone().filter(|_| elected) else { return };
        for (id, peer) in &self.peers {
            if peer.link_up && peer.claim.formed_on.is_none() {
                effects.push(FormingEffect::Send(*id, FormingMessage::Vector { vector: vector.clone(), elected }));
            }
        }
    }

    fn is_bound(&self, peer: ReplicaId, incarnation: Incarnation) -> bool {
        self.vector.as_ref().is_some_and(|vector| vector.get(&peer) == Some(&incarnation))
    }

    fn missing(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        self.seed
            .iter()
            .filter(|id| **id != self.replica && self.peers.get(id).is_none_or(|peer| !peer.link_up))
            .copied()
    }

    fn try_to_form(&mut self, effects: &mut Vec<FormingEffect>) {
        if self.vector.is_some() || self.persisting.is_some() || self.missing().next().is_some() {
            return;
        }
        let mut vector: MemberVector =
            self.seed.iter().filter_map(|id| self.peers.get(id).map(|peer| (*id, peer.claim.incarnation))).collect();
        vector.insert(self.replica, self.claim.incarnation);
        let digest = vector_digest(&vector);
        let identical = self
            .seed
            .iter()
            .filter_map(|id| self.peers.get(id))
            .all(|peer| peer.claim.formed_on.is_none_or(|formed_on| formed_on == digest));
        if identical {
            self.persist(vector, effects);
        }
    }

    fn persist(&mut self, vector: MemberVector, effects: &mut Vec<FormingEffect>) {
        self.persisting = Some(vector.clone());
        effects.push(FormingEffect::PersistVector(vector));
    }

    fn adopt(&mut self, vector: MemberVector) {
        self.claim.formed_on = Some(vector_digest(&vector));
        self.vector = Some(vector);
        self.unbound = None;
    }

    fn count_all(&mut self, effects: &mut Vec<FormingEffect>) {
        let peers: Vec<ReplicaId> = self.peers.keys().copied().collect();
        for peer in peers {
            self.count(peer, effects);
        }
    }

    /// Tells the protocol of a link, if it is of a bound incarnation.
    fn count(&mut self, id: ReplicaId, effects: &mut Vec<FormingEffect>) {
        let Some(incarnation) = self.peers.get(&id).map(|peer| peer.claim.incarnation) else { return };
        if !self.is_bound(id, incarnation) {
            return;
        }
        if let Some(peer) = self.peers.get_mut(&id).filter(|peer| peer.link_up && !peer.counted) {
            peer.counted = true;
            effects.push(FormingEffect::PeerUp(id, incarnation));
        }
    }

    fn take_down(&mut self, id: ReplicaId, effects: &mut Vec<FormingEffect>) {
        if let Some(peer) = self.peers.get_mut(&id).filter(|peer| peer.counted) {
            peer.counted = false;
            effects.push(FormingEffect::PeerDown(id));
        }
    }
}

#[cfg(test)]
#[path = "forming_tests.rs"]
mod tests;
