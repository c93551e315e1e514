//! The results of several clients that loaded one cluster at the same time, as one result.

use crate::derived::{ClientUse, derive_from_replicas};
use crate::gaps::{Gap, common_gaps};
use crate::judge::{add_list, histogram_to_list, judge, latencies};
use crate::recording::latency_histogram;
use crate::replicas::ReplicaFigures;
use crate::result::LoadResult;
use serde_json::Value;
use std::collections::BTreeMap;
use thiserror::Error;

/// How far apart the measurements of one merged result may begin, as a share of their length.
const START_SPREAD_MAX: f64 = 0.2;

/// Results that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MergeError {
    /// Nothing to merge.
    #[error("no result was given")]
    Nothing,
    /// They are not of one experiment on one cluster.
    #[error("{first} and {second} are not of one run: {what} differs ({first_value} and {second_value})")]
    Different {
        /// A result's name.
        first: String,
        /// Another one's.
        second: String,
        /// What differs.
        what: &'static str,
        /// Its value in the first.
        first_value: String,
        /// Its value in the second.
        second_value: String,
    },
    /// No batch was answered in any of them.
    #[error("no samples in any of the results")]
    NoSamples,
}

/// Makes one result of several, each with its name in messages. Throughput and counts are summed, histograms merged, the replicas'
/// figures (all clients saw the same replicas) span the earliest start and the latest end, and all is judged again.
///
/// # Errors
/// [`MergeError`].
pub fn merge(parts: &[(String, LoadResult)]) -> Result<LoadResult, MergeError> {
    let Some(((first_name, first), rest)) = parts.split_first() else { return Err(MergeError::Nothing) };
    for (name, part) in rest {
        check_same(first_name, first, name, part)?;
    }
    let results = || parts.iter().map(|(_, result)| result);
    let mut histogram = latency_histogram();
    results().for_each(|result| add_list(&mut histogram, &result.histogram_us));
    let mut merged = first.clone();
    merged.latency_sum_us = results().map(|result| result.latency_sum_us).sum();
    merged.latency_ms = latencies(&histogram, merged.latency_sum_us).ok_or(MergeError::NoSamples)?;
    merged.histogram_us = histogram_to_list(&histogram);
    merged.throughput_per_s = results().map(|result| result.throughput_per_s).sum();
    merged.batches_per_s = results().map(|result| result.batches_per_s).sum();
    merged.in_flight_mean = results().map(|result| result.in_flight_mean).sum();
    let variance = |result: &LoadResult| result.in_flight_standard_error.powi(2);
    merged.in_flight_standard_error = results().map(variance).sum::<f64>().sqrt();
    merged.accepted = results().map(|result| result.accepted).sum();
    merged.refused = results().map(|result| result.refused).sum();
    merged.retried = results().map(|result| result.retried).sum();
    merged.errors = results().map(|result| result.errors).sum();
    merged.clients = results().map(|result| result.clients).sum();
    merged.leader_changes = results().map(|result| result.leader_changes).max().unwrap_or(0);
    merged.unsent = results().filter_map(|result| result.unsent).reduce(|sum, unsent| sum + unsent);
    merged.interrupted = results().any(|result| result.interrupted);
    merged.duration_s = results().map(|result| result.duration_s).fold(0.0, f64::max);
    merged.started_unix_ms = results().map(|result| result.started_unix_ms).min().unwrap_or(0);
    merged.failures = Default::default();
    results().for_each(|result| merged.failures.add(&result.failures));
    merged.gaps_ms = gaps(parts, merged.started_unix_ms);
    merged.replica_figures = replica_figures(parts);
    merged.settings.client = client_settings(parts);
    for (_, part) in rest {
        merged.notes.extend(part.notes.iter().filter(|note| !merged.notes.contains(note)).cloned().collect::<Vec<_>>());
    }
    let cpu_us = |result: &LoadResult| Some(result.client_cpu_us_per_transaction? * result.accepted as f64);
    let calls = |result: &LoadResult| {
        Some(result.client_socket_calls_per_1000_transactions? / 1_000.0 * result.accepted as f64)
    };
    let client = ClientUse { cpu_us: results().filter_map(cpu_us).sum(), socket_calls: results().map(calls).sum() };
    derive_from_replicas(&mut merged, client);
    merged.invalid_because = reasons(parts);
    judge(&mut merged);
    Ok(merged)
}

