//! Real replicas over loopback: they form, elect, serve a write, survive the loss of the leader, stop cleanly, and are idle when
//! nothing happens.

#![allow(clippy::unwrap_used)] // Helpers of tests are tests, too.

mod common;

use common::{Cluster, Process};
use serde_json::Value;
use std::time::Duration;

fn reachable(status: &Value) -> Vec<&Value> {
    status["replicas"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|replica| replica["reachable"] == true)
        .map(|replica| &replica["status"])
        .collect()
}

#[test]
fn three_replicas_elect_serve_survive_their_leader_and_stop_cleanly() {
    let mut cluster = Cluster::start(3);
    let (code, status) = cluster.status();
    assert_eq!(code, 0, "{status:#}");
    let leader = status["leader"].as_u64().unwrap();
    for replica in reachable(&status) {
        assert_eq!(replica["forming"]["state"], "formed");
        assert_eq!((&replica["durable"], &replica["unbound"]), (&Value::Bool(false), &serde_json::json!([])));
    }
    let of_leader = reachable(&status)[leader as usize - 1];
    assert_eq!(of_leader["role"], "leader");
    assert!(of_leader["counters"]["transactions_executed"].as_u64().unwrap() >= 1, "the write of `cluster wait`");
    assert!(of_leader["round_trip_ms"]["count"].as_u64().unwrap() >= 1, "{of_leader:#}");

    cluster.replicas[leader as usize - 1].kill();
    let status = cluster.status_until("another leader", |status| {
        let leaders: Vec<u64> = reachable(status).iter().filter_map(|replica| replica["leader"].as_u64()).collect();
        leaders.len() == 2 && leaders[0] == leaders[1] && leaders[0] != leader
    });
    assert_eq!(reachable(&status).len(), 2);
    assert_eq!(cluster.status().0, 1, "a replica is missing, and the exit code says so");
    let waited = cluster.wait(1);
    assert_eq!(waited.code, 1);
    assert!(waited.err.contains(&format!("replica {leader}: not running: connection refused")), "{}", waited.err);

    // With recovery off a restarted replica is another incarnation: shown, and not counted.
    let place = leader as usize - 1;
    cluster.replicas[place] = Process::serve(&cluster.config, leader, cluster.folder.path().join("again.log"));
    cluster.status_until("the restarted replica is unbound", |status| {
        let all = reachable(status);
        all.len() == 3
            && all[place]["forming"]["state"] == "unbound"
            && all.iter().any(|replica| replica["unbound"] == serde_json::json!([leader]))
    });

    for replica in &cluster.replicas {
        replica.signal("TERM");
    }
    for replica in &mut cluster.replicas {
        let ended = replica.wait(Duration::from_secs(10));
        assert_eq!(ended.code(), Some(0), "{}", replica.log());
        let log = replica.log();
        assert!(log.contains("not durable: recovery_enabled is false"), "{log}");
        assert!(log.contains("effective settings: {"), "{log}");
        assert!(log.lines().last().unwrap().ends_with("stopped"), "{log}");
    }
}

#[test]
fn a_replica_alone_waits_names_who_is_missing_and_costs_next_to_nothing() {
    let folder = common::folder();
    let config = common::cluster_file(folder.path(), 3);
    let replica = Process::serve(&config, 2, folder.path().join("2.log"));
    let cluster = Cluster { replicas: vec![replica], config, folder };
    let alone = |status: &Value| reachable(status).len() == 1;
    let before = cluster.status_until("the replica answers", alone);
    assert_eq!(reachable(&before)[0]["forming"], serde_json::json!({"state": "forming", "waiting_for": [1, 3]}));
    let waited = cluster.wait(3);
    assert_eq!(waited.code, 1);
    for missing in ["replica 1: not running", "replica 2: forming: waits for replicas 1", "replica 3: not running"] {
        assert!(waited.err.contains(missing), "{missing} is not in {}", waited.err);
    }
    let (_, after) = cluster.status();
    let figure = |status: &Value, name: &str| reachable(status)[0]["process"][name].as_u64().unwrap();
    let used = |status: &Value| figure(status, "cpu_user_us") + figure(status, "cpu_system_us");
    let (used_us, passed_us) =
        (used(&after) - used(&before), (figure(&after, "uptime_ms") - figure(&before, "uptime_ms")) * 1_000);
    // It dials, it is asked thirty times, it is a debug build on a busy machine: still a few percent at most.
    assert!(used_us * 20 < passed_us, "{used_us} of {passed_us} us");
    let mut cluster = cluster;
    cluster.replicas[0].signal("INT");
    assert_eq!(cluster.replicas[0].wait(Duration::from_secs(10)).code(), Some(0), "it has nothing to hand over");
    let log = cluster.replicas[0].log();
    assert!(log.contains("forming: waiting for replicas 1, 3"), "{log}");
    assert!(log.lines().count() < 20, "a few lines, not one for each attempt:\n{log}");
}

#[test]
fn a_stopped_replica_is_not_ready_but_the_others_go_on() {
    let cluster = Cluster::start(3);
    let leader = cluster.status().1["leader"].as_u64().unwrap();
    let stopped = leader as usize - 1;
    cluster.replicas[stopped].signal("STOP");
    cluster.status_until("another leader", |status| {
        let leaders: Vec<u64> = reachable(status).iter().filter_map(|replica| replica["leader"].as_u64()).collect();
        leaders.len() == 2 && leaders.iter().all(|named| *named != leader)
    });
    cluster.replicas[stopped].signal("CONT");
    let waited = cluster.wait(30);
    assert_eq!(waited.code, 0, "{}", waited.err);
}

#[test]
fn replicas_with_settings_that_must_agree_and_do_not_refuse_each_other_and_name_the_setting() {
    let folder = common::folder();
    let config = common::cluster_file(folder.path(), 2);
    let other = folder.path().join("other.json");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&other, text.replacen('{', "{ \"election_timeout_ms\": 900,", 1)).unwrap();
    let first = Process::serve(&config, 1, folder.path().join("1.log"));
    let second = Process::serve(&other, 2, folder.path().join("2.log"));
    let cluster = Cluster { replicas: vec![first, second], config, folder };
    let told = "settings of replica 2 (there) and replica 1 (here) must agree and differ: \
                election_timeout_ms: \"900\" there, \"500\" here";
    cluster.status_until("both logs name the setting", |_| {
        cluster.replicas.iter().all(|replica| replica.log().contains(told))
    });
    let waited = cluster.wait(1);
    assert_eq!(waited.code, 1);
    assert!(waited.err.contains("election_timeout_ms"), "{}", waited.err);
    let (code, status) = cluster.status();
    assert_eq!(code, 1);
    assert!(
        reachable(&status).iter().all(|replica| replica["forming"]["state"] == "forming"),
        "no half-working cluster"
    );
}
