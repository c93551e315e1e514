//! A state whose entries were applied by other limits is never taken.

use super::*;
use crate::snapshots::Scratch;
use bytes::Bytes;
use quorate_config::parse_cluster;
use quorate_executor::lsm::{LsmOptions, LsmStore};
use quorate_executor::snapshot::SnapshotFile;
use quorate_framework::entry::EntryKind;
use quorate_framework::{Batch, BlockId, ExecuteRange, ExecutorCommand, LOST_DATA, Outcome};

const CLUSTER: ClusterId = ClusterId([7; 16]);
const AT: Position = Position(1);
const TOLD: &str =
    "its entries were applied by other settings than those of this replica: value_size_limit_bytes was 9 and is 100";

fn settings() -> Settings {
    let text = r#"{ "value_size_limit_bytes": 100, "cluster_id": "000102030405060708090a0b0c0d0e0f",
        "replicas": [{ "id": 1, "host": "127.0.0.1", "port": 17000, "http_port": 18000, "resp_port": 19000 }] }"#;
    parse_cluster("test", text.as_bytes()).unwrap().config.settings().clone()
}

fn limits(value_bytes: u32) -> ReplicatedLimits {
    ReplicatedLimits { value_bytes, ..ReplicatedLimits::default() }
}

fn directory(scratch: &Scratch) -> Directory {
    let scratch = scratch.clone();
    Directory { open: Arc::new(move || Ok(Box::new(scratch.clone()))), keeps_files: true }
}

/// A folder with a complete snapshot of position 1 that was made by these limits, and what names it.
fn snapshot(limits: ReplicatedLimits) -> (Scratch, NamedSnapshot) {
    let scratch = Scratch::default();
    let base = SnapshotBase { position: AT, ..SnapshotBase::default() };
    let mut executor = KvExecutor::new(MemoryStore::new(), limits);
    let batch = Batch { block: BlockId::default(), kind: EntryKind::NoOperation, payload: Bytes::new() };
    let range = ExecuteRange { first: AT, batches: vec![batch] };
    executor.apply([ExecutorCommand::Execute { range, answers: false }], &mut Outcome::default()).unwrap();
    let mut writer = executor.snapshot(CLUSTER, base.clone()).unwrap();
    let mut bytes = Vec::new();
    while writer.step(executor.store(), usize::MAX, &mut bytes).unwrap().is_none() {}
    let mut file = SnapshotFile::create(&scratch, SnapshotName::Temporary(AT)).unwrap();
    file.append(&bytes).unwrap();
    file.finish(&scratch, AT).unwrap();
    (scratch, NamedSnapshot { base, store_generation: 0, released: Position::ZERO })
}

#[test]
fn a_named_snapshot_that_was_made_by_other_limits_is_refused_and_one_of_the_same_is_taken() {
    let (scratch, named) = snapshot(limits(9));
    let error = memory_machine(&directory(&scratch), CLUSTER, Some(&named), &settings()).err().unwrap();
    let expected = format!("the state at 1 does not belong to metadata.dat: {TOLD}; {LOST_DATA}");
    assert_eq!(error.to_string(), expected);
    let (scratch, named) = snapshot(limits(100));
    assert!(memory_machine(&directory(&scratch), CLUSTER, Some(&named), &settings()).is_ok());
}

#[test]
fn a_store_on_disk_that_was_made_by_other_limits_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let options = LsmOptions { cluster: CLUSTER, ..LsmOptions::default() };
    drop(LsmStore::create(folder.path(), 0, options, limits(9)).unwrap());
    let (scratch, _) = snapshot(limits(100));
    let state = || disk_store::state(folder.path(), &directory(&scratch), CLUSTER, None, &settings());
    let expected = format!("the state at 0 does not belong to metadata.dat: {TOLD}; {LOST_DATA}");
    for _ in 0..2 {
        assert_eq!(state().err().unwrap().to_string(), expected);
        assert_eq!(scratch.list().unwrap().len(), 1, "what is no stray to another store stays");
    }
}

#[test]
fn a_store_on_disk_of_another_cluster_is_refused_and_left_as_it_is_also_where_the_log_could_make_the_state() {
    let folder = tempfile::tempdir().unwrap();
    let options = LsmOptions { cluster: ClusterId([8; 16]), ..LsmOptions::default() };
    drop(LsmStore::create(folder.path(), 0, options, limits(100)).unwrap());
    let (scratch, _) = snapshot(limits(100));
    for _ in 0..2 {
        let refused = disk_store::state(folder.path(), &directory(&scratch), CLUSTER, None, &settings()).err().unwrap();
        assert!(refused.is_bad_input());
        let expected =
            format!("the store belongs to cluster {}, not to {CLUSTER}: put the directories right", options.cluster);
        assert_eq!(refused.to_string(), expected);
    }
    assert!(LsmStore::open(folder.path(), 0, options, Position::ZERO).is_ok());
}

#[test]
fn a_fetched_snapshot_that_was_made_by_other_limits_is_not_loaded_and_leaves_no_generation() {
    let (scratch, _) = snapshot(limits(9));
    let open = || scratch.open(&SnapshotName::Complete(AT).path());
    let in_memory = load_memory(CLUSTER, limits(100));
    assert_eq!(in_memory(&open, 1).err().unwrap(), TOLD);
    let folder = tempfile::tempdir().unwrap();
    let on_disk = disk_store::load(CLUSTER, folder.path().to_owned(), limits(100));
    assert_eq!(on_disk(&open, 1).err().unwrap(), TOLD);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let (scratch, _) = snapshot(limits(100));
    let open = || scratch.open(&SnapshotName::Complete(AT).path());
    assert_eq!(in_memory(&open, 1).err(), None);
    assert_eq!(on_disk(&open, 1).err(), None);
}
