//! Faults under load, on real processes.
//!
//! Figures are not asserted here: what is asserted is that the load goes on, that gaps are told, that nothing hangs, and that everybody
//! catches up.

// The workspace allows `unwrap` in tests; clippy does not see that the helpers of this file are one.
#![allow(clippy::unwrap_used)]

use quorate_cluster_tests::{Cluster, Load};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A load that the debug build and two cores carry easily; a hundred clients' worth is not the point here.
const LIGHT: [&str; 8] = ["--window", "8", "--batch", "10", "--warm-up", "0", "--deadline-ms", "20000"];

fn load(cluster: &Cluster, more: &[&str]) -> Load {
    cluster.load(&[&LIGHT[..], more].concat())
}

fn executed(cluster: &Cluster, id: u32) -> u64 {
    cluster.status(id)["positions"]["executed"].as_u64().unwrap()
}

fn wait_for_load(cluster: &Cluster, id: u32) {
    let before = executed(cluster, id);
    cluster.wait_until("the load executes", |cluster| executed(cluster, id) > before + 20);
}

/// Waits until `witness` follows another leader than `former`, and the load executes again.
fn another_leads(cluster: &Cluster, witness: u32, former: u32) {
    cluster.wait_until("another leads", |cluster| {
        cluster
            .try_status(witness)
            .is_some_and(|status| status["leader"].as_u64().is_some_and(|id| id != u64::from(former)))
    });
    wait_for_load(cluster, witness);
}

fn all_catch_up(cluster: &Cluster, ids: &[u32]) {
    cluster.wait_until("everyone has executed equally far", |cluster| {
        let positions: Vec<Option<u64>> =
            ids.iter().map(|id| cluster.try_status(*id)?["positions"]["executed"].as_u64()).collect();
        positions[0].is_some() && positions.iter().all(|position| *position == positions[0])
    });
}

#[track_caller]
fn assert_carried_on(result: &Value, code: Option<i32>) {
    assert_eq!(result["errors"], 0, "{result}");
    assert!(result["accepted"].as_u64().unwrap() > 0, "{result}");
    assert!(code == Some(0) || code == Some(3), "a run that is not valid says so; it does not fail: {code:?}");
}

#[test]
fn the_load_goes_on_past_a_leader_that_is_killed_and_its_gap_is_reported() {
    let mut cluster = Cluster::start(3, &json!({}));
    let leader = cluster.leader();
    let load = load(&cluster, &["--duration", "6", "--expect-down", &leader.to_string()]);
    wait_for_load(&cluster, leader);
    cluster.kill(leader);
    let others: Vec<u32> = (1..=3).filter(|id| *id != leader).collect();
    another_leads(&cluster, others[0], leader);
    let (code, result) = load.finish();
    assert_carried_on(&result, code);
    assert!(result["leader_changes"].as_u64().unwrap() >= 1, "{result}");
    all_catch_up(&cluster, &others);
}

#[test]
fn the_load_goes_on_past_a_leader_that_stands_still_and_its_gap_is_reported() {
    let cluster = Cluster::start(3, &json!({}));
    let leader = cluster.leader();
    let load = load(&cluster, &["--duration", "6"]);
    wait_for_load(&cluster, leader);
    cluster.signal(leader, Signal::STOP);
    let others: Vec<u32> = (1..=3).filter(|id| *id != leader).collect();
    another_leads(&cluster, others[0], leader);
    cluster.signal(leader, Signal::CONT);
    let (code, result) = load.finish();
    assert_carried_on(&result, code);
    assert!(result["leader_changes"].as_u64().unwrap() >= 1, "{result}");
    assert!(
        !result["gaps_ms"].as_array().unwrap().is_empty(),
        "an election timeout without answers is a gap: {result}"
    );
    all_catch_up(&cluster, &[1, 2, 3]);
}

#[test]
fn with_one_of_four_down_the_load_runs_on() {
    let mut cluster = Cluster::start(4, &json!({}));
    let leader = cluster.leader();
    let down = (1..=4).find(|id| *id != leader).unwrap();
    cluster.kill(down);
    let load = load(&cluster, &["--duration", "3", "--expect-down", &down.to_string()]);
    let (code, result) = load.finish();
    assert_carried_on(&result, code);
    assert_eq!(result["leader_changes"], 0, "{result}");
}

#[test]
fn with_two_of_four_standing_still_nothing_hangs_and_all_catch_up_afterwards() {
    let cluster = Cluster::start(4, &json!({}));
    let leader = cluster.leader();
    let load = load(&cluster, &["--duration", "8"]);
    wait_for_load(&cluster, leader);
    let stopped: Vec<u32> = (1..=4).filter(|id| *id != leader).take(2).collect();
    stopped.iter().for_each(|id| cluster.signal(*id, Signal::STOP));
    cluster.wait_until("the leader notices that no majority hears it", |cluster| {
        cluster.try_status(leader).is_some_and(|status| status["role"] != "leader")
    });
    stopped.iter().for_each(|id| cluster.signal(*id, Signal::CONT));
    let (code, result) = load.finish();
    assert_carried_on(&result, code);
    assert!(!result["gaps_ms"].as_array().unwrap().is_empty(), "{result}");
    all_catch_up(&cluster, &[1, 2, 3, 4]);
}

