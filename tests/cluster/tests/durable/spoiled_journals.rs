//! A power cut that spoils the journal of a store on disk: the tables have what was checkpointed, and the log has the rest.

use crate::durable;
use crate::workload::Workload;
use quorate_cluster_tests::Cluster;
use serde_json::json;
use std::fs;
use std::path::Path;

const SECTOR_BYTES: usize = 512;

/// Loses a sector inside a value, in the midst of the newest journal of a replica's store, as a power cut may.
fn lose_a_sector(data: &Path) {
    let tree = data.join("store-0/lsm");
    let names = fs::read_dir(&tree).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let newest = names.filter_map(|name| name.strip_suffix(".jnl")?.parse::<u64>().ok()).max().unwrap();
    let path = tree.join(format!("{newest}.jnl"));
    let mut bytes = fs::read(&path).unwrap();
    let inside_values: Vec<usize> = (0..bytes.len() / SECTOR_BYTES)
        .filter(|sector| bytes[sector * SECTOR_BYTES..][..SECTOR_BYTES].iter().all(|byte| *byte == b'.'))
        .collect();
    let lost = inside_values[inside_values.len() / 2];
    bytes[lost * SECTOR_BYTES..][..SECTOR_BYTES].fill(0);
    fs::write(&path, bytes).unwrap();
}

#[test]
fn a_replica_whose_store_lost_a_sector_of_its_journal_comes_back_with_everything() {
    let mut cluster = Cluster::start(3, &durable("lsm", &json!({ "checkpoint_transactions": 50 })));
    let workload = Workload::start(&cluster, 2, 20_000);
    let victim = 2;
    cluster.wait_until("a checkpoint lies behind it", |cluster| {
        cluster.try_status(victim).is_some_and(|status| status["snapshots"]["taken"].as_u64().unwrap() >= 2)
    });
    workload.wait_for(20, &cluster);
    cluster.kill(victim);
    lose_a_sector(&cluster.data(victim));
    cluster.spawn(victim);
    workload.wait_for(20, &cluster);
    workload.end_and_check();
    cluster.assert_equal_states(&cluster.ids());
}
