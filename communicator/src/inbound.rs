//! What has arrived and waits for the core: bounded lanes, and the comings and goings of connections.
//!
//! Reader tasks put in a read's worth at a time; the one core task drains lane by lane with quotas. A peer's connection begins before
//! its frames and ends after them: what it said before it was lost (a hand-over of leadership, say) is still heard, and only then is
//! its end told. A newer connection of the same peer, perhaps of another incarnation, makes what still waits of the older one
//! worthless; so does a client's end, since nobody is there to answer. Both are taken out at once.

use crate::bounds::{CLIENT_LANE, LaneBound, LaneBounds, PEER_LANES};
use crate::reader::Received;
use crate::reason::DisconnectReason;
use bytes::Bytes;
use parking_lot::Mutex;
use quorate_framework::{ClientFrame, ConnectionId, FrameClass, Lane, LinkId, MemberClaim, ReplicaId, limits};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Something for the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inbound {
    /// A connection to a peer is up; precedes its frames.
    PeerConnected {
        /// The peer.
        peer: ReplicaId,
        /// What it claims to be.
        claim: MemberClaim,
        /// The connection.
        link: LinkId,
    },
    /// That connection is down; none of its frames follows.
    PeerDisconnected {
        /// The peer.
        peer: ReplicaId,
        /// The connection.
        link: LinkId,
        /// Why.
        reason: DisconnectReason,
    },
    /// A message of a peer.
    PeerFrame {
        /// The peer.
        peer: ReplicaId,
        /// The connection it came by.
        link: LinkId,
        /// Which decoder it needs.
        class: FrameClass,
        /// The lane it came in.
        lane: Lane,
        /// Its head: a slice of a read buffer, to be decoded and let go.
        head: Bytes,
        /// Its body: pins exactly its own length.
        body: Bytes,
    },
    /// Parts of a long message are arriving and nothing else has come for the time of a heartbeat: the peer is alive. At most one per
    /// peer waits.
    PeerProgress {
        /// The peer.
        peer: ReplicaId,
        /// The connection.
        link: LinkId,
    },
    /// A client has connected; precedes its requests.
    ClientConnected {
        /// The connection.
        connection: ConnectionId,
    },
    /// A client's connection is gone; none of its requests follows.
    ClientDisconnected {
        /// The connection.
        connection: ConnectionId,
    },
    /// A client's request.
    ClientRequest {
        /// The connection.
        connection: ConnectionId,
        /// The request: below [`quorate_framework::limits::SHARED_PAYLOAD_BYTES`] a slice of a read buffer, to be copied.
        frame: ClientFrame,
    },
}

impl Inbound {
    /// Bytes it counts for in its lane.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Inbound::PeerFrame { head, body, .. } => head.len() + body.len(),
            Inbound::ClientRequest { frame, .. } => frame.bytes.len(),
            _ => 0,
        }
    }
}

/// Why a reader could not put in what it read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The connection is no longer the peer's.
    Stale,
    /// The peer has more waiting than its window allows.
    Full(Lane),
}

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    messages: usize,
    bytes: usize,
}

impl Use {
    fn admits(self, bytes: usize, bound: LaneBound) -> bool {
        self.messages == 0 || (self.messages < bound.messages && self.bytes + bytes <= bound.bytes)
    }

    fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.messages -= 1;
        self.bytes -= bytes;
    }
}

#[derive(Debug)]
struct PeerState {
    link: LinkId,
    uses: [Use; 5],
    received: Instant,
    progress_waits: bool,
    /// When the core was last given something to see that the peer lives.
    told: Instant,
    /// Why the connection is gone, while the core has not taken all that came by it.
    ended: Option<DisconnectReason>,
}

impl PeerState {
    /// Whether the core has taken everything.
    fn is_taken(&self) -> bool {
        !self.progress_waits && self.uses.iter().all(|used| used.messages == 0)
    }
}

#[derive(Debug, Default)]
struct State {
    links: VecDeque<Inbound>,
    lanes: [VecDeque<Inbound>; 5],
    peers: HashMap<ReplicaId, PeerState>,
    clients: HashSet<ConnectionId>,
    requests: Use,
}

/// The lanes into the core. Shared by reader tasks and the one task that drains.
#[derive(Debug)]
pub struct InboundLanes {
    state: Mutex<State>,
    peer_bounds: LaneBounds,
    client_bound: LaneBound,
    wake: Notify,
    /// Pause between two signs of life that are not messages.
    progress_interval: Duration,
}

