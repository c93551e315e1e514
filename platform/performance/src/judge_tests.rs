use super::*;
use crate::derived::{ClientUse, derive_from_replicas};
use crate::host::HostFacts;
use crate::replicas::ReplicaFigures;
use crate::result::{FailureCounts, LoadAverage, MedianAndTailMs, RunSettings};
use crate::round_trips::RoundTripMs;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A sound result of `batches` batches of 10 ms each, `window` in flight.
pub(crate) fn sound(batches: u64, window: f64) -> LoadResult {
    let histogram = histogram_of(&[(10_000, batches)]);
    let sum_us = batches as f64 * 10_000.0;
    let figures = |id, is_leader| {
        let counters = |executed: u64| {
            [
                ("transactions_executed", executed),
                ("entries_appended", executed / 100),
                ("groups_appended", executed / 500),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
        };
        let mut figures = ReplicaFigures {
            id,
            is_leader,
            led_throughout: is_leader,
            reachable_at_start: true,
            reachable_at_end: true,
            counters_at_start: counters(0),
            counters_at_end: counters(batches * 100),
            cpu_us_at: Some((0, batches * 50)),
            ..ReplicaFigures::default()
        };
        figures.derive();
        figures
    };
    let mut result = LoadResult {
        experiment: "load".into(),
        protocol: "raft".into(),
        replicas: 2,
        durable: Some(false),
        wal_sync: None,
        valid: false,
        invalid_because: Vec::new(),
        interrupted: false,
        throughput_per_s: batches as f64 * 10.0,
        batches_per_s: batches as f64 / 10.0,
        latency_unit: "one batch of 100 transactions".into(),
        latency_ms: latencies(&histogram, sum_us).unwrap(),
        in_flight_mean: window,
        in_flight_standard_error: 0.0,
        little_law_ratio: None,
        fsync_ms: Some(MedianAndTailMs { p50: 0.1, p99: 0.2 }),
        rtt_ms: Some(RoundTripMs { p50: 0.1, p99: 0.2, p99_9: Some(0.3), max: Some(0.4), count: 400 }),
        leader_batch_mean: None,
        fsyncs_per_write: None,
        cpu_us_per_transaction: None,
        leader_cpu_us_per_transaction: None,
        follower_cpu_us_per_transaction: None,
        client_cpu_us_per_transaction: None,
        socket_calls_per_1000_transactions: None,
        leader_socket_calls_per_1000_transactions: None,
        follower_socket_calls_per_1000_transactions: None,
        client_socket_calls_per_1000_transactions: None,
        parks_per_1000_transactions: None,
        messages_per_batch: None,
        accepted: batches * 100,
        refused: 0,
        retried: 0,
        errors: 0,
        failures: FailureCounts::default(),
        gaps_ms: Vec::new(),
        leader_changes: 0,
        reads: None,
        unsent: None,
        duration_s: 10.0,
        warm_up_s: 2.0,
        clients: 1,
        notes: Vec::new(),
        load_average: LoadAverage::default(),
        host: HostFacts::default(),
        version: "0".into(),
        commit: None,
        started_unix_ms: 1_000_000,
        null_because: BTreeMap::new(),
        settings: RunSettings { client: json!({ "window": window }), cluster: Value::Null, replicas: Value::Null },
        replica_figures: vec![figures(1, true), figures(2, false)],
        latency_sum_us: sum_us,
        histogram_us: histogram_to_list(&histogram),
    };
    derive_from_replicas(&mut result, ClientUse { cpu_us: batches as f64 * 20.0, socket_calls: Some(batches as f64) });
    judge(&mut result);
    result
}

fn reasons(change: impl FnOnce(&mut LoadResult)) -> Vec<String> {
    let mut result = sound(64_000, 64.0);
    change(&mut result);
    judge(&mut result);
    assert_eq!(result.valid, result.invalid_because.is_empty());
    result.invalid_because
}

#[test]
fn a_sound_result_is_valid_and_says_what_follows_from_the_replicas() {
    let result = sound(64_000, 64.0);
    assert_eq!(result.invalid_because, Vec::<String>::new());
    assert!(result.valid);
    assert_eq!(result.little_law_ratio, Some(1.0));
    assert_eq!(result.leader_batch_mean, Some(5.0));
    // 0.5 µs on each of two replicas and 0.2 µs of the client.
    assert!((result.cpu_us_per_transaction.unwrap() - 1.2).abs() < 1e-9);
    assert_eq!(result.fsyncs_per_write, None);
    assert_eq!(result.null_because["fsyncs_per_write"], "recovery is off: nothing is synced");
}

#[test]
fn littles_law_may_be_missed_by_a_tenth_and_no_more() {
    assert_eq!(reasons(|result| result.in_flight_mean = 70.0), Vec::<String>::new());
    for in_flight in [71.0, 57.0, 0.064, 64_000.0] {
        let reasons = reasons(|result| result.in_flight_mean = in_flight);
        assert!(matches!(&reasons[..], [reason] if reason.starts_with("Little's law fails")), "{reasons:?}");
    }
}

#[test]
fn few_samples_of_an_idle_load_are_not_held_against_it_but_wrong_units_are() {
    let idle = |in_flight| {
        move |result: &mut LoadResult| {
            (result.batches_per_s, result.in_flight_mean, result.in_flight_standard_error) = (50.0, in_flight, 0.05);
        }
    };
    assert_eq!(reasons(idle(0.4)), Vec::<String>::new());
    assert_eq!(reasons(idle(0.000_5)).len(), 1);
    assert_eq!(reasons(idle(500.0)).len(), 1);
}

#[test]
fn each_thing_that_spoils_a_result_is_named() {
    type Spoil = fn(&mut LoadResult);
    let cases: [(&str, Spoil); 9] = [
        ("2 batches failed: why", |result| (result.errors, result.failures.examples) = (2, vec!["why".into()])),
        ("durable is null: unknown", |result| result.durable = None),
        ("fsync_ms is null: no disk", |result| {
            result.fsync_ms = None;
            result.null_because.insert("fsync_ms".into(), "no disk".into());
        }),
        ("rtt_ms is null: unknown", |result| result.rtt_ms = None),
        ("replica 2 was not reachable at the end", |result| result.replica_figures[1].reachable_at_end = false),
        ("replica 1 was not counted by the others: its incarnation is not bound", |result| {
            result.replica_figures[0].is_unbound = true;
        }),
        ("replica 1 was restarted during the measurement", |result| result.replica_figures[0].restarted = true),
        ("ended early by its user after 10.0 s", |result| result.interrupted = true),
        ("the rate was not kept: 100000 transactions were due and not sent at the end", |result| {
            result.unsent = Some(100_000);
        }),
    ];
    for (reason, spoil) in cases {
        assert_eq!(reasons(spoil), [reason]);
    }
    assert_eq!(
        reasons(|result| result.unsent = Some(1)),
        Vec::<String>::new(),
        "one transaction more or less is no failure"
    );
}

#[test]
fn a_durable_result_must_say_what_is_synced_and_how_often() {
    let durable = |wal_sync: Option<&str>, syncs: Option<f64>| {
        let wal_sync = wal_sync.map(str::to_owned);
        reasons(move |result| {
            (result.durable, result.wal_sync, result.fsyncs_per_write) = (Some(true), wal_sync, syncs);
            result.null_because.insert("fsyncs_per_write".into(), "no counter".into());
        })
    };
    assert_eq!(durable(Some("always"), Some(0.1)), Vec::<String>::new());
    assert_eq!(durable(Some("never"), Some(0.0)), Vec::<String>::new());
    assert_eq!(durable(None, Some(0.1)), ["wal_sync is null: unknown"]);
    assert_eq!(durable(Some("always"), None), ["fsyncs_per_write is null: no counter"]);
    let unsynced = "wal_sync is always, and no replica synced anything during the measurement";
    assert_eq!(durable(Some("always"), Some(0.0)), [unsynced]);
}

#[test]
fn a_replica_that_is_meant_to_be_down_spoils_nothing() {
    let reasons = reasons(|result| {
        result.replica_figures[1].reachable_at_end = false;
        result.settings.client = json!({ "expect_down": [2] });
    });
    assert_eq!(reasons, Vec::<String>::new());
}

#[test]
fn a_cluster_of_one_needs_no_round_trip() {
    let reasons = reasons(|result| (result.replicas, result.rtt_ms) = (1, None));
    assert_eq!(reasons, Vec::<String>::new());
}

#[test]
fn no_sample_is_never_a_zero() {
    assert_eq!(latencies(&histogram_of(&[]), 0.0), None);
    assert_eq!(little_law_ratio(1.0, 0.0, 5.0), None);
    let reasons = reasons(|result| (result.accepted, result.batches_per_s) = (0, 0.0));
    assert_eq!(reasons.len(), 2, "{reasons:?}");
}

#[test]
fn a_histogram_survives_its_list() {
    let mut histogram = latency_histogram();
    for value in [1, 75, 76, 2_047, 2_049, 123_457, 59_999_999, 3_600_000_000] {
        histogram.saturating_record_n(value, value % 7 + 1);
    }
    assert_eq!(histogram_of(&histogram_to_list(&histogram)), histogram);
}
