//! Every default limit of the system, by name, with its unit last.
//!
//! A default is changed only with a measurement. Relations between limits that can be checked when the program is compiled
//! stand at the end of the file.

/// How often an idle leader reassures its followers, in milliseconds.
pub const HEARTBEAT_INTERVAL_MS: u64 = 50;
/// Least election timeout, in milliseconds; each wait is drawn from one to two times this.
pub const ELECTION_TIMEOUT_MS: u64 = 500;
/// A persisted record older than this without an answer means a hung disk, in milliseconds.
pub const DISK_STALL_TIMEOUT_MS: u64 = 2_000;
/// Entries in one append message at most.
pub const ENTRIES_PER_APPEND: usize = 1_280;
/// Bytes of entries in one append message at most; a single larger entry still travels, alone.
pub const BYTES_PER_APPEND: usize = 1 << 20;
/// Append messages sent to one follower and not yet answered, at most.
pub const IN_FLIGHT_MESSAGES_PER_FOLLOWER: usize = 128;
/// Bytes of entries sent to one follower and not yet answered, at most.
pub const IN_FLIGHT_BYTES_PER_FOLLOWER: usize = 8 << 20;
/// Memory pinned by the log when recovery is off, in bytes.
pub const LOG_MEMORY_BYTES: usize = 64 << 20;
/// Memory that the log may pin beyond its bound while a follower is brought back by a snapshot, in bytes: what it will need next.
pub const LOG_HELD_FOR_SNAPSHOT_BYTES: usize = 256 << 20;
/// Entries before a snapshot that stay in the log, at most: a follower or a restart only a little behind needs no snapshot.
pub const LOG_TAIL_ENTRIES: usize = 65_536;
/// Bytes of entries before a snapshot that stay in the log, at most.
pub const LOG_TAIL_BYTES: usize = 16 << 20;
/// Pause between two snapshots for one follower, in milliseconds.
pub const SNAPSHOT_RETRY_PAUSE_MS: u64 = 1_000;
/// A snapshot of which the follower pulls nothing for this long is given up, in milliseconds.
pub const SNAPSHOT_STALL_TIMEOUT_MS: u64 = 10_000;
/// Size of a snapshot at most, in bytes.
pub const SNAPSHOT_BYTES: u64 = 1 << 44;
/// Transactions executed after which a checkpoint is due.
pub const CHECKPOINT_TRANSACTIONS: u64 = 100_000_000;
/// Growth of the log after which a checkpoint is due, in bytes.
pub const CHECKPOINT_LOG_BYTES: u64 = 256 << 20;
/// Size of a segment of the log, in bytes.
pub const WAL_SEGMENT_BYTES: u64 = 16 << 20;
/// Records that end a wait for more before a sync.
pub const WAL_FLUSH_BATCH: u64 = 1_024;
/// How fast snapshots are sent, in bytes a second.
pub const SNAPSHOT_BYTES_PER_SECOND: u64 = 128 << 20;
/// How slowly snapshots may be sent, in bytes a second over all of them.
pub const SNAPSHOT_BYTES_PER_SECOND_MIN: u64 = 64 << 10;
/// Size of one part of a snapshot on the wire at most, in bytes.
pub const SNAPSHOT_CHUNK_BYTES: usize = 256 << 10;
/// Other replicas that pull a snapshot from one replica at a time, at most.
pub const SNAPSHOT_CONNECTIONS: usize = 8;
/// Client frames admitted and not yet answered, at most.
pub const CLIENT_ADMISSION_FRAMES: usize = 16_384;
/// Bytes of client frames admitted and not yet answered, at most.
pub const CLIENT_ADMISSION_BYTES: usize = 64 << 20;
/// Time for a handshake from accept or connect to the last byte, in milliseconds.
pub const HANDSHAKE_TIMEOUT_MS: u64 = 5_000;
/// Open connections per replica at most.
pub const CONNECTIONS: usize = 1_024;
/// Connections that have not finished their handshake, at most.
pub const UNFINISHED_HANDSHAKES: usize = 256;
/// First pause before a lost peer is dialled again, in milliseconds.
pub const RECONNECT_BACKOFF_MS_MIN: u64 = 10;
/// Longest pause before a lost peer is dialled again, in milliseconds.
pub const RECONNECT_BACKOFF_MS_MAX: u64 = 1_000;
/// Size of a frame on the wire, header included, in bytes; a longer payload travels in parts.
pub const FRAME_BYTES: usize = 1 << 20;
/// Size of a payload put together from parts, in bytes.
pub const PAYLOAD_BYTES: usize = 16 << 20;
/// Size of a read buffer of a connection, in bytes.
pub const READ_BUFFER_BYTES: usize = 256 << 10;
/// From this size on a payload travels as a shared slice instead of being copied into its group, in bytes.
pub const SHARED_PAYLOAD_BYTES: usize = 4 << 10;
/// Size of a key at most, in bytes.
pub const KEY_BYTES: usize = 64 << 10;
/// Size of a value at most, in bytes.
pub const VALUE_BYTES: usize = 8 << 20;
/// Size of one page of a scan, in bytes.
pub const SCAN_PAGE_BYTES: usize = 1 << 20;
/// Commands in one client frame at most.
pub const COMMANDS_PER_FRAME: usize = 65_536;
/// Sequences (frames) above the low mark that a session holds.
pub const SESSION_WINDOW_FRAMES: u64 = 1_024;
/// Sessions in the table at most; the least recently applied goes first.
pub const SESSIONS: usize = 65_536;
/// Bytes of stored answers over all sessions, at most.
pub const SESSION_ANSWER_BYTES: usize = 64 << 20;
/// Replicas in a cluster at most.
pub const REPLICAS: usize = 64;
/// Port of peers and native clients of replica `i` is this plus `i`.
pub const PEER_PORT_BASE: u16 = 17_000;
/// Port of the HTTP status of replica `i` is this plus `i`.
pub const HTTP_PORT_BASE: u16 = 18_000;
/// Port of the RESP front door of replica `i` is this plus `i`.
pub const RESP_PORT_BASE: u16 = 19_000;
/// Warm-up of a measured run, excluded from its figures, in seconds.
pub const PERFORMANCE_WARM_UP_S: u64 = 2;
/// Length of a measured run, in seconds.
pub const PERFORMANCE_RUN_S: u64 = 10;

