//! The performance manager: load generators, histograms, experiments, results.
//!
//! ```text
//! plan ─▶ run ─┬─ generator threads: WindowedLoad (what, how many) ─▶ generator::drive ─▶ quorate_client::SessionClient
//!              ├─ monitor thread: samples in flight, shows progress, reports gaps
//!              ├─ memory thread: the replicas' resident memory each second
//!              └─ /status of every replica at start and end
//!         ─▶ derived (costs per transaction) ─▶ result (one JSON object) ─▶ judge (may it be quoted?) ─▶ text        merge: several clients' results as one
//! ```
//! Latency is that of a batch, from its first submit through all retries; with a rate, from the time it was meant to be sent. A run
//! without samples is an error, never a zero. A result says itself whether it may be quoted, and if not, why.

pub mod clients;
pub mod clock;
pub mod derived;
pub mod fsync_probe;
pub mod gaps;
pub mod generator;
pub mod host;
pub mod judge;
pub mod limit;
pub mod memory;
pub mod merge;
pub mod monitor;
mod options;
pub mod plan;
pub mod recording;
pub mod replicas;
pub mod result;
pub mod round_trips;
pub mod run;
pub mod schedule;
mod scratch;
pub mod store;
pub mod text;
pub mod transport;
pub mod wal;
pub mod windowed_load;
pub mod workload;
mod zipf;
