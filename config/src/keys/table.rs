//! The settings, with their types, ranges and defaults, and the accepted keys that have no effect here.

use super::{DefaultValue, Effect, KeySpec, Kind, Level};
use crate::choice::{StoreKind, WalSync};
use crate::protocol::Protocol;
use quorate_framework::limits;

/// A type that a setting may have in [`Settings`].
pub(crate) trait SettingValue: Sized {
    /// The value, when it is of the right kind.
    fn from_checked(value: &serde_json::Value) -> Option<Self>;
    /// The value as it stands in a file.
    fn to_json(&self) -> serde_json::Value;
}

impl SettingValue for bool {
    fn from_checked(value: &serde_json::Value) -> Option<bool> {
        value.as_bool()
    }

    fn to_json(&self) -> serde_json::Value {
        (*self).into()
    }
}

impl SettingValue for u64 {
    fn from_checked(value: &serde_json::Value) -> Option<u64> {
        value.as_u64()
    }

    fn to_json(&self) -> serde_json::Value {
        (*self).into()
    }
}

impl SettingValue for String {
    fn from_checked(value: &serde_json::Value) -> Option<String> {
        value.as_str().map(str::to_owned)
    }

    fn to_json(&self) -> serde_json::Value {
        self.as_str().into()
    }
}

impl SettingValue for Protocol {
    fn from_checked(value: &serde_json::Value) -> Option<Protocol> {
        value.as_str().and_then(Protocol::from_name)
    }

    fn to_json(&self) -> serde_json::Value {
        self.name().into()
    }
}

/// Settings that are one of a few words.
macro_rules! choice_value {
    ($($name:ident),+) => {
        $(impl SettingValue for $name {
            fn from_checked(value: &serde_json::Value) -> Option<$name> {
                value.as_str().and_then($name::from_word)
            }

            fn to_json(&self) -> serde_json::Value {
                self.word().into()
            }
        })+
    };
}

choice_value!(WalSync, StoreKind);

/// Makes the typed settings and their table from one list, so that neither can say what the other does not.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $kind:expr, $default:expr;)+) => {
        /// The effective settings of a replica: what the file says and, where it says nothing, the defaults. Units stand in the
        /// names. Values are in range and do not contradict one another.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Settings {
            $($(#[doc = $doc])+ pub $name: $type,)+
        }

        /// The keys of [`Settings`], in their order.
        pub(crate) const SETTING_KEYS: &[KeySpec] = &[
            $(KeySpec {
                name: stringify!($name),
                kind: $kind,
                default: $default,
                effect: Effect::Used,
                required: false,
                doc: concat!($($doc),+),
            },)+
        ];

        impl Settings {
            /// The settings made of `value_of`, which gives each key's checked value.
            pub(crate) fn from_values(value_of: impl Fn(&'static str) -> serde_json::Value) -> Settings {
                Settings {
                    $($name: <$type as SettingValue>::from_checked(&value_of(stringify!($name)))
                        .expect("a checked value has the kind of its key"),)+
                }
            }

            /// Every setting's key and effective value, in the table's order.
            pub(crate) fn to_values(&self) -> Vec<(&'static str, serde_json::Value)> {
                vec![$((stringify!($name), SettingValue::to_json(&self.$name)),)+]
            }
        }
    };
}

