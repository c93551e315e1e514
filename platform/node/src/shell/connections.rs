//! What comes in, and the doors: the shell's view of a transport beside [`quorate_framework::ReplicaCommunicator`].

use crate::driver::{self, ReceivedFrame, TurnInput};
use quorate_communicator::{CommunicatorHandle, Inbound, InboundLanes, PeerLinkStatus, TrafficFigures};
use quorate_framework::{Lane, MemberClaim};
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

    /// From now on this is what handshakes claim.
    fn announce(&self, claim: MemberClaim);

    /// From now on nobody is let in, and the links to peers close once what waits for them is written. Clients that are connected
    /// stay.
    fn close_doors(&mut self);

    /// Whether everything that was sent has been written.
    fn is_flushed(&self) -> bool;

    /// Figures for operators.
    fn figures(&self) -> ConnectionFigures;
}

/// The connections of a [`quorate_communicator::TcpCommunicator`].
#[derive(Debug)]
pub struct TcpConnections {
    lanes: Arc<InboundLanes>,
    handle: CommunicatorHandle,
    /// Scratch.
    taken: Vec<Inbound>,
}

impl TcpConnections {
    /// The connections whose traffic arrives in `lanes`.
    #[must_use]
    pub fn new(lanes: Arc<InboundLanes>, handle: CommunicatorHandle) -> TcpConnections {
        TcpConnections { lanes, handle, taken: Vec::new() }
    }
}

/// What the driver hears of something that came in, if anything.
fn for_driver(inbound: Inbound) -> Option<driver::Inbound> {
    Some(match inbound {
        Inbound::PeerConnected { peer, claim, link } => driver::Inbound::PeerConnected { peer, link, claim },
        Inbound::PeerDisconnected { peer, link, .. } => driver::Inbound::PeerDisconnected { peer, link },
        Inbound::PeerFrame { peer, link, class, lane, head, body } => {
            driver::Inbound::PeerFrame(ReceivedFrame { peer, link, lane, class, head, body })
        }
        Inbound::PeerProgress { peer, link } => driver::Inbound::PeerAlive { peer, link },
        Inbound::ClientRequest { connection, frame } => driver::Inbound::ClientRequest { connection, frame },
        Inbound::ClientDisconnected { connection } => driver::Inbound::ClientDisconnected { connection },
        Inbound::ClientConnected { .. } => return None,
    })
}

impl Connections for TcpConnections {
    fn take(&mut self, input: &mut TurnInput) -> bool {
        let mut more = false;
        for (lane, (messages, bytes)) in Lane::ALL.into_iter().zip(QUOTAS) {
            more |= self.lanes.drain(lane, messages, bytes, &mut self.taken);
            self.taken.drain(..).filter_map(for_driver).for_each(|inbound| input.push(inbound));
        }
        more
    }

    async fn wait(&self) {
        self.lanes.wait().await;
    }

    fn announce(&self, claim: MemberClaim) {
        self.handle.set_claim(claim);
    }

    fn close_doors(&mut self) {
        self.handle.close_doors();
    }

    fn is_flushed(&self) -> bool {
        self.handle.waiting_to_be_written() == (0, 0)
    }

    fn figures(&self) -> ConnectionFigures {
        let (clients, _) = self.handle.connections();
        ConnectionFigures { traffic: self.handle.traffic(), clients, links: self.handle.peers() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_framework::{FrameClass, LinkId, ReplicaId};

    #[test]
    fn what_a_peer_says_keeps_the_link_it_came_by_and_progress_is_a_sign_of_life() {
        let (peer, link) = (ReplicaId(2), LinkId(7));
        let (class, lane) = (FrameClass::Promise, Lane::Acknowledgement);
        let (head, body) = (Bytes::from_static(b"head"), Bytes::from_static(b"body"));
        let frame = ReceivedFrame { peer, link, lane, class, head: head.clone(), body: body.clone() };
        let came_in = Inbound::PeerFrame { peer, link, class, lane, head, body };
        assert_eq!(for_driver(came_in), Some(driver::Inbound::PeerFrame(frame)));
        assert_eq!(for_driver(Inbound::PeerProgress { peer, link }), Some(driver::Inbound::PeerAlive { peer, link }));
    }
}