fn check_same(first_name: &str, first: &LoadResult, name: &str, part: &LoadResult) -> Result<(), MergeError> {
    let identity = |result: &LoadResult| {
        let batch = &result.settings.client["batch"];
        let cluster = &result.settings.cluster["cluster_id"];
        [
            ("experiment", result.experiment.clone()),
            ("protocol", result.protocol.clone()),
            ("replicas", result.replicas.to_string()),
            ("durable", format!("{:?}", result.durable)),
            ("wal_sync", format!("{:?}", result.wal_sync)),
            ("cluster_id", cluster.to_string()),
            ("batch", batch.to_string()),
        ]
    };
    for ((what, first_value), (_, second_value)) in identity(first).into_iter().zip(identity(part)) {
        if first_value != second_value {
            let (first, second) = (first_name.to_owned(), name.to_owned());
            return Err(MergeError::Different { first, second, what, first_value, second_value });
        }
    }
    Ok(())
}

/// What was wrong with a part is wrong with the whole.
fn reasons(parts: &[(String, LoadResult)]) -> Vec<String> {
    let mut reasons = Vec::new();
    for (name, part) in parts {
        reasons.extend(part.invalid_because.iter().map(|reason| format!("{name}: {reason}")));
        if !part.valid && part.invalid_because.is_empty() {
            reasons.push(format!("{name}: not valid"));
        }
    }
    let starts = parts.iter().map(|(_, part)| part.started_unix_ms);
    let (earliest, latest) = (starts.clone().min().unwrap_or(0), starts.max().unwrap_or(0));
    let shortest = parts.iter().map(|(_, part)| part.duration_s).fold(f64::INFINITY, f64::min);
    let spread_s = (latest - earliest) as f64 / 1_000.0;
    if spread_s > START_SPREAD_MAX * shortest {
        reasons.push(format!("the clients did not measure at the same time: they began {spread_s:.1} s apart"));
    }
    reasons
}

fn gaps(parts: &[(String, LoadResult)], zero_unix_ms: u64) -> Vec<Gap> {
    let shifted = |result: &LoadResult| {
        let shift = (result.started_unix_ms - zero_unix_ms) as f64;
        result.gaps_ms.iter().map(|gap| Gap { start_ms: gap.start_ms + shift, ..*gap }).collect::<Vec<_>>()
    };
    common_gaps(&parts.iter().map(|(_, part)| shifted(part)).collect::<Vec<_>>())
}

fn replica_figures(parts: &[(String, LoadResult)]) -> Vec<ReplicaFigures> {
    let mut merged = BTreeMap::<u32, ReplicaFigures>::new();
    for figures in parts.iter().flat_map(|(_, part)| &part.replica_figures) {
        let Some(known) = merged.get_mut(&figures.id) else {
            merged.insert(figures.id, figures.clone());
            continue;
        };
        known.reachable_at_start &= figures.reachable_at_start;
        known.reachable_at_end &= figures.reachable_at_end;
        known.restarted |= figures.restarted;
        known.is_unbound |= figures.is_unbound;
        for (name, value) in &figures.counters_at_start {
            known
                .counters_at_start
                .entry(name.clone())
                .and_modify(|least| *least = (*least).min(*value))
                .or_insert(*value);
        }
        for (name, value) in &figures.counters_at_end {
            known.counters_at_end.entry(name.clone()).and_modify(|most| *most = (*most).max(*value)).or_insert(*value);
        }
        known.cpu_us_at = match (known.cpu_us_at, figures.cpu_us_at) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
        known.resident_bytes = known.resident_bytes.max(figures.resident_bytes);
        known.led_throughout &= figures.led_throughout;
        known.threads = known.threads.max(figures.threads);
        match (&mut known.rss_mib, &figures.rss_mib) {
            (Some(one), Some(other)) => one.merge(other),
            (one, other) => *one = one.or(*other),
        }
    }
    merged.values_mut().for_each(ReplicaFigures::derive);
    merged.into_values().collect()
}

