//! Clean stops and what replicas say of their durability.

use crate::durable;
use crate::workload::Workload;
use quorate_cluster_tests::{Cluster, quorate};
use serde_json::json;

#[test]
fn a_stopped_cluster_comes_back_with_everything_and_says_what_it_recovered() {
    let mut cluster = Cluster::start(3, &durable("memory", &json!({})));
    let workload = Workload::start(&cluster, 2, 0);
    workload.wait_for(50, &cluster);
    let ids = cluster.ids();
    let codes: Vec<Option<i32>> = ids.iter().map(|id| cluster.terminate(*id)).collect();
    assert_eq!(codes, [Some(0); 3], "{}", cluster.log(1));
    ids.iter().for_each(|id| cluster.spawn(*id));
    cluster.wait_for_a_leader();
    workload.wait_for(50, &cluster);
    let (done, _) = workload.end_and_check();
    assert!(done >= 100);
    cluster.assert_equal_states(&ids);
    for id in ids {
        let status = cluster.status(id);
        let recovery = &status["recovery"];
        assert_eq!((&status["durable"], &status["wal_sync"]), (&json!(true), &json!("always")));
        assert_eq!(recovery["stopped_cleanly"], true, "{recovery}");
        assert_eq!(recovery["torn_bytes_cut"], 0, "{recovery}");
        assert!(recovery["records"].as_u64().unwrap() > 0 && recovery["bytes"].as_u64().unwrap() > 0, "{recovery}");
        let storage = &status["storage"];
        assert!(storage["fsyncs"].as_u64().unwrap() > 0 && storage["groups"].as_u64().unwrap() > 0, "{storage}");
        assert!(status["fsync_ms"]["p50"].as_f64().unwrap() > 0.0, "{status}");
        let log = cluster.log(id);
        assert!(log.contains("durable: wal_sync is always") && log.contains("records in"), "{log}");
    }
}

#[test]
fn a_restarted_replica_keeps_its_incarnation_and_is_a_member_again() {
    let mut cluster = Cluster::start(3, &durable("memory", &json!({})));
    let incarnation = |cluster: &Cluster| cluster.status(2)["incarnation"].as_str().unwrap().to_owned();
    let before = incarnation(&cluster);
    cluster.kill(2);
    cluster.spawn(2);
    cluster.wait_for_a_leader();
    assert_eq!(incarnation(&cluster), before);
    assert_eq!(cluster.status(1)["unbound"], json!([]));
}

#[test]
fn wal_sync_never_says_so_at_the_start_and_in_the_status_and_survives_a_kill() {
    let mut cluster = Cluster::start(3, &durable("memory", &json!({ "wal_sync": "never" })));
    let workload = Workload::start(&cluster, 2, 0);
    workload.wait_for(50, &cluster);
    let ids = cluster.ids();
    ids.iter().for_each(|id| cluster.kill(*id));
    ids.iter().for_each(|id| cluster.spawn(*id));
    cluster.wait_for_a_leader();
    workload.wait_for(20, &cluster);
    workload.end_and_check();
    let status = cluster.status(1);
    assert_eq!((&status["durable"], &status["wal_sync"]), (&json!(true), &json!("never")));
    assert!(cluster.log(1).contains("wal_sync is never, a loss of power loses what was acknowledged"));
}

#[test]
fn a_second_process_on_the_same_data_is_refused_and_the_first_goes_on() {
    let cluster = Cluster::start(1, &durable("memory", &json!({})));
    let (file, data) = (cluster.file(), cluster.data(1));
    let refused = quorate(&["serve", "--config", &file, "--id", "1", "--data-dir", data.to_str().unwrap()]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("another process uses this data directory"), "{said}");
    assert_eq!(cluster.status(1)["role"], "leader");
}
