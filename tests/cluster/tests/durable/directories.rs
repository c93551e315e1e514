//! Wrong directories: each is refused with a line that says what to do, and stays as it is.

use crate::durable;
use crate::workload::Workload;
use quorate_cluster_tests::{Cluster, Surroundings, quorate};
use quorate_framework::LOST_DATA;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Exit code and last line of `quorate serve` of replica `id` on a directory.
fn serve(cluster: &Cluster, id: u32, data: &Path) -> (Option<i32>, String) {
    let (file, id) = (cluster.file(), id.to_string());
    let ended = quorate(&["serve", "--config", &file, "--id", &id, "--data-dir", data.to_str().unwrap()]);
    let said = String::from_utf8(ended.stderr).unwrap();
    (ended.status.code(), said.lines().last().unwrap_or_default().to_owned())
}

/// Every file but the lock, with its bytes.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .filter(|entry| entry.file_name() != "lock" && entry.file_type().unwrap().is_file())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect()
}

/// A cluster that has run and stopped.
fn stopped() -> Cluster {
    let mut cluster = Cluster::start(3, &durable("memory", &json!({})));
    cluster.ids().into_iter().for_each(|id| assert_eq!(cluster.terminate(id), Some(0)));
    cluster
}

#[test]
fn an_empty_or_missing_directory_is_refused_and_the_ways_out_are_named() {
    let cluster = stopped();
    let (missing, empty) = (cluster.path("missing"), cluster.path("empty"));
    fs::create_dir(&empty).unwrap();
    for data in [&missing, &empty] {
        let (code, said) = serve(&cluster, 1, data);
        assert_eq!(code, Some(2), "{said}");
        for way in ["quorate init --bootstrap", LOST_DATA] {
            assert!(said.contains(way), "{said}");
        }
    }
    assert!(!missing.exists());
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0, "not even a lock file");
}

#[test]
fn swapped_directories_are_refused_with_both_names_and_unchanged() {
    let cluster = stopped();
    let data = cluster.data(2);
    let before = contents(&data);
    let (code, said) = serve(&cluster, 1, &data);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("belongs to replica 2") && said.contains("this is replica 1"), "{said}");
    assert_eq!(contents(&data), before);
}

#[test]
fn a_damaged_metadata_file_and_a_missing_log_are_refused_and_unchanged() {
    let cluster = stopped();
    let damaged = cluster.data(1).join("metadata.dat");
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[30] ^= 1;
    fs::write(&damaged, &bytes).unwrap();
    let (code, said) = serve(&cluster, 1, &cluster.data(1));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("metadata.dat is damaged"), "{said}");
    for segment in contents(&cluster.data(2)).into_keys().filter(|name| name.ends_with(".wal")) {
        fs::remove_file(cluster.data(2).join(segment)).unwrap();
    }
    let before = contents(&cluster.data(2));
    let (code, said) = serve(&cluster, 2, &cluster.data(2));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the log is missing"), "{said}");
    assert_eq!(contents(&cluster.data(2)), before);
    fs::remove_file(cluster.data(3).join("metadata.dat")).unwrap();
    let (code, said) = serve(&cluster, 3, &cluster.data(3));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("metadata.dat is missing"), "{said}");
}

#[test]
fn init_refuses_a_directory_that_holds_a_replica_or_anything_else() {
    let cluster = stopped();
    let file = cluster.file();
    let init = |data: &Path| {
        let ended =
            quorate(&["init", "--bootstrap", "--config", &file, "--id", "1", "--data-dir", data.to_str().unwrap()]);
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    let before = contents(&cluster.data(1));
    let (code, said) = init(&cluster.data(1));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("metadata.dat is there already"), "{said}");
    assert_eq!(contents(&cluster.data(1)), before);
    let other = cluster.path("somebody else's");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("letter.txt"), "dear").unwrap();
    let (code, said) = init(&other);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("letter.txt"), "{said}");
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
}

#[test]
fn a_copy_of_a_running_replicas_directory_is_refused_by_its_peers() {
    let mut cluster = Cluster::launch(3, &durable("memory", &json!({})), Surroundings::default());
    cluster.wait_for_a_leader();
    cluster.kill(3);
    let (data, copy) = (cluster.data(3), cluster.path("copy"));
    fs::create_dir(&copy).unwrap();
    for name in contents(&data).into_keys() {
        fs::copy(data.join(&name), copy.join(&name)).unwrap();
    }
    // The replica goes on, and with it the count of its starts; then the older copy takes its place.
    cluster.spawn(3);
    cluster.wait_for_a_leader();
    cluster.kill(3);
    fs::rename(&data, cluster.path("away")).unwrap();
    fs::rename(&copy, &data).unwrap();
    cluster.spawn(3);
    cluster.wait_until("the peers refuse the copy", |cluster| {
        (1..=2).any(|id| cluster.log(id).contains("a copied or rolled-back data directory"))
    });
}

#[test]
fn another_store_over_a_checkpoint_is_refused_and_the_first_one_still_has_all_of_it() {
    let mut cluster = Cluster::start(3, &durable("memory", &json!({ "checkpoint_transactions": 20 })));
    let workload = Workload::start(&cluster, 2, 100);
    workload.wait_for(60, &cluster);
    let snapshots = |cluster: &Cluster| {
        let entries = fs::read_dir(cluster.data(1)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("snapshot-") && name.ends_with(".dat")).collect::<Vec<_>>()
    };
    cluster.wait_until("replica 1 has a snapshot", |cluster| !snapshots(cluster).is_empty());
    workload.end_and_check();
    cluster.ids().into_iter().for_each(|id| assert_eq!(cluster.terminate(id), Some(0)));
    let kept = snapshots(&cluster);
    let file = cluster.file();
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("\"memory\""), "{text}");
    fs::write(&file, text.replace("\"memory\"", "\"lsm\"")).unwrap();
    let (code, said) = serve(&cluster, 1, &cluster.data(1));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("kept by `\"store\": \"memory\"`; put that back"), "{said}");
    assert_eq!(snapshots(&cluster), kept, "no other store's snapshot is a stray");
    fs::write(&file, text).unwrap();
    cluster.ids().into_iter().for_each(|id| cluster.spawn(id));
    cluster.wait_for_a_leader();
    cluster.assert_equal_states(&cluster.ids());
}
