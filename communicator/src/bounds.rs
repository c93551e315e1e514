//! The communicator's own bounds, beside those of [`limits`].

use crate::frame::MESSAGE_BODY_BYTES;
use quorate_framework::limits;
use std::time::Duration;

/// The bound of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneBound {
    /// Messages at most.
    pub messages: usize,
    /// Bytes at most; a single larger message still passes, alone.
    pub bytes: usize,
}

/// The bound of each lane, in the order of [`quorate_framework::Lane::ALL`].
pub type LaneBounds = [LaneBound; 5];

/// What may wait for one peer, and what one peer may have waiting for the core. A peer that keeps to the protocol's windows never
/// reaches it: replication has twice the window and one message of the largest size beside it.
pub const PEER_LANES: LaneBounds = [
    LaneBound { messages: 16_384, bytes: 8 << 20 },
    LaneBound { messages: 16_384, bytes: 8 << 20 },
    LaneBound {
        messages: 8 * limits::IN_FLIGHT_MESSAGES_PER_FOLLOWER,
        bytes: 2 * limits::IN_FLIGHT_BYTES_PER_FOLLOWER + MESSAGE_BODY_BYTES,
    },
    LaneBound { messages: limits::CLIENT_ADMISSION_FRAMES, bytes: limits::CLIENT_ADMISSION_BYTES },
    LaneBound { messages: 256, bytes: 2 * MESSAGE_BODY_BYTES },
];

/// Requests of all clients that wait for the core; what comes beyond it is answered `Busy`.
pub const CLIENT_LANE: LaneBound =
    LaneBound { messages: limits::CLIENT_ADMISSION_FRAMES, bytes: limits::CLIENT_ADMISSION_BYTES };

/// Answers that may wait for one client, or requests that may wait for one replica.
pub const CLIENT_OUTBOX: LaneBound = LaneBound { messages: 65_536, bytes: 2 * MESSAGE_BODY_BYTES };

/// Bytes of answers that may wait for all clients together. Beyond it the connections go for which most waits: those that read their
/// answers keep theirs.
pub const CLIENT_ANSWERS_BYTES: usize = 2 * CLIENT_OUTBOX.bytes;

/// Bytes of clients' requests that have begun to arrive in memory of their own and are not complete, over all connections.
pub const UNFINISHED_REQUEST_BYTES: usize = 128 << 20;

/// From this size on the rest of a body is read straight into its own memory instead of through the read buffer, in bytes.
pub const DIRECT_READ_BYTES: usize = 64 << 10;

// Requests of the largest size must be able to arrive side by side.
const _: () = assert!(UNFINISHED_REQUEST_BYTES >= 4 * limits::PAYLOAD_BYTES);
const _: () = assert!(PEER_LANES[2].bytes > limits::IN_FLIGHT_BYTES_PER_FOLLOWER + MESSAGE_BODY_BYTES);
const _: () = assert!(PEER_LANES[2].messages > limits::IN_FLIGHT_MESSAGES_PER_FOLLOWER);
// Clients must leave room for unfinished handshakes and peers.
const _: () = assert!(limits::UNFINISHED_HANDSHAKES + limits::REPLICAS < limits::CONNECTIONS);

/// Bounds and times of a communicator; the default is what [`limits`] says.
#[derive(Clone, Debug)]
pub struct CommunicatorOptions {
    /// What may wait for one peer.
    pub peer_outbox: LaneBounds,
    /// What may wait for one client.
    pub client_outbox: LaneBound,
    /// Bytes of answers that may wait for all clients together, give or take a quarter.
    pub client_answers_bytes: usize,
    /// Time from accept or connect to the end of the handshake.
    pub handshake_timeout: Duration,
    /// Connections that have not finished their handshake; beyond it the oldest of them is closed.
    pub unfinished_handshakes: usize,
    /// Open connections, unfinished ones and peers included.
    pub connections: usize,
    /// First pause before a lost peer is dialled again.
    pub backoff_min: Duration,
    /// Longest pause before a lost peer is dialled again.
    pub backoff_max: Duration,
    /// Time for a large request from its first byte to its last.
    pub request_timeout: Duration,
    /// A peer whose host no longer answers is noticed within about this time.
    pub silence_timeout: Duration,
    /// How fast snapshots are sent, in bytes a second over all of them; at least [`limits::SNAPSHOT_BYTES_PER_SECOND_MIN`] counts.
    pub snapshot_bytes_per_second: u64,
    /// Peers that pull a snapshot from here at a time, at most; their connections come on top of `connections`.
    pub snapshot_connections: usize,
    /// A transfer in which nothing moves for this long is given up, on either side.
    pub snapshot_stall_timeout: Duration,
}

impl Default for CommunicatorOptions {
    fn default() -> CommunicatorOptions {
        CommunicatorOptions {
            peer_outbox: PEER_LANES,
            client_outbox: CLIENT_OUTBOX,
            client_answers_bytes: CLIENT_ANSWERS_BYTES,
            handshake_timeout: Duration::from_millis(limits::HANDSHAKE_TIMEOUT_MS),
            unfinished_handshakes: limits::UNFINISHED_HANDSHAKES,
            connections: limits::CONNECTIONS,
            backoff_min: Duration::from_millis(limits::RECONNECT_BACKOFF_MS_MIN),
            backoff_max: Duration::from_millis(limits::RECONNECT_BACKOFF_MS_MAX),
            request_timeout: Duration::from_secs(30),
            silence_timeout: Duration::from_secs(4),
            snapshot_bytes_per_second: limits::SNAPSHOT_BYTES_PER_SECOND,
            snapshot_connections: limits::SNAPSHOT_CONNECTIONS,
            snapshot_stall_timeout: Duration::from_millis(limits::SNAPSHOT_STALL_TIMEOUT_MS),
        }
    }
}
