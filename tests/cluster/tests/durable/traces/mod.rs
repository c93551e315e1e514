//! The order of the system calls of real processes, as `strace` sees it: a promise leaves, a file gets its name, and what is old is
//! let go only when a power cut could not take away what that relies on.

mod contents;
mod disk;
mod frames;
mod replay;
mod store;

use crate::durable;
use crate::workload::Workload;
use quorate_cluster_tests::{Cluster, Surroundings, strace};
use quorate_framework::ReplicaId;
use replay::{Seen, check};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// A cluster of three whose calls are recorded, elected. None where nothing can be traced.
fn recorded(settings: &Value) -> Option<Cluster> {
    if !strace::can_trace() {
        return None;
    }
    let surroundings = Surroundings { recorded: true, ..Surroundings::default() };
    let cluster = Cluster::launch(3, &durable("memory", settings), surroundings);
    cluster.wait_for_a_leader();
    Some(cluster)
}

/// Ends the writers. All replicas are equally far before the last requests, which read: no trace ends with a long group.
fn end_writers(workload: Workload, cluster: &Cluster) {
    workload.at_rest(|| {
        cluster.assert_equal_states(&cluster.ids());
        workload.stop();
    });
    workload.end_and_check();
}

/// Ends the replicas at once and checks all their traces.
fn end_and_check(mut cluster: Cluster) -> Vec<Seen> {
    let ids = cluster.ids();
    cluster.kill_at_once(&ids);
    ids.iter().map(|id| check(&cluster.recording(*id), &cluster.data(*id))).collect()
}

#[test]
fn a_vote_leaves_only_after_its_metadata_file_was_synced_renamed_and_the_directory_synced() {
    let Some(cluster) = recorded(&json!({})) else { return };
    let leader = cluster.leader();
    let seen = end_and_check(cluster);
    let candidacies: usize = seen.iter().map(|seen| seen.candidacies.len()).sum();
    let votes: Vec<ReplicaId> = seen.iter().flat_map(|seen| seen.votes.iter().map(|(_, voted)| *voted)).collect();
    assert!(candidacies >= 1 && votes.contains(&ReplicaId(leader)), "{seen:?}");
}

#[test]
fn a_new_segment_and_its_name_are_synced_before_it_is_sealed_to_and_before_a_record_in_it_is_acknowledged() {
    // No checkpoint frees a segment: each new one is a new file.
    let Some(cluster) = recorded(&json!({ "recovery_ckpt_time_s": 3_600 })) else { return };
    let workload = Workload::start(&cluster, 4, 1_000);
    // The name of the second may become durable by chance, with the metadata of the election.
    cluster.wait_until("each has begun its third segment", |cluster| {
        cluster.ids().iter().all(|id| first_groups(&cluster.data(*id)).count() >= 3)
    });
    workload.wait_for(50, &cluster);
    end_writers(workload, &cluster);
    let seen = end_and_check(cluster);
    assert!(seen.iter().all(|seen| seen.seals >= 2), "{seen:?}");
    // The leader acknowledges nothing to anybody.
    let follows = |seen: &&Seen| seen.acknowledged_segments.last().is_some_and(|first_group| *first_group > 1);
    assert!(seen.iter().filter(follows).count() >= 2, "{seen:?}");
}

#[test]
fn a_snapshot_is_synced_and_named_before_the_metadata_name_it_and_only_then_segments_and_older_snapshots_go() {
    // The log keeps a tail of 16 MiB; what is before it goes.
    let Some(cluster) = recorded(&json!({ "checkpoint_transactions": 100 })) else { return };
    let workload = Workload::start(&cluster, 1, 250_000);
    workload.wait_for(100, &cluster);
    cluster.wait_until("each has let its first segment go", |cluster| {
        cluster.ids().iter().all(|id| first_groups(&cluster.data(*id)).all(|first_group| first_group > 1))
    });
    end_writers(workload, &cluster);
    for seen in end_and_check(cluster) {
        assert!(seen.snapshots.len() >= 2 && seen.removed_snapshots >= 1 && seen.released_segments >= 1, "{seen:?}");
    }
}

/// First groups of the live segments that are there now.
fn first_groups(data: &Path) -> impl Iterator<Item = u64> {
    let files = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|ending| ending == "wal")).filter_map(|file| {
        let mut header = [0; 48];
        // One may just be made or removed.
        File::open(file).ok()?.read_exact(&mut header).ok()?;
        header.starts_with(b"QUORLIVE").then(|| u64::from_le_bytes(*header.last_chunk().unwrap()))
    })
}