const fn integer(min: u64, max: u64) -> Kind {
    Kind::Integer { min, max }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Ten minutes: a longer wait is a mistake in the unit.
const WAIT_MS_MAX: u64 = 600_000;

use DefaultValue::{Bool, Integer, SameAs, Text};

settings! {
    /// Consensus protocol of the cluster.
    consensus: Protocol = Kind::Protocol, Text("raft");
    /// Transactions that a load generator puts into one client frame.
    client_batch_num: u64 = integer(1, limits::COMMANDS_PER_FRAME as u64), Integer(100);
    /// Client frames that a load generator keeps unanswered at most.
    max_process_txn: u64 = integer(1, 1_000_000), Integer(64);
    /// Whether the replicas keep a log on disk and survive a restart. Off: everything is in memory and lost with the process.
    recovery_enabled: bool = Kind::Bool, Bool(true);
    /// Folder for the replicas' data; each uses its own folder `replica-ID` in it. A relative name counts from the folder of
    /// the cluster file.
    recovery_path: String = Kind::Path, Text("quorate-data");
    /// How often a replica looks whether a checkpoint is due, in seconds.
    recovery_ckpt_time_s: u64 = integer(1, 86_400), Integer(60);
    /// A checkpoint is due once so many transactions were executed since the last one, whatever the time.
    checkpoint_transactions: u64 = integer(1, 1_000_000_000_000), Integer(limits::CHECKPOINT_TRANSACTIONS);
    /// A checkpoint is due once the log has grown by so many bytes since the last one, whatever the time.
    checkpoint_log_bytes: u64 = integer(MIB, 1_024 * GIB), Integer(limits::CHECKPOINT_LOG_BYTES);
    /// When the log counts as durable. `always`: once the device has synced it. `never`: once it is written, which survives the
    /// death of the process but not a loss of power.
    wal_sync: WalSync = Kind::Choice(WalSync::WORDS), Text("always");
    /// How long the log may wait for more before it syncs, in microseconds. 0: never; what comes in during a sync is the next group.
    wal_flush_wait_us: u64 = integer(0, 1_000_000), Integer(0);
    /// Records that end the wait of `wal_flush_wait_us` early.
    wal_flush_batch: u64 = integer(1, 1_000_000), Integer(limits::WAL_FLUSH_BATCH);
    /// Size of a segment of the log, in bytes.
    wal_segment_bytes: u64 = integer(MIB, 4 * GIB), Integer(limits::WAL_SEGMENT_BYTES);
    /// Where the keys and values are kept: in `memory` with a file at each checkpoint, or on disk in an `lsm` tree.
    store: StoreKind = Kind::Choice(StoreKind::WORDS), Text("memory");
    /// How fast a replica sends a snapshot to another, in bytes a second over all of them.
    snapshot_bytes_per_second: u64 = integer(64 * KIB, 64 * GIB), Integer(limits::SNAPSHOT_BYTES_PER_SECOND);
    /// True: messages between replicas are not signed. Raft trusts its replicas and never signs.
    not_need_signature: bool = Kind::Bool, Bool(true);
    /// Matching replies that a client waits for. Raft: the leader's reply is enough.
    min_client_receive_num: u64 = integer(1, 1), Integer(1);
    /// How long a leader may hold back a new entry to send it with others, in milliseconds. 0: never.
    raft_follower_batch_timeout_ms: u64 = integer(0, 1_000), Integer(0);
    /// How often an idle leader reassures its followers, in milliseconds.
    heartbeat_interval_ms: u64 = integer(1, 10_000), Integer(limits::HEARTBEAT_INTERVAL_MS);
    /// Least election timeout, in milliseconds; each wait is drawn from one to two times this. At least twice the heartbeat.
    election_timeout_ms: u64 = integer(2, 60_000), Integer(limits::ELECTION_TIMEOUT_MS);
    /// A record that is not on disk after this time means a hung disk, in milliseconds: a leader steps down.
    disk_stall_timeout_ms: u64 = integer(10, WAIT_MS_MAX), Integer(limits::DISK_STALL_TIMEOUT_MS);
    /// Entries in one append message at most.
    max_entries_per_append: u64 = integer(1, 65_536), Integer(limits::ENTRIES_PER_APPEND as u64);
    /// Bytes of entries in one append message at most; a single larger entry still travels, alone.
    max_append_bytes: u64 = integer(4 * KIB, 16 * MIB), Integer(limits::BYTES_PER_APPEND as u64);
    /// Append messages sent to one follower and not yet answered, at most.
    max_in_flight_messages_per_follower: u64 = integer(1, 65_536), Integer(limits::IN_FLIGHT_MESSAGES_PER_FOLLOWER as u64);
    /// Bytes of entries sent to one follower and not yet answered, at most.
    max_in_flight_bytes_per_follower: u64 = integer(64 * KIB, GIB), Integer(limits::IN_FLIGHT_BYTES_PER_FOLLOWER as u64);
    /// After this time without an answer on a living connection a follower counts as slow and is probed, in milliseconds.
    in_flight_timeout_ms: u64 = integer(10, WAIT_MS_MAX), SameAs("election_timeout_ms");
    /// Memory that the log may pin, in bytes. With recovery on older entries are still on disk, with it off they are gone.
    log_memory_limit_bytes: u64 = integer(MIB, 64 * GIB), Integer(limits::LOG_MEMORY_BYTES as u64);
    /// Client frames admitted and not yet answered, at most; more are answered with Busy.
    client_admission_frames: u64 = integer(1, 1_000_000), Integer(limits::CLIENT_ADMISSION_FRAMES as u64);
    /// Bytes of client frames admitted and not yet answered, at most; more are answered with Busy.
    client_admission_bytes: u64 = integer(64 * KIB, 64 * GIB), Integer(limits::CLIENT_ADMISSION_BYTES as u64);
    /// Time for a handshake, from connecting to its last byte, in milliseconds.
    handshake_timeout_ms: u64 = integer(10, WAIT_MS_MAX), Integer(limits::HANDSHAKE_TIMEOUT_MS);
    /// Open connections per replica at most.
    max_connections: u64 = integer(8, 65_536), Integer(limits::CONNECTIONS as u64);
    /// First pause before a lost peer is dialled again, in milliseconds.
    reconnect_backoff_ms_min: u64 = integer(1, WAIT_MS_MAX), Integer(limits::RECONNECT_BACKOFF_MS_MIN);
    /// Longest pause before a lost peer is dialled again, in milliseconds.
    reconnect_backoff_ms_max: u64 = integer(1, WAIT_MS_MAX), Integer(limits::RECONNECT_BACKOFF_MS_MAX);
    /// Sessions in the table at most; the least recently applied goes first. The same on all replicas and for the life of the cluster.
    session_table_limit: u64 = integer(1, 10_000_000), Integer(limits::SESSIONS as u64);
    /// Bytes of stored answers over all sessions, at most. The same on all replicas and for the life of the cluster.
    session_answer_limit_bytes: u64 = integer(64 * KIB, 64 * GIB), Integer(limits::SESSION_ANSWER_BYTES as u64);
    /// Frames above its low mark that a session holds. The same on all replicas and for the life of the cluster.
    session_window: u64 = integer(1, 65_536), Integer(limits::SESSION_WINDOW_FRAMES);
    /// Size of a key at most, in bytes. The same on all replicas and for the life of the cluster.
    key_size_limit_bytes: u64 = integer(1, MIB), Integer(limits::KEY_BYTES as u64);
    /// Size of a value at most, in bytes. The same on all replicas and for the life of the cluster.
    value_size_limit_bytes: u64 = integer(1, limits::PAYLOAD_BYTES as u64), Integer(limits::VALUE_BYTES as u64);
}

const fn ignored(name: &'static str, kind: Kind, why: &'static str, doc: &'static str) -> KeySpec {
    KeySpec { name, kind, default: DefaultValue::None, effect: Effect::None(why), required: false, doc }
}

/// What a 32-bit signed number of protocol buffers can hold without being negative.
const COUNT: Kind = integer(0, i32::MAX as u64);
const THREADS: &str = "a replica's threads are fixed by its design";

/// ResilientDB's keys that are accepted and do nothing here.
pub(crate) const IGNORED_KEYS: &[KeySpec] = &[
    ignored("self_region_id", COUNT, "a cluster has one region", "ResilientDB: which region this replica belongs to."),
    ignored(
        "leveldb_info",
        Kind::Object(Level::Leveldb),
        "the store is not LevelDB",
        "ResilientDB: settings of LevelDB.",
    ),
    ignored("duckdb_info", Kind::Object(Level::Duckdb), "the store is not DuckDB", "ResilientDB: settings of DuckDB."),
    ignored(
        "enable_viewchange",
        Kind::Bool,
        "elections are always on, whatever it says",
        "ResilientDB: switch for elections and view changes.",
    ),
    ignored("is_performance_running", Kind::Bool, "the load comes from `quorate perf`", "ResilientDB: benchmark mode."),
    ignored("use_chain_hotstuff", Kind::Bool, "ResilientDB does not read it either", "ResilientDB: chained HotStuff."),
    ignored(
        "view_change_timeout_ms",
        COUNT,
        "Raft's timeout is election_timeout_ms",
        "ResilientDB: PBFT's view change timeout.",
    ),
    ignored("worker_num", COUNT, THREADS, "ResilientDB: message handler threads."),
    ignored("input_worker_num", COUNT, THREADS, "ResilientDB: receiving threads."),
    ignored("output_worker_num", COUNT, THREADS, "ResilientDB: sending threads."),
    ignored(
        "tcp_batch_num",
        COUNT,
        "messages are batched by what is waiting, never by a count",
        "ResilientDB: messages per send.",
    ),
    ignored(
        "require_txn_validation",
        Kind::Bool,
        "it belongs to ResilientDB's Python SDK",
        "ResilientDB: transaction validation.",
    ),
    ignored("recovery_buffer_size", COUNT, "the log writes whole groups", "ResilientDB: buffer of PBFT's log."),
    ignored(
        "max_client_complaint_num",
        COUNT,
        "clients of Raft do not complain to replicas",
        "ResilientDB: complaints before a view change.",
    ),
    ignored(
        "duplicate_check_frequency_useconds",
        COUNT,
        "duplicates are found by sessions",
        "ResilientDB: sweep of PBFT's duplicate table.",
    ),
    ignored("enable_resview", Kind::Bool, "status and metrics are always on http_port", "ResilientDB: HTTP status."),
    ignored(
        "enable_faulty_switch",
        Kind::Bool,
        "a replica is never made faulty by request",
        "ResilientDB: faults by HTTP.",
    ),
];
