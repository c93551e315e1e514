//! Disks that fail, fill up or hang under a running replica. The real calls of a real process are made to: `strace` is attached to it
//! and puts an error in place of a call, or keeps the call waiting.

use crate::durable;
use crate::workload::Workload;
use quorate_cluster_tests::Cluster;
use quorate_cluster_tests::strace::{Tampering, can_trace};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Checkpoints come often, so that metadata are written while the disk is sick.
fn settings(store: &str) -> Value {
    let more = json!({
        "checkpoint_transactions": 60, "election_timeout_ms": 200, "heartbeat_interval_ms": 40, "disk_stall_timeout_ms": 800,
    });
    durable(store, &more)
}

/// The disk of the leader or of a follower fails as `injection` says. The replica must end with an error that says `what`, the others
/// must go on, and so must the replica once it is started on a disk that works again.
fn ends_and_comes_back(store: &str, leads: bool, injection: &str, what: &[&str]) {
    if !can_trace() {
        return;
    }
    let mut cluster = Cluster::start(3, &settings(store));
    let workload = Workload::start(&cluster, 4, 100);
    workload.wait_for(20, &cluster);
    let leader = cluster.leader();
    let victim = cluster.ids().into_iter().find(|id| (*id == leader) == leads).unwrap();
    let tampering = Tampering::begin(cluster.process(victim), injection, &cluster.path("strace.log"));
    assert_eq!(cluster.wait_for_end(victim), Some(1), "{}", cluster.log(victim));
    drop(tampering);
    let log = cluster.log(victim);
    let last = log.lines().last().unwrap();
    assert!(last.starts_with("error: halted: "), "{last}");
    assert!(what.iter().all(|what| last.contains(what)), "{last}");
    workload.wait_for(50, &cluster);
    cluster.spawn(victim);
    cluster.wait_for_a_leader();
    workload.wait_for(20, &cluster);
    workload.end_and_check();
    cluster.assert_equal_states(&cluster.ids());
}

#[test]
fn a_leader_whose_log_fails_to_sync_ends_though_later_syncs_would_succeed_and_nothing_acknowledged_is_lost() {
    // Four in a row, so that one of them is of the log and not of a segment that is prepared: giving that up harms nobody.
    ends_and_comes_back("memory", true, "fdatasync:error=EIO:when=20..23", &["storage failed: ", "Input/output error"]);
}

#[test]
fn a_follower_whose_directory_fails_to_sync_ends_though_later_syncs_would_succeed_and_nothing_acknowledged_is_lost() {
    // The third of one thread: those that write snapshots sync it once each, and what they fail at is only a snapshot.
    ends_and_comes_back(
        "memory",
        false,
        "fsync:error=EIO:when=3",
        &["storage failed: ", "syncing the directory failed: Input/output error"],
    );
}

#[test]
fn a_follower_whose_store_or_directory_fails_to_sync_ends_and_nothing_acknowledged_is_lost() {
    // Whichever of its threads is the first to sync.
    ends_and_comes_back("lsm", false, "fsync:error=EIO", &["Input/output error"]);
}

#[test]
fn a_leader_whose_disk_fills_up_ends_with_advice_and_nothing_acknowledged_is_lost() {
    let what = ["storage failed: ", "No space left on device", "free space and start the replica again"];
    ends_and_comes_back("memory", true, "pwrite64:error=ENOSPC:when=30+", &what);
}

#[test]
fn a_leader_whose_sync_hangs_gives_up_in_time_clients_go_on_and_it_follows_once_the_disk_answers() {
    if !can_trace() {
        return;
    }
    let cluster = Cluster::start(3, &settings("memory"));
    let workload = Workload::start(&cluster, 4, 100);
    workload.wait_for(20, &cluster);
    let leader = cluster.leader();
    let began = Instant::now();
    let tampering =
        Tampering::begin(cluster.process(leader), "fdatasync:delay_enter=20000000", &cluster.path("strace.log"));
    cluster.wait_until("it gives up", |cluster| cluster.status(leader)["role"] != "leader");
    // 800 ms after the first sync that hangs, which began while the tracer was attached; the rest is for asking on a busy machine.
    let gave_up = began.elapsed();
    assert!(gave_up < Duration::from_millis(800 + 2_000), "{gave_up:?}");
    assert_eq!(cluster.status(leader)["counters"]["stall_step_downs"], 1, "{}", cluster.status(leader));
    let others: Vec<u32> = cluster.ids().into_iter().filter(|id| *id != leader).collect();
    cluster.wait_until("another leads", |cluster| others.iter().any(|id| cluster.status(*id)["role"] == "leader"));
    workload.wait_for(50, &cluster);
    let next = cluster.leader();
    assert_ne!(next, leader);
    drop(tampering);
    workload.wait_for(50, &cluster);
    workload.end_and_check();
    cluster.assert_equal_states(&cluster.ids());
}
