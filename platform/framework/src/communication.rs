//! The transport's contract.

use crate::ids::{ConnectionId, LinkId, ReplicaId};
use crate::reply::ReplyHeader;
use crate::wire::{Encoded, Lane};
use async_trait::async_trait;
use bytes::Bytes;

/// Which decoder a frame between replicas needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FrameClass {
    /// A protocol's message.
    Message = 1,
    /// A protocol's promise.
    Promise = 2,
    /// The forming machine's own traffic.
    Forming = 3,
}

/// A frame for one or more peers: encoded once, shared by all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerFrame {
    /// To whom.
    pub to: Vec<ReplicaId>,
    /// The lane it travels in.
    pub lane: Lane,
    /// Which decoder it needs.
    pub class: FrameClass,
    /// The encoded message.
    pub encoded: Encoded,
}

/// An answer for one client connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientReply {
    /// The connection; a reply for one that is gone is dropped.
    pub connection: ConnectionId,
    /// The header.
    pub header: ReplyHeader,
    /// The results.
    pub body: Bytes,
}

/// Moves bytes to peers and clients, called once per group of effects.
#[cfg_attr(any(test, feature = "testing"), mockall::automock)]
#[async_trait]
pub trait ReplicaCommunicator: Send {
    /// Queues frames to peers, per peer and lane in order, and starts writing. Does not wait for a slow peer: what exceeds a peer's
    /// queue drops that peer's connection. Frames to a peer without a connection are dropped. Empties `frames` and leaves its memory
    /// to the caller.
    async fn send(&mut self, frames: &mut Vec<PeerFrame>);

    /// Queues answers to clients and starts writing. Does not wait for a slow client: what exceeds its queue drops its connection.
    /// Empties `replies` and leaves its memory to the caller.
    async fn reply(&mut self, replies: &mut Vec<ClientReply>);

    /// Closes this link to a peer, which is dialled again later. A newer link of the same peer stays: whoever refuses a link has
    /// judged that link and no other.
    async fn disconnect(&mut self, peer: ReplicaId, link: LinkId);
}