#[test]
fn a_replica_that_stood_still_for_longer_than_the_log_is_visibly_behind_and_caught_up_by_a_snapshot() {
    let cluster = Cluster::start(3, &json!({ "log_memory_limit_bytes": 10_485_760 }));
    let leader = cluster.leader();
    let stopped = (1..=3).find(|id| *id != leader).unwrap();
    cluster.signal(stopped, Signal::STOP);
    let load = cluster.load(&[
        "--window",
        "16",
        "--batch",
        "10",
        "--value-size",
        "20000",
        "--duration",
        "4",
        "--warm-up",
        "0",
    ]);
    cluster.wait_until("the log was cut beyond it", |cluster| {
        let status = cluster.status(leader);
        let peers = status["peers"].as_array().unwrap();
        let behind = peers.iter().find(|peer| peer["id"] == stopped).unwrap()["matched"].as_u64().unwrap();
        status["positions"]["first"].as_u64().unwrap() > behind + 1
    });
    let _ = load.finish();
    cluster.signal(stopped, Signal::CONT);
    cluster.wait_until("it has installed a snapshot", |cluster| {
        cluster.try_status(stopped).is_some_and(|status| status["snapshots"]["installed"].as_u64().unwrap() > 0)
    });
    cluster.assert_equal_states(&[1, 2, 3]);
}

#[test]
fn a_replica_that_comes_back_without_its_data_is_shown_unbound_and_counts_for_nothing() {
    let mut cluster = Cluster::start(3, &json!({}));
    let leader = cluster.leader();
    let restarted = (1..=3).find(|id| *id != leader).unwrap();
    let third = (1..=3).find(|id| *id != leader && *id != restarted).unwrap();
    cluster.kill(restarted);
    cluster.spawn(restarted);
    cluster.wait_until("the leader shows it as unbound", |cluster| {
        cluster.try_status(leader).is_some_and(|status| {
            status["unbound"].as_array().is_some_and(|unbound| unbound.iter().any(|id| *id == restarted))
        })
    });
    cluster.wait_until("it knows itself", |cluster| {
        cluster.try_status(restarted).is_some_and(|status| status["forming"]["state"] == "unbound")
    });
    assert_eq!(executed(&cluster, restarted), 0);
    // With the third gone too, the unbound one must not make a majority with the leader.
    cluster.kill(third);
    cluster.wait_until("the leader steps down, alone", |cluster| {
        cluster.try_status(leader).is_some_and(|status| status["role"] != "leader")
    });
    let load =
        cluster.load(&["--window", "1", "--batch", "1", "--duration", "1", "--warm-up", "0", "--deadline-ms", "1000"]);
    cluster.wait_until("the load gives up", |_| !load.printed().is_empty());
}

#[test]
fn entries_that_cannot_be_committed_fill_the_bound_and_the_leader_answers_busy() {
    let cluster = Cluster::start(3, &json!({ "log_memory_limit_bytes": 10_485_760, "election_timeout_ms": 5_000 }));
    let leader = cluster.leader();
    let others: Vec<u32> = (1..=3).filter(|id| *id != leader).collect();
    // Sixteen mebibytes at once would not fit a log of ten that nobody commits.
    let load = cluster.load(&[
        "--window",
        "80",
        "--batch",
        "10",
        "--value-size",
        "20000",
        "--duration",
        "6",
        "--warm-up",
        "0",
        "--deadline-ms",
        "30000",
    ]);
    wait_for_load(&cluster, leader);
    others.iter().for_each(|id| cluster.signal(*id, Signal::STOP));
    cluster.wait_until("the leader refuses", |cluster| {
        cluster.status(leader)["counters"]["refused_busy"].as_u64().unwrap() > 0
    });
    others.iter().for_each(|id| cluster.signal(*id, Signal::CONT));
    let (code, result) = load.finish();
    assert_carried_on(&result, code);
    assert!(result["refused"].as_u64().unwrap() > 0, "{result}");
}

#[test]
fn a_stopped_replica_ends_with_success_and_the_others_go_on() {
    let mut cluster = Cluster::start(3, &json!({}));
    let leader = cluster.leader();
    let load = load(&cluster, &["--duration", "4", "--expect-down", &leader.to_string()]);
    wait_for_load(&cluster, leader);
    assert_eq!(cluster.terminate(leader), Some(0), "{}", cluster.log(leader));
    let (code, result) = load.finish();
    assert_carried_on(&result, code);
}

#[test]
fn four_replicas_execute_the_same_and_an_idle_cluster_stays_with_its_leader() {
    let cluster = Cluster::start(4, &json!({}));
    let (code, result) = load(&cluster, &["--duration", "2"]).finish();
    assert_carried_on(&result, code);
    all_catch_up(&cluster, &[1, 2, 3, 4]);
    let view = cluster.status(1)["view"].clone();
    assert!((1..=4).all(|id| cluster.status(id)["view"] == view));
}