/// Totals of what is split over the clients, and each client's own settings.
fn client_settings(parts: &[(String, LoadResult)]) -> Value {
    let mut settings = parts[0].1.settings.client.clone();
    let of = |key: &'static str| parts.iter().map(move |(_, part)| part.settings.client[key].clone());
    for key in ["window", "connections", "threads", "sessions", "rate_per_s"] {
        let whole: Option<u64> = of(key).map(|value| value.as_u64()).sum();
        let real: Option<f64> = of(key).map(|value| value.as_f64()).sum();
        match (whole, real) {
            (Some(whole), _) => settings[key] = whole.into(),
            (None, Some(real)) => settings[key] = real.into(),
            (None, None) => {}
        }
    }
    settings["of_each_client"] = parts.iter().map(|(_, part)| part.settings.client.clone()).collect();
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::histogram_of;
    use crate::judge::tests::sound;
    use crate::memory::RssMib;

    fn named(results: &[LoadResult]) -> Vec<(String, LoadResult)> {
        let name = |number: usize| format!("client-{}.json", number + 1);
        results.iter().cloned().enumerate().map(|(number, result)| (name(number), result)).collect()
    }

    /// A result of these latencies over ten seconds.
    fn of(latencies_us: &[u64]) -> LoadResult {
        let mut result = sound(latencies_us.len() as u64, 1.0);
        let list: Vec<(u64, u64)> = latencies_us.iter().map(|value| (*value, 1)).collect();
        let histogram = histogram_of(&list);
        result.histogram_us = histogram_to_list(&histogram);
        result.latency_sum_us = latencies_us.iter().sum::<u64>() as f64;
        result.latency_ms = latencies(&histogram, result.latency_sum_us).unwrap();
        result.in_flight_mean = result.batches_per_s * result.latency_ms.mean / 1_000.0;
        result.invalid_because.clear();
        judge(&mut result);
        result
    }

    #[test]
    fn a_merged_result_is_what_one_client_would_have_measured() {
        let (left, right) = (vec![100, 2_000, 30_000, 41], vec![77, 500_000, 2_000]);
        let union = of(&[left.clone(), right.clone()].concat());
        let merged = merge(&named(&[of(&left), of(&right)])).unwrap();
        assert_eq!(merged.histogram_us, union.histogram_us);
        assert_eq!(merged.latency_ms, union.latency_ms);
        assert_eq!(merged.accepted, union.accepted);
        assert!((merged.throughput_per_s - union.throughput_per_s).abs() < 1e-9);
        assert!((merged.batches_per_s - union.batches_per_s).abs() < 1e-9);
        assert!((merged.in_flight_mean - union.in_flight_mean).abs() < 1e-9);
        assert_eq!((merged.valid, merged.clients), (true, 2), "{:?}", merged.invalid_because);
        assert!((merged.little_law_ratio.unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn replicas_are_counted_once_over_the_longest_span_and_totals_are_sums() {
        let (mut first, mut second) = (sound(1_000, 8.0), sound(1_000, 8.0));
        for (part, start, end) in [(&mut first, 500, 2_500), (&mut second, 400, 2_400)] {
            let figures = &mut part.replica_figures[0];
            figures.counters_at_start.insert("transactions_executed".into(), start);
            figures.counters_at_end.insert("transactions_executed".into(), end);
            figures.cpu_us_at = Some((start, end));
        }
        let merged = merge(&named(&[first, second])).unwrap();
        assert_eq!(merged.replica_figures.len(), 2);
        assert_eq!((merged.replica_figures[0].executed, merged.replica_figures[0].cpu_us), (Some(2_100), Some(2_100)));
        assert_eq!(merged.settings.client["window"], 16.0);
        assert_eq!(merged.settings.client["of_each_client"][1]["window"], 8.0);
        assert_eq!(merged.accepted, 200_000);
    }

    #[test]
    fn a_part_that_is_not_valid_spoils_the_whole_and_littles_law_is_checked_again() {
        let (good, mut bad) = (sound(64_000, 64.0), sound(64_000, 64.0));
        bad.errors = 1;
        judge(&mut bad);
        let merged = merge(&named(&[good.clone(), bad])).unwrap();
        assert!(!merged.valid);
        assert!(merged.invalid_because.iter().any(|reason| reason.starts_with("client-2.json: 1 batches failed")));
        let mut lying = sound(64_000, 64.0);
        lying.in_flight_mean = 640.0;
        let merged = merge(&named(&[good, lying])).unwrap();
        assert!(merged.invalid_because[0].starts_with("Little's law fails"), "{:?}", merged.invalid_because);
    }

    #[test]
    fn costs_by_role_and_memory_are_those_of_the_whole_and_a_part_without_a_count_leaves_none() {
        let with = |memory: RssMib, calls: Option<f64>| {
            let mut result = sound(64_000, 64.0);
            result.replica_figures[0].rss_mib = Some(memory);
            result.client_socket_calls_per_1000_transactions = calls;
            result
        };
        let first = with(RssMib { start: 10.0, end: 30.0, max: 30.0 }, Some(2.0));
        let mut second = with(RssMib { start: 11.0, end: 31.0, max: 44.0 }, Some(4.0));
        let merged = merge(&named(&[first.clone(), second.clone()])).unwrap();
        let close = |figure: Option<f64>, expected: f64| figure.is_some_and(|figure| (figure - expected).abs() < 1e-9);
        assert!(close(merged.leader_cpu_us_per_transaction, 0.5), "{:?}", merged.leader_cpu_us_per_transaction);
        assert!(close(merged.client_socket_calls_per_1000_transactions, 3.0));
        assert_eq!(merged.replica_figures[0].rss_mib, Some(RssMib { start: 10.0, end: 30.0, max: 44.0 }));
        assert!(merged.replica_figures[0].led_throughout);
        second.replica_figures[0].led_throughout = false;
        second.client_socket_calls_per_1000_transactions = None;
        let merged = merge(&named(&[first, second])).unwrap();
        assert_eq!(
            (merged.leader_cpu_us_per_transaction, merged.client_socket_calls_per_1000_transactions),
            (None, None)
        );
        let reason = &merged.null_because["client_socket_calls_per_1000_transactions"];
        assert_eq!(reason, "a client did not count its system calls");
    }

    #[test]
    fn results_of_different_runs_are_not_merged() {
        let (first, mut second) = (sound(64_000, 64.0), sound(64_000, 64.0));
        second.replicas = 3;
        let error = merge(&named(&[first.clone(), second])).unwrap_err().to_string();
        assert_eq!(error, "client-1.json and client-2.json are not of one run: replicas differs (2 and 3)");
        let mut late = first.clone();
        late.started_unix_ms += 8_000;
        let merged = merge(&named(&[first, late])).unwrap();
        assert_eq!(merged.invalid_because.len(), 1);
        assert!(merged.invalid_because[0].contains("8.0 s apart"), "{:?}", merged.invalid_because);
        assert_eq!(merge(&[]), Err(MergeError::Nothing));
    }

    #[test]
    fn gaps_are_those_that_all_clients_saw() {
        let (mut first, mut second) = (sound(10, 1.0), sound(10, 1.0));
        first.gaps_ms = vec![Gap { start_ms: 1_000.0, length_ms: 900.0 }, Gap { start_ms: 5_000.0, length_ms: 900.0 }];
        second.gaps_ms = vec![Gap { start_ms: 950.0, length_ms: 700.0 }];
        second.started_unix_ms += 100;
        let merged = merge(&named(&[first, second])).unwrap();
        assert_eq!(merged.gaps_ms, [Gap { start_ms: 1_050.0, length_ms: 700.0 }]);
    }
}
