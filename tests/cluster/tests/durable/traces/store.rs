//! A store on disk: its directories are there after a power cut before the metadata name its first checkpoint.

use super::contents::{Content, contents};
use crate::durable;
use crate::workload::Workload;
use quorate_cluster_tests::strace::{self, Call, read_trace};
use quorate_cluster_tests::{Cluster, Surroundings};
use serde_json::json;
use std::path::Path;

/// Whether a directory was synced after one line of the trace and before another.
fn is_synced(calls: &[Call], directory: &Path, after: usize, before: usize) -> bool {
    calls.iter().any(|call| {
        matches!(&*call.name, "fsync" | "fdatasync")
            && call.result == 0
            && call.begin > after
            && call.end < before
            && call.path().is_some_and(|path| path == directory)
    })
}

#[test]
fn the_directories_of_a_store_and_its_tables_are_synced_before_the_metadata_name_its_checkpoint() {
    if !strace::can_trace() {
        return;
    }
    let surroundings = Surroundings { recorded: true, ..Surroundings::default() };
    let mut cluster = Cluster::launch(1, &durable("lsm", &json!({ "checkpoint_transactions": 20 })), surroundings);
    cluster.wait_for_a_leader();
    let workload = Workload::start(&cluster, 1, 1_000);
    cluster.wait_until("a checkpoint is named", |cluster| {
        cluster.try_status(1).is_some_and(|status| status["snapshots"]["taken"].as_u64().unwrap() >= 2)
    });
    workload.end_and_check();
    let (trace, data) = (cluster.recording(1), cluster.data(1));
    cluster.kill(1);
    let calls = read_trace(&trace);
    let contents = contents(&calls);
    let naming = calls.iter().zip(&contents).find_map(|(call, content)| match content.as_deref() {
        Some(Content::Metadata(metadata)) if metadata.snapshot.is_some() => Some(call.begin),
        _ => None,
    });
    let naming = naming.expect("metadata that name a checkpoint");
    let store = data.join("store-0");
    let made: Vec<&Call> = calls.iter().filter(|call| call.name.starts_with("mkdir") && call.result == 0).collect();
    let below: Vec<_> = made.iter().filter(|call| call.named_paths()[0].starts_with(&store)).collect();
    assert!(below.len() >= 5, "{made:?}");
    for call in below {
        let directory = call.named_paths().remove(0);
        let parent = directory.parent().unwrap();
        assert!(is_synced(&calls, parent, call.end, naming), "the name of {} is not durable", directory.display());
    }
    // The first table that holds any of the state.
    let tables = store.join("lsm/keyspaces/1/tables");
    let table = calls.iter().find(|call| {
        call.name == "openat"
            && call.has_flag("O_CREAT")
            && call.path().is_some_and(|path| path.parent() == Some(&tables))
    });
    let table = table.expect("a table");
    let path = table.path().unwrap();
    assert!(is_synced(&calls, &path, table.end, naming) && is_synced(&calls, &tables, table.end, naming), "{table:?}");
}
