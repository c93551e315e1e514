//! The communicator: one per replica, on the runtime of its core.

use crate::agreement::Agreement;
use crate::bounds::CommunicatorOptions;
use crate::frame::FrameKind;
use crate::handshake::Identity;
use crate::hub::{Admission, Hub};
use crate::inbound::InboundLanes;
use crate::outbox::{Outbox, QueueError};
use crate::outgoing::Message;
use crate::reason::DisconnectReason;
use crate::traffic::TrafficFigures;
use crate::{listener, peer};
use async_trait::async_trait;
use parking_lot::Mutex;
use quorate_framework::{
    ClientReply, ClusterId, ConnectionId, LinkId, MemberClaim, PeerFrame, RandomSource, ReplicaCommunicator, ReplicaId,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tokio::net::TcpListener;

/// What a communicator is started with.
#[derive(Clone, Debug)]
pub struct CommunicatorConfiguration {
    /// The cluster.
    pub cluster: ClusterId,
    /// This replica.
    pub replica: ReplicaId,
    /// The other replicas and where they listen, as `host:port`.
    pub peers: BTreeMap<ReplicaId, String>,
    /// What peers must agree on.
    pub agreement: Agreement,
    /// What this replica claims to be at first. Its start nonce is the caller's, drawn once a process: a claim that changes later is
    /// believed only of the start that shook hands.
    pub claim: MemberClaim,
    /// Bounds and times.
    pub options: CommunicatorOptions,
}

/// Moves bytes between this replica, its peers and its clients over TCP. Dropping it closes every connection.
pub struct TcpCommunicator {
    hub: Arc<Hub>,
    touched: Vec<Outbox>,
}

impl fmt::Debug for TcpCommunicator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TcpCommunicator").field("replica", &self.hub.identity.replica).finish_non_exhaustive()
    }
}

/// What a peer's connection looks like at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerLinkStatus {
    /// The peer.
    pub peer: ReplicaId,
    /// Whether a connection is up.
    pub connected: bool,
    /// Messages that wait to be written to it.
    pub waiting_messages: usize,
    /// Bytes that wait to be written to it.
    pub waiting_bytes: usize,
    /// Why no connection is up, as far as this side knows: a refusal names what must be mended.
    pub trouble: Option<String>,
}

/// A handle to a running communicator for others than the core; cheap to clone.
#[derive(Clone)]
pub struct CommunicatorHandle {
    pub(crate) hub: Arc<Hub>,
}

impl fmt::Debug for CommunicatorHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CommunicatorHandle").field("replica", &self.hub.identity.replica).finish()
    }
}

impl TcpCommunicator {
    /// Starts accepting on `listener` and dialling the peers with lower ids, in tasks of the current runtime. What arrives goes to
    /// `inbound`; `random` gives the jitter of reconnecting.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start(
        configuration: CommunicatorConfiguration,
        listener: TcpListener,
        inbound: Arc<InboundLanes>,
        random: Box<dyn RandomSource>,
    ) -> TcpCommunicator {
        let CommunicatorConfiguration { cluster, replica, mut peers, agreement, claim, options } = configuration;
        peers.remove(&replica);
        let members = peers.keys().copied().chain([replica]).collect();
        let identity = Identity { cluster, replica, members, agreement };
        let hub = Arc::new(Hub::new(identity, peers, claim, options, inbound, random));
        let door = tokio::spawn(listener::accept_all(Arc::clone(&hub), listener)).abort_handle();
        hub.registry.lock().door = Some(door);
        for (peer, address) in hub.addresses.range(..replica) {
            let dialling = peer::keep_dialled(Arc::clone(&hub), *peer, address.clone());
            hub.registry.lock().dialling.push(tokio::spawn(dialling).abort_handle());
        }
        TcpCommunicator { hub, touched: Vec::new() }
    }

    /// A handle for others than the core.
    #[must_use]
    pub fn handle(&self) -> CommunicatorHandle {
        CommunicatorHandle { hub: Arc::clone(&self.hub) }
    }

    /// What [`ReplicaCommunicator::send`] does, without a future. Never blocks.
    pub fn send_now(&mut self, frames: &mut Vec<PeerFrame>) {
        let registry = self.hub.registry.lock();
        for PeerFrame { to, lane, class, encoded } in frames.drain(..) {
            let message = match Message::new(lane, FrameKind::from(class), encoded) {
                Ok(message) => message,
                Err(error) => {
                    tracing::error!(?lane, ?class, "a message was not sent, no peer would accept it: {error}");
                    continue;
                }
            };
            for peer in to {
                let Some((_, outbox)) = registry.peers.get(&peer) else {
                    self.hub.counters.dropped();
                    continue;
                };
                match outbox.queue(message.clone()) {
                    Ok(true) => self.touched.push(outbox.clone()),
                    Ok(false) => {}
                    Err(QueueError::Closed(_)) => self.hub.counters.dropped(),
                    Err(QueueError::Full(full)) => outbox.close(full.into()),
                }
            }
        }
        drop(registry);
        self.touched.drain(..).for_each(|outbox| outbox.flush());
    }

    /// What [`ReplicaCommunicator::reply`] does, without a future. Never blocks.
    pub fn reply_now(&mut self, replies: &mut Vec<ClientReply>) {
        let registry = self.hub.registry.lock();
        let mut last: Option<(ConnectionId, &Outbox)> = None;
        for ClientReply { connection, header, body } in replies.drain(..) {
            let outbox = match last {
                Some((of, outbox)) if of == connection => outbox,
                _ => {
                    let Some(outbox) = registry.clients.get(&connection) else { continue };
                    last = Some((connection, outbox));
                    outbox
                }
            };
            match self.hub.queue_reply(outbox, &header, body) {
                Ok(true) => self.touched.push(outbox.clone()),
                Ok(false) => {}
                Err(reason) => outbox.close(reason),
            }
        }
        drop(registry);
        self.touched.drain(..).for_each(|outbox| outbox.flush());
        self.hub.bound_answers();
    }

    /// What [`ReplicaCommunicator::disconnect`] does, without a future.
    pub fn disconnect_now(&mut self, peer: ReplicaId, link: LinkId) {
        if let Some((current, outbox)) = self.hub.registry.lock().peers.get(&peer)
            && *current == link
        {
            outbox.close(DisconnectReason::Requested);
        }
    }
}

