//! Whether a result may be quoted, and what follows from its parts.

use crate::derived::is_expected_down;
use crate::recording::latency_histogram;
use crate::result::{LatencyMs, LoadResult};
use hdrhistogram::Histogram;

/// How far Little's law may be missed, beside what the sampling of what is in flight explains.
pub const LITTLE_TOLERANCE: f64 = 0.1;
/// Standard errors that chance explains. Of a busy window they are nothing; of a load that is mostly idle, a few samples say little.
const STANDARD_ERRORS: f64 = 3.0;
/// Share of the transactions due that may be unsent at the end of an open loop.
const UNSENT_SHARE_MAX: f64 = 0.01;

/// The latencies of a histogram in milliseconds; none if it is empty: no sample is never a zero.
#[must_use]
pub fn latencies(histogram: &Histogram<u64>, sum_us: f64) -> Option<LatencyMs> {
    if histogram.is_empty() {
        return None;
    }
    let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1_000.0;
    Some(LatencyMs {
        mean: sum_us / histogram.len() as f64 / 1_000.0,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p99_9: at(0.999),
        max: histogram.max() as f64 / 1_000.0,
    })
}

/// A histogram as [microseconds, batches].
#[must_use]
pub fn histogram_to_list(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    histogram.iter_recorded().map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value())).collect()
}

/// Adds [microseconds, batches] to a histogram.
pub fn add_list(histogram: &mut Histogram<u64>, list: &[(u64, u64)]) {
    list.iter().for_each(|(value, count)| histogram.saturating_record_n(*value, *count));
}

/// The histogram of a list.
#[must_use]
pub fn histogram_of(list: &[(u64, u64)]) -> Histogram<u64> {
    let mut histogram = latency_histogram();
    add_list(&mut histogram, list);
    histogram
}

/// What is in flight by Little's law, against what was.
#[must_use]
pub fn little_law_ratio(in_flight_mean: f64, batches_per_s: f64, latency_mean_ms: f64) -> Option<f64> {
    let by_law = batches_per_s * latency_mean_ms / 1_000.0;
    (by_law > 0.0).then(|| in_flight_mean / by_law)
}

fn little_law_fails(result: &LoadResult, ratio: f64) -> bool {
    let by_law = result.in_flight_mean / ratio;
    let chance = STANDARD_ERRORS * result.in_flight_standard_error;
    (result.in_flight_mean - by_law).abs() > LITTLE_TOLERANCE * by_law + chance
}

/// Works out Little's law and judges the result: fills in `valid` and adds to `invalid_because`.
pub fn judge(result: &mut LoadResult) {
    result.little_law_ratio = little_law_ratio(result.in_flight_mean, result.batches_per_s, result.latency_ms.mean);
    let mut reasons = std::mem::take(&mut result.invalid_because);
    let mut add = |reason: String| {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    };
    if result.accepted == 0 {
        add("no transaction was answered".to_owned());
    }
    if result.errors > 0 {
        let examples = result.failures.examples.join("; ");
        add(format!("{} batches failed: {examples}", result.errors));
    }
    match result.little_law_ratio {
        None => add("Little's law cannot be checked: there is no throughput".to_owned()),
        Some(ratio) if little_law_fails(result, ratio) => add(format!(
            "Little's law fails: {:.2} batches in flight are {ratio:.3} times what throughput and latency need",
            result.in_flight_mean
        )),
        Some(_) => {}
    }
    let facts = [
        ("durable", result.durable.is_none()),
        ("fsync_ms", result.fsync_ms.is_none()),
        ("rtt_ms", result.rtt_ms.is_none() && result.replicas > 1),
    ];
    for (fact, is_null) in facts {
        if is_null {
            let reason = result.null_because.get(fact).map_or("unknown", String::as_str);
            add(format!("{fact} is null: {reason}"));
        }
    }
    if result.durable == Some(true) {
        judge_syncs(result, &mut add);
    }
    for replica in &result.replica_figures {
        if !replica.reachable_at_end && !is_expected_down(&result.settings.client, replica.id) {
            add(format!("replica {} was not reachable at the end", replica.id));
        }
        if replica.is_unbound {
            add(format!("replica {} was not counted by the others: its incarnation is not bound", replica.id));
        }
        if replica.restarted {
            add(format!("replica {} was restarted during the measurement", replica.id));
        }
    }
    if result.interrupted {
        add(format!("ended early by its user after {:.1} s", result.duration_s));
    }
    if let Some(unsent) = result.unsent
        && unsent as f64 > UNSENT_SHARE_MAX * (unsent + result.accepted) as f64
    {
        add(format!("the rate was not kept: {unsent} transactions were due and not sent at the end"));
    }
    result.valid = reasons.is_empty();
    result.invalid_because = reasons;
}

/// A durable figure is worth nothing without knowing what was synced, and how often.
fn judge_syncs(result: &LoadResult, add: &mut impl FnMut(String)) {
    let reason = |fact: &str| result.null_because.get(fact).map_or("unknown", String::as_str).to_owned();
    match (result.wal_sync.as_deref(), result.fsyncs_per_write) {
        (None, _) => add(format!("wal_sync is null: {}", reason("wal_sync"))),
        (_, None) => add(format!("fsyncs_per_write is null: {}", reason("fsyncs_per_write"))),
        (Some("always"), Some(0.0)) => {
            add("wal_sync is always, and no replica synced anything during the measurement".to_owned());
        }
        _ => {}
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
pub(crate) mod tests;