impl Default for InboundLanes {
    fn default() -> InboundLanes {
        InboundLanes::new(PEER_LANES, CLIENT_LANE)
    }
}

impl InboundLanes {
    /// Empty lanes; `peer_bounds` holds for each peer, `client_bound` for the requests of all clients.
    #[must_use]
    pub fn new(peer_bounds: LaneBounds, client_bound: LaneBound) -> InboundLanes {
        let progress_interval = Duration::from_millis(limits::HEARTBEAT_INTERVAL_MS);
        InboundLanes { state: Mutex::default(), peer_bounds, client_bound, wake: Notify::new(), progress_interval }
    }

    /// Waits until something was put in since the last time this returned. Only one task may wait. Cancelling it loses nothing.
    pub async fn wait(&self) {
        self.wake.notified().await;
    }

    /// Wakes the waiting task, for a reason of the caller's own.
    pub fn notify(&self) {
        self.wake.notify_one();
    }

    /// Takes the comings and goings of connections: their number is bounded by that of connections. [`InboundLanes::drain`] does it
    /// too, before it takes anything else.
    pub fn drain_links(&self, output: &mut Vec<Inbound>) {
        output.extend(self.state.lock().links.drain(..));
    }

    /// Takes items of one lane in the order of their arrival, after all comings and goings: at most `quota_messages`, and no more
    /// once `quota_bytes` are taken (a single larger item still passes). Gives whether the lane holds more.
    pub fn drain(&self, lane: Lane, quota_messages: usize, quota_bytes: usize, output: &mut Vec<Inbound>) -> bool {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        output.extend(state.links.drain(..));
        let mut bytes = 0;
        for taken in 0..quota_messages {
            let Some(next) = state.lanes[lane as usize].front().map(Inbound::bytes) else { return false };
            if taken > 0 && bytes + next > quota_bytes {
                return true;
            }
            bytes += next;
            if let Some(item) = state.lanes[lane as usize].pop_front() {
                let end = state.release(&item, next);
                output.push(item);
                output.extend(end);
            }
        }
        !state.lanes[lane as usize].is_empty()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.links.is_empty() && state.lanes.iter().all(VecDeque::is_empty)
    }

    /// Items that wait in a lane.
    #[must_use]
    pub fn waiting(&self, lane: Lane) -> usize {
        self.state.lock().lanes[lane as usize].len()
    }

    /// When anything last came from a connected peer, parts of unfinished messages included.
    #[must_use]
    pub fn last_received(&self, peer: ReplicaId) -> Option<Instant> {
        self.state.lock().peers.get(&peer).map(|state| state.received)
    }

    pub(crate) fn peer_connected(&self, peer: ReplicaId, link: LinkId, claim: MemberClaim) {
        let mut state = self.state.lock();
        if let Some(old) = state.peers.get(&peer).map(|old| old.link) {
            state.end_peer(peer, old, DisconnectReason::Replaced);
        }
        let now = Instant::now();
        let uses = Default::default();
        let fresh = PeerState { link, uses, received: now, progress_waits: false, told: now, ended: None };
        state.peers.insert(peer, fresh);
        state.links.push_back(Inbound::PeerConnected { peer, claim, link });
        self.wake.notify_one();
    }

    pub(crate) fn peer_disconnected(&self, peer: ReplicaId, link: LinkId, reason: DisconnectReason) {
        let mut state = self.state.lock();
        let Some(current) = state.peers.get_mut(&peer).filter(|current| current.link == link) else { return };
        if current.is_taken() {
            state.end_peer(peer, link, reason);
        } else {
            // Told behind the last of what waits.
            current.ended.get_or_insert(reason);
        }
        self.wake.notify_one();
    }

