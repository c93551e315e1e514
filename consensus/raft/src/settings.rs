//! What a Raft core is told once, when it is made.

use quorate_framework::limits;
use std::time::Duration;

/// Settings of a core. All replicas should agree on the timings; the limits are each replica's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RaftSettings {
    /// How often a leader sends heartbeats, whatever else it sends.
    pub heartbeat_interval: Duration,
    /// Least election timeout; each wait is drawn from one to two times this. At least twice the heartbeat.
    pub election_timeout: Duration,
    /// Age of the oldest unanswered append from which a follower with a live connection counts as slow (DESIGN: PROBE).
    pub in_flight_timeout: Duration,
    /// Unanswered appends to one follower, at most.
    pub in_flight_messages: usize,
    /// Bytes of unanswered appends to one follower, at most; one message always passes.
    pub in_flight_bytes: usize,
    /// Entries in one append, at most.
    pub entries_per_append: usize,
    /// Bytes of entries in one append, at most; one entry always passes.
    pub bytes_per_append: usize,
    /// Memory pinned by the log, at most, in bytes; above it executed entries go, and with none left the leader answers `Busy`.
    pub log_memory_bytes: usize,
    /// Further memory the log may pin while a follower is brought back by a snapshot, in bytes: what that follower needs next.
    pub log_held_bytes: usize,
    /// Entries before a snapshot that stay in the durable log, at most.
    pub log_tail_entries: usize,
    /// Bytes of entries before a snapshot that stay in the durable log, at most.
    pub log_tail_bytes: usize,
    /// Age of the oldest record that is not durable, or of the oldest order not executed, from which disk or executor count as hung.
    pub disk_stall_timeout: Duration,
    /// Whether the node can take, serve and install snapshots. If not, a follower below the log stays in need of one.
    pub snapshots: bool,
    /// Least time from one snapshot for a follower to the next.
    pub snapshot_retry_pause: Duration,
    /// How long a follower may pull nothing of its snapshot before it is given up.
    pub snapshot_stall_timeout: Duration,
    /// How long a new entry may wait for others before it is sent (`raft_follower_batch_timeout_ms`); zero sends at once.
    pub linger: Duration,
}

impl Default for RaftSettings {
    fn default() -> RaftSettings {
        let election_timeout = Duration::from_millis(limits::ELECTION_TIMEOUT_MS);
        RaftSettings {
            heartbeat_interval: Duration::from_millis(limits::HEARTBEAT_INTERVAL_MS),
            election_timeout,
            in_flight_timeout: election_timeout,
            in_flight_messages: limits::IN_FLIGHT_MESSAGES_PER_FOLLOWER,
            in_flight_bytes: limits::IN_FLIGHT_BYTES_PER_FOLLOWER,
            entries_per_append: limits::ENTRIES_PER_APPEND,
            bytes_per_append: limits::BYTES_PER_APPEND,
            log_memory_bytes: limits::LOG_MEMORY_BYTES,
            log_held_bytes: limits::LOG_HELD_FOR_SNAPSHOT_BYTES,
            log_tail_entries: limits::LOG_TAIL_ENTRIES,
            log_tail_bytes: limits::LOG_TAIL_BYTES,
            disk_stall_timeout: Duration::from_millis(limits::DISK_STALL_TIMEOUT_MS),
            snapshots: false,
            snapshot_retry_pause: Duration::from_millis(limits::SNAPSHOT_RETRY_PAUSE_MS),
            snapshot_stall_timeout: Duration::from_millis(limits::SNAPSHOT_STALL_TIMEOUT_MS),
            linger: Duration::ZERO,
        }
    }
}
