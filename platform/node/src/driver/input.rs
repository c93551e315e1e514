//! What a turn takes in.

use super::snapshots::SnapshotEvent;
use bytes::Bytes;
use quorate_framework::{
    ClientFrame, ConnectionId, FrameClass, Lane, LinkId, MemberClaim, Operation, OperationId, ReplicaId, Ticket,
};

/// A frame from a peer, as the transport gives it: lengths checked, contents not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// The sender, proven by the handshake.
    pub peer: ReplicaId,
    /// The link it came by.
    pub link: LinkId,
    /// The lane it came in.
    pub lane: Lane,
    /// Which decoder it needs.
    pub class: FrameClass,
    /// The message's own bytes.
    pub head: Bytes,
    /// What follows the head; pins exactly its own length.
    pub body: Bytes,
}

/// Something that came in from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inbound {
    /// A handshake with a peer is done. The newest link of a peer is its link; an older one is forgotten.
    PeerConnected {
        /// The peer.
        peer: ReplicaId,
        /// The new link.
        link: LinkId,
        /// What the peer claimed in the handshake.
        claim: MemberClaim,
    },
    /// A link is gone.
    PeerDisconnected {
        /// The peer.
        peer: ReplicaId,
        /// The link that is gone; nothing happens if the peer has a newer one.
        link: LinkId,
    },
    /// Parts of a long message of a peer arrive, and nothing whole: a sign of life.
    PeerAlive {
        /// The peer.
        peer: ReplicaId,
        /// The link they come by.
        link: LinkId,
    },
    /// A frame from a peer.
    PeerFrame(ReceivedFrame),
    /// A request of a client.
    ClientRequest {
        /// The client's connection.
        connection: ConnectionId,
        /// The request.
        frame: ClientFrame,
    },
    /// A client's connection is gone: nobody is there to answer.
    ClientDisconnected {
        /// The connection.
        connection: ConnectionId,
    },
    /// An operator's wish.
    Operation {
        /// Its number, echoed by the answer.
        id: OperationId,
        /// The wish.
        operation: Operation,
    },
}

/// All that came in since the last turn. Kept by the shell from turn to turn, so that its memory is used again; a turn empties it.
/// The shell's quotas bound it.
#[derive(Debug, Default)]
pub struct TurnInput {
    /// Everything handed out up to this ticket is durable. Only with [`super::Durability::External`].
    pub persisted: Option<Ticket>,
    /// Too much waits to become durable: requests of this turn are refused as busy.
    pub storage_is_full: bool,
    /// What became of snapshots.
    pub snapshots: Vec<SnapshotEvent>,
    pub(super) connected: Vec<(ReplicaId, LinkId, MemberClaim)>,
    pub(super) disconnected: Vec<(ReplicaId, LinkId)>,
    pub(super) alive: Vec<(ReplicaId, LinkId)>,
    pub(super) lanes: [Vec<ReceivedFrame>; Lane::ALL.len()],
    pub(super) requests: Vec<(ConnectionId, ClientFrame)>,
    pub(super) departed: Vec<ConnectionId>,
    pub(super) operations: Vec<(OperationId, Operation)>,
}

impl TurnInput {
    /// Nothing came in.
    #[must_use]
    pub fn new() -> TurnInput {
        TurnInput::default()
    }

    /// Takes something in, in the order of arrival; order is kept within each lane and among requests.
    pub fn push(&mut self, inbound: Inbound) {
        match inbound {
            Inbound::PeerConnected { peer, link, claim } => self.connected.push((peer, link, claim)),
            Inbound::PeerDisconnected { peer, link } => self.disconnected.push((peer, link)),
            Inbound::PeerAlive { peer, link } => self.alive.push((peer, link)),
            Inbound::PeerFrame(frame) => self.lanes[frame.lane as usize].push(frame),
            Inbound::ClientRequest { connection, frame } => self.requests.push((connection, frame)),
            Inbound::ClientDisconnected { connection } => self.departed.push(connection),
            Inbound::Operation { id, operation } => self.operations.push((id, operation)),
        }
    }

    /// Whether nothing came in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.persisted.is_none()
            && self.snapshots.is_empty()
            && self.connected.is_empty()
            && self.disconnected.is_empty()
            && self.alive.is_empty()
            && self.lanes.iter().all(Vec::is_empty)
            && self.requests.is_empty()
            && self.departed.is_empty()
            && self.operations.is_empty()
    }

    /// Forgets everything but the requests and operations, which must be answered.
    pub(super) fn forget_peers(&mut self) {
        self.persisted = None;
        self.snapshots.clear();
        self.connected.clear();
        self.disconnected.clear();
        self.alive.clear();
        self.lanes.iter_mut().for_each(Vec::clear);
        self.departed.clear();
    }
}
