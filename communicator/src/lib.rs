//! Frames, handshake, peer and client connections over TCP.
//!
//! A [`TcpCommunicator`] is one replica's transport: it implements [`quorate_framework::ReplicaCommunicator`] and puts what arrives
//! into [`InboundLanes`], which the core task drains. Clients use [`connect_client`].
//!
//! ```text
//! socket ─▶ FrameReader ─▶ InboundLanes ─▶ core ─▶ TcpCommunicator ─▶ Outbox (lanes) ─▶ socket
//!            one task a connection          one task    encoded once     writes at once, or a writer task when the socket is full
//! ```
//! Everything runs on the current runtime, one-threaded by design; nothing depends on that for safety. What is bounded, and by what:
//! [`bounds`] and [`quorate_framework::limits`]. The format on the wire: [`frame`], [`handshake`] and [`exchange`]. Snapshots travel on
//! connections and a thread of their own: [`transfer`].

pub mod agreement;
pub mod bounds;
pub mod budget;
mod client_connection;
mod client_session;
mod client_traffic;
mod communicator;
pub mod exchange;
pub mod frame;
pub mod handshake;
mod hub;
mod inbound;
mod listener;
pub mod outbox;
pub mod outgoing;
mod peer;
pub mod reader;
mod reason;
mod repeated_log;
mod socket;
pub mod traffic;
pub mod transfer;

pub use agreement::Agreement;
pub use bounds::{CommunicatorOptions, LaneBound, LaneBounds};
pub use client_connection::{ClientReceiver, ClientSendError, ClientSender, connect_client};
pub use client_traffic::client_traffic;
pub use communicator::{CommunicatorConfiguration, CommunicatorHandle, PeerLinkStatus, TcpCommunicator};
pub use handshake::{ClientWelcome, HandshakeError, Refusal, RefusalCode};
pub use hub::Admission;
pub use inbound::{Inbound, InboundLanes};
pub use outbox::QueueError;
pub use reason::DisconnectReason;
pub use traffic::{TrafficCounters, TrafficFigures};
pub use transfer::{
    PullEnd, PullError, PullHandle, PullOrder, SnapshotSink, SnapshotSource, SourceError, TransferFigures,
};