#[async_trait]
impl ReplicaCommunicator for TcpCommunicator {
    async fn send(&mut self, frames: &mut Vec<PeerFrame>) {
        self.send_now(frames);
    }

    async fn reply(&mut self, replies: &mut Vec<ClientReply>) {
        self.reply_now(replies);
    }

    async fn disconnect(&mut self, peer: ReplicaId, link: LinkId) {
        self.disconnect_now(peer, link);
    }
}

impl CommunicatorHandle {
    /// Changes what handshakes from now on claim. Connected peers are told by the caller, with a frame of the class `Forming`; so are
    /// those that connect just then, since a handshake under way may still carry the former claim.
    pub fn set_claim(&self, claim: MemberClaim) {
        *self.hub.claim.lock() = claim;
    }

    /// What handshakes claim at present.
    #[must_use]
    pub fn claim(&self) -> MemberClaim {
        *self.hub.claim.lock()
    }

    /// Lets the node judge each peer's claim in handshakes from now on, on whichever side; a refusal's text goes to both logs. Runs
    /// on the communicator's runtime and must not block.
    pub fn set_admission(&self, admission: Arc<Admission>) {
        *self.hub.admission.lock() = Some(admission);
    }

    /// What was counted so far.
    #[must_use]
    pub fn traffic(&self) -> TrafficFigures {
        self.hub.counters.figures()
    }

    /// The state of the connection to each peer.
    #[must_use]
    pub fn peers(&self) -> Vec<PeerLinkStatus> {
        let registry = self.hub.registry.lock();
        let status = |peer: &ReplicaId| {
            let outbox = registry.peers.get(peer).map(|(_, outbox)| outbox.waiting());
            let (waiting_messages, waiting_bytes) = outbox.unwrap_or_default();
            PeerLinkStatus {
                peer: *peer,
                connected: outbox.is_some(),
                waiting_messages,
                waiting_bytes,
                trouble: self.hub.trouble(*peer).filter(|_| outbox.is_none()),
            }
        };
        self.hub.addresses.keys().map(status).collect()
    }

    /// Begins the end: from now on no connection is accepted or dialled, handshakes under way are broken off, and the links to peers
    /// close as soon as what waits for them is written. Clients' connections stay, so that they can be answered. For good.
    pub fn close_doors(&self) {
        let mut registry = self.hub.registry.lock();
        registry.shut();
        registry.peers.values().for_each(|(_, outbox)| outbox.finish(DisconnectReason::Stopping));
    }

    /// Messages and bytes that wait to be written, over all connections.
    #[must_use]
    pub fn waiting_to_be_written(&self) -> (usize, usize) {
        let registry = self.hub.registry.lock();
        let outboxes = registry.peers.values().map(|(_, outbox)| outbox).chain(registry.clients.values());
        outboxes.map(Outbox::waiting).fold((0, 0), |sum, waiting| (sum.0 + waiting.0, sum.1 + waiting.1))
    }

    /// Bytes of large requests that have begun to arrive and are not complete.
    #[must_use]
    pub fn unfinished_request_bytes(&self) -> usize {
        self.hub.budget.used()
    }

    /// Connections of clients, and connections that have not finished their handshake.
    #[must_use]
    pub fn connections(&self) -> (usize, usize) {
        let registry = self.hub.registry.lock();
        (registry.clients.len(), registry.unfinished.len())
    }
}

impl Drop for TcpCommunicator {
    fn drop(&mut self) {
        let mut registry = self.hub.registry.lock();
        registry.shut();
        registry.dialling.drain(..).for_each(|task| task.abort());
        let outboxes = registry.peers.values().map(|(_, outbox)| outbox).chain(registry.clients.values());
        outboxes.for_each(|outbox| outbox.close(DisconnectReason::Stopping));
        drop(registry);
        self.hub.transfers.stop();
    }
}

// The core task may live on another runtime's thread than the one that made it.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<TcpCommunicator>();
    is_send::<Mutex<CommunicatorHandle>>();
};

#[cfg(test)]
#[path = "communicator_tests.rs"]
mod tests;
