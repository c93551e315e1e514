//! A follower that stood still for longer than the log comes back by a snapshot: in memory, durable, and with the store on disk.

use crate::durable;
use crate::workload::Workload;
use quorate_cluster_tests::Cluster;
use rustix::process::Signal;
use serde_json::{Value, json};

/// A log in memory of the least size that may be configured, which a debug build outgrows in a few seconds.
fn small_log() -> Value {
    json!({
        "log_memory_limit_bytes": 2 << 20,
        "value_size_limit_bytes": 256 << 10,
        "max_in_flight_bytes_per_follower": 1 << 20,
        "max_append_bytes": 256 << 10,
        "client_admission_bytes": 4 << 20,
    })
}

fn comes_back_by_a_snapshot(settings: &Value) -> Cluster {
    let mut with_small_log = settings.clone();
    for (key, value) in small_log().as_object().unwrap() {
        with_small_log[key] = value.clone();
    }
    let cluster = Cluster::start(3, &with_small_log);
    let leader = cluster.leader();
    let follower = cluster.ids().into_iter().find(|id| *id != leader).unwrap();
    let workload = Workload::start(&cluster, 4, 50_000);
    workload.wait_for(5, &cluster);
    cluster.signal(follower, Signal::STOP);
    // What was sent may lie in its sockets; what is next was not.
    cluster.wait_until("the leader's log has moved on beyond what it was sent", |cluster| {
        let status = cluster.status(leader);
        let peers = status["peers"].as_array().unwrap();
        let next = peers.iter().find(|peer| peer["id"] == follower).unwrap()["next"].as_u64().unwrap();
        status["positions"]["first"].as_u64().unwrap() > next
    });
    workload.wait_for(5, &cluster);
    cluster.signal(follower, Signal::CONT);
    cluster.wait_until("it has installed a snapshot", |cluster| {
        cluster.try_status(follower).is_some_and(|status| status["snapshots"]["installed"].as_u64().unwrap() >= 1)
    });
    // The load goes on meanwhile and afterwards, without a new leader.
    workload.wait_for(20, &cluster);
    workload.end_and_check();
    cluster.assert_equal_states(&cluster.ids());
    assert_eq!(cluster.leader(), leader);
    let state = |cluster: &Cluster| {
        let peers = cluster.status(leader)["peers"].as_array().unwrap().clone();
        peers.iter().find(|peer| peer["id"] == follower).unwrap()["state"].as_str().unwrap().to_owned()
    };
    cluster.wait_until("it replicates again", |cluster| state(cluster) == "replicate");
    cluster
}

#[test]
fn in_memory_a_lagging_replica_comes_back_by_a_snapshot() {
    comes_back_by_a_snapshot(&json!({ "recovery_enabled": false }));
}

#[test]
fn a_durable_lagging_replica_comes_back_by_a_snapshot_and_restarts_from_it() {
    let mut cluster = comes_back_by_a_snapshot(&durable("memory", &json!({})));
    restart_all(&mut cluster);
}

#[test]
fn with_the_store_on_disk_a_lagging_replica_comes_back_by_a_snapshot_and_restarts_from_it() {
    let mut cluster = comes_back_by_a_snapshot(&durable("lsm", &json!({})));
    restart_all(&mut cluster);
}

fn restart_all(cluster: &mut Cluster) {
    let ids = cluster.ids();
    let before = cluster.digest(ids[0]).unwrap().0;
    ids.iter().for_each(|id| cluster.kill(*id));
    ids.iter().for_each(|id| cluster.spawn(*id));
    cluster.wait_for_a_leader();
    cluster.assert_equal_states(&ids);
    assert!(cluster.digest(ids[0]).unwrap().0 > before, "the new leader's first entry is on top of everything");
    let workload = Workload::start(cluster, 1, 0);
    workload.wait_for(5, cluster);
}

#[test]
fn checkpoints_keep_one_snapshot_and_free_the_log() {
    let settings = json!({ "checkpoint_transactions": 200 });
    let cluster = Cluster::start(3, &durable("memory", &settings));
    let workload = Workload::start(&cluster, 4, 2_000);
    cluster.wait_until("three checkpoints were taken", |cluster| {
        cluster.try_status(1).is_some_and(|status| status["snapshots"]["taken"].as_u64().unwrap() >= 3)
    });
    workload.end_and_check();
    let position = |cluster: &Cluster| cluster.status(1)["snapshots"]["position"].as_u64().unwrap();
    cluster.wait_until("only the named snapshot is left", |cluster| {
        let names = std::fs::read_dir(cluster.data(1)).unwrap().map(|entry| entry.unwrap().file_name());
        let snapshots: Vec<String> =
            names.map(|name| name.into_string().unwrap()).filter(|name| name.starts_with("snapshot-")).collect();
        snapshots == [format!("snapshot-{:016x}.dat", position(cluster))]
    });
    assert_eq!(cluster.status(1)["snapshots"]["failed"], 0);
}
