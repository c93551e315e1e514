//! The keys that give a file its shape: cluster id, replicas, and ResilientDB's regions.

use super::{DefaultValue, Effect, KeySpec, Kind, Level};
use quorate_framework::limits;

const PORT: Kind = Kind::Integer { min: 1, max: 65_535 };
const REPLICA_ID: Kind = Kind::Integer { min: 1, max: u32::MAX as u64 };

const fn required(name: &'static str, kind: Kind, doc: &'static str) -> KeySpec {
    KeySpec { name, kind, default: DefaultValue::None, effect: Effect::Used, required: true, doc }
}

const fn optional(name: &'static str, kind: Kind, doc: &'static str) -> KeySpec {
    KeySpec { name, kind, default: DefaultValue::None, effect: Effect::Used, required: false, doc }
}

const fn ignored(name: &'static str, kind: Kind, why: &'static str, doc: &'static str) -> KeySpec {
    KeySpec { name, kind, default: DefaultValue::None, effect: Effect::None(why), required: false, doc }
}

/// The keys at the top that are no settings. Whether they must be there depends on the use: see the validator.
pub(crate) const STRUCTURE_KEYS: &[KeySpec] = &[
    optional(
        "cluster_id",
        Kind::ClusterId,
        "Identity of the cluster, drawn at random by `config new`; replicas of another cluster are refused.",
    ),
    optional(
        "replicas",
        Kind::List(Level::Replica),
        "The first members of the cluster. Once it has formed, the log's membership is the authority.",
    ),
    optional(
        "region",
        Kind::List(Level::Region),
        "ResilientDB's form of the replica list: one region. Read as `replicas`, never written.",
    ),
];

/// The keys of an element of `replicas`.
pub(crate) const REPLICA_KEYS: &[KeySpec] = &[
    required("id", REPLICA_ID, "Number of the replica, unique in the cluster."),
    required("host", Kind::Host, "Name or address under which the other replicas and the clients reach it."),
    required("port", PORT, "Port of peers and native clients."),
    optional("http_port", PORT, "Port of status and metrics; absent: 18000 plus the place in the list, from 0."),
    optional("resp_port", PORT, "Port of the RESP front door; absent: 19000 plus the place in the list, from 0."),
];

/// The keys of an element of ResilientDB's `region`.
pub(crate) const REGION_KEYS: &[KeySpec] = &[
    required("replica_info", Kind::List(Level::RegionReplica), "The replicas of the region."),
    ignored(
        "region_id",
        Kind::Integer { min: 0, max: i32::MAX as u64 },
        "a cluster has one region",
        "Number of the region.",
    ),
];

/// The keys of an element of ResilientDB's `replica_info`.
pub(crate) const REGION_REPLICA_KEYS: &[KeySpec] = &[
    required("id", REPLICA_ID, "Number of the replica, unique in the cluster."),
    required("ip", Kind::Host, "Name or address of the replica."),
    required("port", PORT, "Port of peers and native clients."),
    ignored(
        "certificate_info",
        Kind::Anything,
        "certificates of ResilientDB are not used",
        "ResilientDB's certificate.",
    ),
];

const SIZE: Kind = Kind::Integer { min: 0, max: i32::MAX as u64 };
const NO_LEVELDB: &str = "the store is not LevelDB";
const NO_DUCKDB: &str = "the store is not DuckDB";

/// The keys of ResilientDB's `leveldb_info`.
pub(crate) const LEVELDB_KEYS: &[KeySpec] = &[
    ignored("write_buffer_size_mb", SIZE, NO_LEVELDB, "Size of LevelDB's write buffer."),
    ignored("write_batch_size", SIZE, NO_LEVELDB, "Writes in a LevelDB batch."),
    ignored("path", Kind::Path, NO_LEVELDB, "Folder of the LevelDB files."),
    ignored("enable_block_cache", Kind::Bool, NO_LEVELDB, "Whether LevelDB caches blocks."),
    ignored("block_cache_capacity", SIZE, NO_LEVELDB, "Blocks in LevelDB's cache."),
];

/// The keys of ResilientDB's `duckdb_info`.
pub(crate) const DUCKDB_KEYS: &[KeySpec] = &[
    ignored("path", Kind::Path, NO_DUCKDB, "File of the DuckDB database."),
    ignored("use_wal", Kind::Bool, NO_DUCKDB, "Whether DuckDB keeps a write-ahead log."),
    ignored("max_memory", Kind::Anything, NO_DUCKDB, "Memory of DuckDB."),
    ignored("threads", SIZE, NO_DUCKDB, "Threads of DuckDB."),
];

// The documentation above names these numbers.
const _: () = assert!(limits::HTTP_PORT_BASE == 18_000 && limits::RESP_PORT_BASE == 19_000);
