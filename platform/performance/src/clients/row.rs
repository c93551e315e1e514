//! One row: a number of clients.

use crate::derived::fsyncs_per_write_of_each;
use crate::result::{LoadResult, MedianAndTailMs};
use crate::wal::MedianAndRange;
use serde::Serialize;
use std::collections::BTreeMap;

/// Throughput by the model of commit rounds: how many rounds a second, and how many writes in each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RoundModel {
    /// Groups of entries that the leader put into its log a second, by its own count.
    pub rounds_per_s: f64,
    /// Entries of such a group, the mean.
    pub batch_mean: f64,
    /// Their product: writes a second as the model has it.
    pub writes_per_s: f64,
    /// What the clients measured, divided by that: 1 if the model holds.
    pub measured_ratio: f64,
    /// Rounds on their way at the same time: rounds a second times a round's least time, which is a sync (where logs are synced) and a
    /// round trip. 1 is a round after the other.
    pub overlap: Option<f64>,
    /// Clients divided by throughput, in milliseconds: the mean latency by Little's law.
    pub latency_by_little_ms: f64,
}

/// One row. Its figures are those of the run with the median throughput.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientsRow {
    /// Clients, each with one write in flight.
    pub clients: u64,
    /// Connections that they share.
    pub connections: usize,
    /// Writes answered `Ok` a second: of all runs.
    pub writes_per_s: MedianAndRange,
    /// Median latency of a write.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Entries that the leader put into its log at a time.
    pub leader_batch_mean: Option<f64>,
    /// Syncs per write over all replicas.
    pub fsyncs_per_write: Option<f64>,
    /// Syncs of each replica per write, by its id.
    pub fsyncs_per_write_of: BTreeMap<u32, Option<f64>>,
    /// Records that a group of the log held on average, by replica: below 1 there would be syncs of nothing.
    pub records_per_group_of: BTreeMap<u32, Option<f64>>,
    /// Syncs of the log, or of the probe where logs are not synced.
    pub fsync_ms: Option<MedianAndTailMs>,
    /// Median round trip between replicas.
    pub rtt_p50_ms: Option<f64>,
    /// The model of commit rounds; null if the leader's counts are missing.
    pub model: Option<RoundModel>,
    /// Whether the figures may be quoted.
    pub valid: bool,
    /// The whole result of that run.
    pub result: LoadResult,
}

impl ClientsRow {
    /// Of at least one run.
    pub(super) fn new(clients: u64, connections: usize, mut runs: Vec<LoadResult>) -> ClientsRow {
        runs.sort_unstable_by(|one, other| one.throughput_per_s.total_cmp(&other.throughput_per_s));
        let writes_per_s = MedianAndRange::of(runs.iter().map(|run| run.throughput_per_s).collect());
        let valid = runs.iter().all(|run| run.valid);
        let result = runs.swap_remove((runs.len() - 1) / 2);
        ClientsRow {
            clients,
            connections,
            writes_per_s,
            p50_ms: result.latency_ms.p50,
            p99_ms: result.latency_ms.p99,
            leader_batch_mean: result.leader_batch_mean,
            fsyncs_per_write: result.fsyncs_per_write,
            fsyncs_per_write_of: match result.durable {
                Some(true) => fsyncs_per_write_of_each(&result.replica_figures),
                _ => BTreeMap::new(),
            },
            records_per_group_of: records_per_group(&result),
            fsync_ms: result.fsync_ms,
            rtt_p50_ms: result.rtt_ms.map(|times| times.p50),
            model: model(clients, &result),
            valid,
            result,
        }
    }
}

fn records_per_group(result: &LoadResult) -> BTreeMap<u32, Option<f64>> {
    if result.durable != Some(true) {
        return BTreeMap::new();
    }
    let mut all = BTreeMap::new();
    for replica in &result.replica_figures {
        let growth = |counter: &str| replica.counter_growth.get(counter).map(|growth| *growth as f64);
        let groups = growth("wal_groups").filter(|groups| *groups > 0.0);
        all.insert(replica.id, growth("wal_records").zip(groups).map(|(records, groups)| records / groups));
    }
    all
}

fn model(clients: u64, result: &LoadResult) -> Option<RoundModel> {
    let leader = result.replica_figures.iter().find(|replica| replica.led_throughout)?;
    let rounds = *leader.counter_growth.get("groups_appended")? as f64;
    let batch_mean = result.leader_batch_mean?;
    let rounds_per_s = rounds / result.duration_s;
    let writes_per_s = rounds_per_s * batch_mean;
    let sync_ms = match result.wal_sync.as_deref() {
        Some("always") => result.fsync_ms.map(|times| times.p50),
        _ => Some(0.0),
    };
    let round_trip_ms = result.rtt_ms.map_or(0.0, |times| times.p50);
    let round_ms = sync_ms.map(|sync_ms| sync_ms + round_trip_ms).filter(|round_ms| *round_ms > 0.0);
    Some(RoundModel {
        rounds_per_s,
        batch_mean,
        writes_per_s,
        measured_ratio: result.throughput_per_s / writes_per_s,
        overlap: round_ms.map(|round_ms| rounds_per_s * round_ms / 1_000.0),
        latency_by_little_ms: clients as f64 / result.throughput_per_s * 1_000.0,
    })
}