    /// Puts in the messages of one read.
    pub(crate) fn peer_frames(&self, peer: ReplicaId, link: LinkId, frames: &mut Vec<Received>) -> Result<(), Refused> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let is_current = |current: &&mut PeerState| current.link == link && current.ended.is_none();
        let Some(current) = state.peers.get_mut(&peer).filter(is_current) else { return Err(Refused::Stale) };
        current.received = Instant::now();
        current.told = current.received;
        for Received { lane, kind, head, body } in frames.drain(..) {
            // The reader lets through nothing else on a connection between replicas.
            let Some(class) = kind.peer_class() else { continue };
            let bytes = head.len() + body.len();
            if !current.uses[lane as usize].admits(bytes, self.peer_bounds[lane as usize]) {
                // What was put in before it is still heard.
                self.wake.notify_one();
                return Err(Refused::Full(lane));
            }
            current.uses[lane as usize].add(bytes);
            state.lanes[lane as usize].push_back(Inbound::PeerFrame { peer, link, class, lane, head, body });
        }
        self.wake.notify_one();
        Ok(())
    }

    /// Notes that a part of a message in `lane` has arrived.
    pub(crate) fn peer_progress(&self, peer: ReplicaId, link: LinkId, lane: Lane) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let is_current = |current: &&mut PeerState| current.link == link && current.ended.is_none();
        if let Some(current) = state.peers.get_mut(&peer).filter(is_current) {
            current.received = Instant::now();
            let due = current.received.duration_since(current.told) >= self.progress_interval;
            if due && !current.progress_waits {
                (current.progress_waits, current.told) = (true, current.received);
                state.lanes[lane as usize].push_back(Inbound::PeerProgress { peer, link });
                self.wake.notify_one();
            }
        }
    }

    pub(crate) fn client_connected(&self, connection: ConnectionId) {
        let mut state = self.state.lock();
        state.clients.insert(connection);
        state.links.push_back(Inbound::ClientConnected { connection });
        self.wake.notify_one();
    }

    pub(crate) fn client_disconnected(&self, connection: ConnectionId) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if !state.clients.remove(&connection) {
            return;
        }
        let of_connection =
            |item: &Inbound| matches!(item, Inbound::ClientRequest { connection: of, .. } if *of == connection);
        let requests = &mut state.requests;
        state.lanes[Lane::Client as usize].retain(|item| {
            let gone = of_connection(item);
            if gone {
                requests.remove(item.bytes());
            }
            !gone
        });
        let unseen = Inbound::ClientConnected { connection };
        if let Some(place) = state.links.iter().position(|item| *item == unseen) {
            state.links.remove(place);
        } else {
            state.links.push_back(Inbound::ClientDisconnected { connection });
            self.wake.notify_one();
        }
    }

    /// Puts in the requests of one read, in their order, as far as the lane takes them; what is left in `requests` must be answered
    /// `Busy`. Nothing is taken after the first that does not fit, so that a connection's order stays.
    pub(crate) fn client_requests(&self, connection: ConnectionId, requests: &mut Vec<ClientFrame>) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let mut use_of_lane = state.requests;
        let fitting = requests.iter().take_while(|frame| {
            let admits = use_of_lane.admits(frame.bytes.len(), self.client_bound);
            use_of_lane.add(frame.bytes.len());
            admits
        });
        let fitting = fitting.count();
        for frame in requests.drain(..fitting) {
            state.requests.add(frame.bytes.len());
            state.lanes[Lane::Client as usize].push_back(Inbound::ClientRequest { connection, frame });
        }
        if fitting > 0 {
            self.wake.notify_one();
        }
    }
}

impl State {
    /// Frees the place of an item that the core takes. Gives the end of its connection if it was the last item of one that is gone.
    fn release(&mut self, item: &Inbound, bytes: usize) -> Option<Inbound> {
        let peer = match item {
            Inbound::PeerFrame { peer, lane, .. } => {
                self.peers.get_mut(peer)?.uses[*lane as usize].remove(bytes);
                *peer
            }
            Inbound::PeerProgress { peer, .. } => {
                self.peers.get_mut(peer)?.progress_waits = false;
                *peer
            }
            Inbound::ClientRequest { .. } => {
                self.requests.remove(bytes);
                return None;
            }
            _ => return None,
        };
        let state = self.peers.get_mut(&peer).filter(|state| state.is_taken())?;
        let (link, reason) = (state.link, state.ended.take()?);
        self.peers.remove(&peer);
        Some(Inbound::PeerDisconnected { peer, link, reason })
    }

    /// Ends a peer's connection and takes out what it still has waiting; if the core never saw it come, it does not see it go.
    fn end_peer(&mut self, peer: ReplicaId, link: LinkId, reason: DisconnectReason) {
        let reason = self.peers.remove(&peer).and_then(|state| state.ended).unwrap_or(reason);
        for lane in &mut self.lanes {
            lane.retain(|item| {
                !matches!(item, Inbound::PeerFrame { peer: of, .. } | Inbound::PeerProgress { peer: of, .. } if *of == peer)
            });
        }
        let unseen = |item: &Inbound| matches!(item, Inbound::PeerConnected { link: of, .. } if *of == link);
        if let Some(place) = self.links.iter().position(unseen) {
            self.links.remove(place);
        } else {
            self.links.push_back(Inbound::PeerDisconnected { peer, link, reason });
        }
    }
}

#[cfg(test)]
#[path = "inbound_tests.rs"]
mod tests;
