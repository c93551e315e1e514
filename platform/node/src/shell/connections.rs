//! What comes in, and the doors: the shell's view of a transport beside [`quorate_framework::ReplicaCommunicator`].

use crate::driver::{self, LinkId, ReceivedFrame, TurnInput};
use quorate_communicator::{
    CommunicatorHandle, Inbound, InboundLanes, MemberClaim as WireClaim, MemberState, PeerLinkStatus, TrafficFigures,
};
use quorate_framework::{Lane, MemberClaim, ReplicaId};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

/// Messages and bytes that one turn takes from each lane. They bound how long a turn takes, execution included: votes and heartbeats
/// that come in meanwhile wait that long, and so does the pipeline, since nothing else happens in between. They are still far above
/// what makes the cost of a turn itself, its system calls, disappear.
const QUOTAS: [(usize, usize); 5] =
    [(4_096, 1 << 20), (4_096, 1 << 20), (256, 1 << 20), (1_024, 256 << 10), (16, 4 << 20)];

/// Figures of the transport.
#[derive(Clone, Debug, Default)]
pub struct ConnectionFigures {
    /// What was counted.
    pub traffic: TrafficFigures,
    /// Connections of clients.
    pub clients: usize,
    /// The links to the peers.
    pub links: Vec<PeerLinkStatus>,
}

/// Where a shell gets what came in, and how it governs who comes in.
pub trait Connections: Send + Sync + 'static {
    /// Puts what has come in into `input`, under quotas, and gives whether more waits. Does not block.
    fn take(&mut self, input: &mut TurnInput) -> bool;

    /// Waits until something has come in, or somebody wakes the shell, since the last time this returned. Cancelling it loses
    /// nothing.
    fn wait(&self) -> impl Future<Output = ()> + Send;

    /// The newest link of a peer of those taken so far, if it is up.
    fn link(&self, peer: ReplicaId) -> Option<LinkId>;

    /// From now on this is what handshakes claim.
    fn announce(&self, claim: MemberClaim);

    /// From now on no peer is let in; gives those that are linked, for their links to be closed.
    fn shut_out_peers(&mut self) -> Vec<ReplicaId>;

    /// Figures for operators.
    fn figures(&self) -> ConnectionFigures;
}

/// The connections of a [`quorate_communicator::TcpCommunicator`].
#[derive(Debug)]
pub struct TcpConnections {
    lanes: Arc<InboundLanes>,
    handle: CommunicatorHandle,
    links: BTreeMap<ReplicaId, LinkId>,
    /// Scratch.
    taken: Vec<Inbound>,
}

impl TcpConnections {
    /// The connections whose traffic arrives in `lanes`.
    #[must_use]
    pub fn new(lanes: Arc<InboundLanes>, handle: CommunicatorHandle) -> TcpConnections {
        TcpConnections { lanes, handle, links: BTreeMap::new(), taken: Vec::new() }
    }

    fn put(&mut self, inbound: Inbound, input: &mut TurnInput) {
        match inbound {
            Inbound::PeerConnected { peer, claim, start_nonce, link } => {
                let link = LinkId(link.0);
                self.links.insert(peer, link);
                let claim = from_wire(claim, start_nonce);
                input.push(driver::Inbound::PeerConnected { peer, link, claim });
            }
            Inbound::PeerDisconnected { peer, link, .. } => {
                let link = LinkId(link.0);
                if self.links.get(&peer) == Some(&link) {
                    self.links.remove(&peer);
                }
                input.push(driver::Inbound::PeerDisconnected { peer, link });
            }
            Inbound::PeerFrame { peer, class, lane, head, body } => {
                // A frame is taken after the coming of its connection and never after its end, so the link is known.
                if let Some(link) = self.links.get(&peer).copied() {
                    let frame = ReceivedFrame { peer, link, lane, class, head, body };
                    input.push(driver::Inbound::PeerFrame(frame));
                }
            }
            Inbound::ClientRequest { connection, frame } => {
                input.push(driver::Inbound::ClientRequest { connection, frame });
            }
            Inbound::ClientDisconnected { connection } => {
                input.push(driver::Inbound::ClientDisconnected { connection });
            }
            // A sign of life without a message: the protocols' own timeouts are above any message's travelling time.
            Inbound::PeerProgress { .. } | Inbound::ClientConnected { .. } => {}
        }
    }
}

/// The claim in a handshake, as forming knows it.
fn from_wire(claim: WireClaim, start_nonce: u64) -> MemberClaim {
    MemberClaim {
        incarnation: claim.incarnation,
        formed_on: (claim.state == MemberState::Formed).then_some(claim.vector_digest),
        start_counter: claim.start_counter,
        start_nonce,
    }
}

/// A claim as handshakes carry it.
#[must_use]
pub(crate) fn to_wire(claim: MemberClaim) -> WireClaim {
    WireClaim {
        incarnation: claim.incarnation,
        state: if claim.formed_on.is_some() { MemberState::Formed } else { MemberState::Forming },
        vector_digest: claim.formed_on.unwrap_or_default(),
        start_counter: claim.start_counter,
    }
}

impl Connections for TcpConnections {
    fn take(&mut self, input: &mut TurnInput) -> bool {
        let mut taken = std::mem::take(&mut self.taken);
        let mut more = false;
        for (lane, (messages, bytes)) in Lane::ALL.into_iter().zip(QUOTAS) {
            more |= self.lanes.drain(lane, messages, bytes, &mut taken);
            for inbound in taken.drain(..) {
                self.put(inbound, input);
            }
        }
        self.taken = taken;
        more
    }

    async fn wait(&self) {
        self.lanes.wait().await;
    }

    fn link(&self, peer: ReplicaId) -> Option<LinkId> {
        self.links.get(&peer).copied()
    }

    fn announce(&self, claim: MemberClaim) {
        self.handle.set_claim(to_wire(claim));
    }

    fn shut_out_peers(&mut self) -> Vec<ReplicaId> {
        self.handle.set_admission(Arc::new(|_, _| Err("the replica is stopping".to_owned())));
        self.links.keys().copied().collect()
    }

    fn figures(&self) -> ConnectionFigures {
        let (clients, _) = self.handle.connections();
        ConnectionFigures { traffic: self.handle.traffic(), clients, links: self.handle.peers() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_framework::{Digest, Incarnation};

    #[test]
    fn a_claim_survives_the_handshake_forming_or_formed() {
        for formed_on in [None, Some(Digest([7; 32]))] {
            let claim = MemberClaim { incarnation: Incarnation(5), formed_on, start_counter: 3, start_nonce: 9 };
            assert_eq!(from_wire(to_wire(claim), 9), claim);
        }
    }
}
