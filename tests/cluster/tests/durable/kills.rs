//! `kill -9` of one and of all under load, with both stores.
//!
//! Ten rounds for each store here; `QUORATE_KILL_ROUNDS=200` makes it the long run. Each time that all were killed at once, the states
//! of all replicas are compared at the same index, and so they are at the end.

use crate::durable;
use crate::workload::Workload;
use quorate_cluster_tests::Cluster;
use serde_json::json;

fn rounds() -> u64 {
    std::env::var("QUORATE_KILL_ROUNDS").map_or(10, |text| text.parse().expect("QUORATE_KILL_ROUNDS is a number"))
}

/// Kills random replicas, and all at once in each fourth round, while writers go on.
fn kill_under_load(store: &str) {
    // Checkpoints and new segments come often, so that the kills hit them.
    let settings = json!({ "checkpoint_transactions": 300, "election_timeout_ms": 200, "heartbeat_interval_ms": 40 });
    let mut cluster = Cluster::start(3, &durable(store, &settings));
    let workload = Workload::start(&cluster, 4, 100);
    let mut state = 0x9e37_79b9_u64;
    for round in 1..=rounds() {
        workload.wait_for(20, &cluster);
        let victims = if round % 4 == 0 {
            cluster.ids()
        } else {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            vec![(state >> 33) as u32 % 3 + 1]
        };
        cluster.kill_at_once(&victims);
        victims.iter().for_each(|id| cluster.spawn(*id));
        cluster.wait_for_a_leader();
        if victims.len() > 1 {
            workload.at_rest(|| cluster.assert_equal_states(&victims));
        }
    }
    workload.wait_for(20, &cluster);
    let (done, unknown) = workload.end_and_check();
    cluster.assert_equal_states(&cluster.ids());
    eprintln!("{store}: {done} acknowledged and there once, {unknown} unknown, after {} kills", rounds());
}

#[test]
fn with_the_memory_store_no_acknowledged_write_is_lost_and_none_is_applied_twice() {
    kill_under_load("memory");
}

#[test]
fn with_the_store_on_disk_no_acknowledged_write_is_lost_and_none_is_applied_twice() {
    kill_under_load("lsm");
}