// A single entry must always be able to travel, whatever its size.
const _: () = assert!(VALUE_BYTES + KEY_BYTES + (64 << 10) <= PAYLOAD_BYTES);
// One append must fit its window, or a follower in REPLICATE could never be sent a full message.
const _: () = assert!(BYTES_PER_APPEND <= IN_FLIGHT_BYTES_PER_FOLLOWER);
// What is in flight must be in the log, or an answer could arrive for an entry that is gone.
const _: () = assert!(IN_FLIGHT_BYTES_PER_FOLLOWER <= LOG_MEMORY_BYTES);
// The tail kept for followers must fit the log in memory, or it could not be served from there.
const _: () = assert!(LOG_TAIL_BYTES <= LOG_MEMORY_BYTES);
// A checkpoint must be able to free segments, or the log would never shrink.
const _: () = assert!(CHECKPOINT_LOG_BYTES >= 2 * WAL_SEGMENT_BYTES);
// A pause longer than the time-out would let nobody be tried again in time.
const _: () = assert!(SNAPSHOT_RETRY_PAUSE_MS < SNAPSHOT_STALL_TIMEOUT_MS);
// The default rate of snapshots is one that may be configured.
const _: () = assert!(SNAPSHOT_BYTES_PER_SECOND >= SNAPSHOT_BYTES_PER_SECOND_MIN);
// A timeout below twice the heartbeat elects for ever.
const _: () = assert!(ELECTION_TIMEOUT_MS >= 2 * HEARTBEAT_INTERVAL_MS);
// A hung disk is noticed only after a slow one was given time.
const _: () = assert!(DISK_STALL_TIMEOUT_MS >= 2 * ELECTION_TIMEOUT_MS);
// Unfinished handshakes must leave room for finished ones.
const _: () = assert!(UNFINISHED_HANDSHAKES < CONNECTIONS);
// A copied payload must fit a read buffer many times over.
const _: () = assert!(SHARED_PAYLOAD_BYTES * 8 <= READ_BUFFER_BYTES);
// The template's default window must lie below admission, or overload would be hidden behind refusals.
const _: () = assert!(CLIENT_ADMISSION_FRAMES > 4_096);
// The snapshot of a session table is bounded by its two limits.
const _: () = assert!(SESSION_ANSWER_BYTES >= PAYLOAD_BYTES);
