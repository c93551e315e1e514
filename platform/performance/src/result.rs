//! The result of a run: one JSON object with its units in its names.
//!
//! What could not be got is null, with the reason in `null_because`. A run that is not `valid` says why in `invalid_because`; it is
//! not to be quoted.

use crate::gaps::Gap;
use crate::host::HostFacts;
use crate::replicas::ReplicaFigures;
use crate::round_trips::RoundTripMs;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Latency of a batch, in milliseconds, from its first submit (with a rate: from the time it was meant to be sent) through all
/// retries to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyMs {
    /// Arithmetic mean, exact.
    pub mean: f64,
    /// Median; this and the others to three significant digits.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// Largest.
    pub max: f64,
}

/// Median and tail of something measured, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MedianAndTailMs {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// One, five and fifteen minutes' load average, before and after the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadAverage {
    /// Before the load began.
    pub before: Option<[f64; 3]>,
    /// After it ended.
    pub after: Option<[f64; 3]>,
}

/// How batches failed, over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCounts {
    /// Certainly not executed.
    pub not_done: u64,
    /// May have been executed.
    pub unknown: u64,
    /// Their session was gone.
    pub expired: u64,
    /// Answered with another status than `Ok`, or unreadably.
    pub bad_answers: u64,
    /// The first few of them in words.
    pub examples: Vec<String>,
}

impl FailureCounts {
    /// Examples kept.
    pub const EXAMPLES: usize = 5;

    /// Adds those of another generator or client.
    pub fn add(&mut self, other: &FailureCounts) {
        self.not_done += other.not_done;
        self.unknown += other.unknown;
        self.expired += other.expired;
        self.bad_answers += other.bad_answers;
        let room = Self::EXAMPLES.saturating_sub(self.examples.len());
        self.examples.extend(other.examples.iter().take(room).cloned());
    }
}

/// The settings a run was made with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSettings {
    /// The load client's, all of them.
    pub client: Value,
    /// Those of the cluster file, defaults included.
    pub cluster: Value,
    /// What the replicas say theirs are, one item for all that say the same: `{"replicas": [ids], "settings": {...}}`.
    pub replicas: Value,
}

/// The result of a run, or of several clients' runs together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// Which experiment.
    pub experiment: String,
    /// The consensus protocol.
    pub protocol: String,
    /// Replicas in the cluster.
    pub replicas: usize,
    /// Whether what was acknowledged survives the processes.
    pub durable: Option<bool>,
    /// When the replicas' logs are synced: `always` or `never`; null if nothing is durable.
    #[serde(default)]
    pub wal_sync: Option<String>,
    /// Whether the figures may be quoted.
    pub valid: bool,
    /// Why not.
    pub invalid_because: Vec<String>,
    /// Whether the run was ended early by its user.
    pub interrupted: bool,
    /// Transactions answered `Ok` a second.
    pub throughput_per_s: f64,
    /// Batches answered `Ok` a second.
    pub batches_per_s: f64,
    /// What `latency_ms` is the latency of.
    pub latency_unit: String,
    /// Latency of a batch.
    pub latency_ms: LatencyMs,
    /// Batches in flight, the mean of samples every 10 ms; pauses after refusals count, and with a rate those that were due and had
    /// not been sent.
    pub in_flight_mean: f64,
    /// How far that mean may be off by chance: its standard error.
    pub in_flight_standard_error: f64,
    /// `in_flight_mean` divided by (`batches_per_s` times mean latency): 1 by Little's law.
    pub little_law_ratio: Option<f64>,
    /// Time of a sync: of the slowest replica's log in the run where logs are synced, else of 4 KiB by a probe before it.
    pub fsync_ms: Option<MedianAndTailMs>,
    /// Round trips between replicas in the measurement, by the leader's heartbeats: also how late heartbeats and votes were handled.
    pub rtt_ms: Option<RoundTripMs>,
    /// Batches that the leader put into its log at a time, the mean.
    pub leader_batch_mean: Option<f64>,
    /// Syncs of all replicas per transaction executed.
    pub fsyncs_per_write: Option<f64>,
    /// Processor time of all replicas and the load clients per transaction, in microseconds.
    pub cpu_us_per_transaction: Option<f64>,
    /// The leader's part of it.
    pub leader_cpu_us_per_transaction: Option<f64>,
    /// One follower's part of it, their mean.
    pub follower_cpu_us_per_transaction: Option<f64>,
    /// The load clients' part of it.
    pub client_cpu_us_per_transaction: Option<f64>,
    /// System calls that read or write a connection, of all replicas and the load clients, per 1,000 transactions.
    pub socket_calls_per_1000_transactions: Option<f64>,
    /// The leader's part of it.
    pub leader_socket_calls_per_1000_transactions: Option<f64>,
    /// One follower's part of it, their mean.
    pub follower_socket_calls_per_1000_transactions: Option<f64>,
    /// The load clients' part of it.
    pub client_socket_calls_per_1000_transactions: Option<f64>,
    /// Times that the replicas' core threads had nothing to do and waited in the kernel, over all replicas, per 1,000 transactions.
    pub parks_per_1000_transactions: Option<f64>,
    /// Frames between replicas per batch, each counted where it is sent and where it is received.
    pub messages_per_batch: Option<f64>,
    /// Transactions answered `Ok` in the measurement.
    pub accepted: u64,
    /// Attempts refused (`Busy`, `NotLeader`) since the measurement began.
    pub refused: u64,
    /// Attempts beyond the first since the measurement began.
    pub retried: u64,
    /// Batches that ended otherwise than `Ok`, over the whole run.
    pub errors: u64,
    /// How they ended.
    pub failures: FailureCounts,
    /// Times without any answer, longer than 200 ms.
    pub gaps_ms: Vec<Gap>,
    /// Times another replica than before proved to lead, over the whole run.
    pub leader_changes: u64,
    /// How reads were served; null if there were none.
    pub reads: Option<String>,
    /// With a rate: transactions that were due in the measurement and had not been sent when it ended.
    pub unsent: Option<u64>,
    /// Length of the measurement, in seconds.
    pub duration_s: f64,
    /// Length of the warm-up before it, in seconds.
    pub warm_up_s: f64,
    /// Load clients whose results these are.
    pub clients: usize,
    /// What a reader of the figures should know.
    pub notes: Vec<String>,
    /// Load average.
    pub load_average: LoadAverage,
    /// The load client's machine.
    pub host: HostFacts,
    /// Version of the load client.
    pub version: String,
    /// Commit the replicas (or the load client) were built from.
    pub commit: Option<String>,
    /// When the measurement began, in milliseconds of Unix time.
    pub started_unix_ms: u64,
    /// Why each null is null.
    pub null_because: BTreeMap<String, String>,
    /// Settings.
    pub settings: RunSettings,
    /// What each replica did during the measurement.
    pub replica_figures: Vec<ReplicaFigures>,
    /// The exact sum of the latencies, in microseconds.
    pub latency_sum_us: f64,
    /// Latencies as [microseconds, batches].
    pub histogram_us: Vec<(u64, u64)>,
}
