//! The store on disk: it does what the store in memory does, and is found again as it was.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use quorate_executor::conformance::{check_store, check_store_and_reopen};
use quorate_executor::lsm::{
    LsmLoader, LsmOpenError, LsmOptions, LsmStore, generation_path, generations, remove_other_generations,
};
use quorate_executor::snapshot::{MemoryLoader, RestorableStore, SYNC_EVERY_BYTES, StateLoader};
use quorate_executor::{
    Command, KeyValue, KvExecutor, MemoryStore, OrderedStore, ReplicatedLimits, Restore, SnapshotError, StoreError,
};
use quorate_framework::{ClusterId, ExecutorCommand, Position, SnapshotBase};
use std::cell::Cell;
use std::fs;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use support::files::file;
use support::workload::{Workload, limits};
use support::{Replica, block, range};
use tempfile::TempDir;

const CLUSTER: ClusterId = ClusterId([7; 16]);

/// Small memory tables, so that a few thousand writes reach the files.
fn options() -> LsmOptions {
    LsmOptions { cache_bytes: 1 << 20, memory_table_bytes: 256 << 10, journal_bytes: 64 << 20, ..LsmOptions::default() }
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn create(directory: &Path, generation: u64) -> KvExecutor<LsmStore> {
    LsmStore::create(directory, generation, options(), limits()).expect("a fresh generation")
}

fn open(directory: &Path, generation: u64) -> Result<KvExecutor<LsmStore>, LsmOpenError> {
    LsmStore::open(directory, generation, options(), Position::ZERO).map(|(executor, _)| executor)
}

fn base(position: u64) -> SnapshotBase {
    SnapshotBase { position: Position(position), protocol: vec![1], membership: vec![2] }
}

fn snapshot<S: OrderedStore>(executor: &mut KvExecutor<S>) -> Vec<u8> {
    let mut writer = executor.snapshot(CLUSTER, base(executor.executed().0)).expect("at the executed position");
    let mut bytes = Vec::new();
    while writer.step(executor.store(), 1, &mut bytes).expect("a step").is_none() {}
    bytes
}

fn restore<L: StateLoader>(bytes: &[u8], position: u64, loader: L) -> KvExecutor<L::Store> {
    let restoring = Restore::begin(file(bytes), CLUSTER, &base(position), loader).expect("a snapshot");
    restoring.finish().expect("restored").0
}

#[test]
fn the_store_on_disk_conforms() {
    let directory = directory();
    let generation = Cell::new(0);
    for seed in 0..3 {
        let make = || {
            generation.set(generation.get() + 1);
            create(directory.path(), generation.get()).into_store()
        };
        check_store(make, seed, 1_500);
    }
}

#[test]
fn the_store_on_disk_conforms_when_it_is_opened_again_and_again() {
    let directory = directory();
    for seed in 10..12 {
        let reopen = |store| {
            drop(store);
            open(directory.path(), seed).expect("opened again").into_store()
        };
        check_store_and_reopen(|| create(directory.path(), seed).into_store(), reopen, seed, 1_000);
    }
}

#[test]
fn the_store_in_memory_conforms_when_it_goes_through_snapshots() {
    let reopen = |store: MemoryStore| {
        let mut executor = KvExecutor::new(store, ReplicatedLimits::default());
        let position = executor.executed().0;
        restore(&snapshot(&mut executor), position, MemoryLoader::default()).into_store()
    };
    for seed in 20..23 {
        check_store_and_reopen(MemoryStore::new, reopen, seed, 2_000);
    }
}

#[test]
fn the_store_on_disk_conforms_when_it_goes_through_snapshots() {
    let directory = directory();
    let generation = Cell::new(1);
    let reopen = |store: LsmStore| {
        generation.set(generation.get() + 1);
        let mut executor = KvExecutor::new(store, limits());
        let position = executor.executed().0;
        let bytes = snapshot(&mut executor);
        let loader = executor.store().fresh(generation.get()).expect("a fresh generation");
        restore(&bytes, position, loader).into_store()
    };
    check_store_and_reopen(|| create(directory.path(), 1).into_store(), reopen, 30, 800);
}

#[test]
fn memory_and_disk_are_in_equal_states_after_equal_orders_also_after_each_opening() {
    for seed in 0..3 {
        let directory = directory();
        let mut memory = Replica::with_limits(limits());
        let mut disk = Replica::over(create(directory.path(), 1));
        let mut workload = Workload::new(seed);
        for round in 0..12 {
            let frames = workload.frames(1 + 37 * round as usize);
            let ordered = range(memory.next(), &frames);
            if round % 3 == 1 {
                // Executed ahead; then committed in two parts, the second of which is promoted, or after another order was given up.
                let base = block(memory.next() - 1);
                let ahead = ExecutorCommand::Speculate { base, range: ordered.clone() };
                disk.apply(vec![ahead]).expect("over the last block");
                let mut first = ordered.clone();
                let rest = first.batches.split_off(round as usize * 3);
                let rest = range(first.last().0 + 1, &rest.iter().map(|b| b.payload.clone()).collect::<Vec<_>>());
                assert_eq!(disk.execute_range(first.clone()).answers, memory.execute_range(first).answers);
                assert_eq!(disk.execute_range(rest.clone()).answers, memory.execute_range(rest).answers);
            } else {
                assert_eq!(disk.execute_range(ordered.clone()), memory.execute_range(ordered));
            }
            assert_eq!(disk.digest(), memory.digest(), "seed {seed}, round {round}");
            drop(disk);
            disk = Replica::over(open(directory.path(), 1).expect("opened again"));
            assert_eq!(disk.executor.executed(), memory.executor.executed());
            assert_eq!(disk.digest(), memory.digest(), "seed {seed}, round {round}, opened again");
        }
    }
}

#[test]
fn a_snapshot_is_the_same_bytes_from_memory_and_from_disk_and_restores_into_both() {
    let directory = directory();
    let mut memory = Replica::with_limits(limits());
    let mut disk = Replica::over(create(directory.path(), 1));
    let frames = Workload::new(9).frames(2_500);
    memory.execute_range(range(1, &frames));
    disk.execute_range(range(1, &frames));
    let bytes = snapshot(&mut memory.executor);
    assert_eq!(snapshot(&mut disk.executor), bytes);
    let mut restored = Replica::over(restore(&bytes, 2_500, MemoryLoader::default()));
    assert_eq!(restored.digest(), memory.digest());
    let loader = disk.executor.store().fresh(2).expect("a fresh generation");
    drop(Replica::over(restore(&bytes, 2_500, loader)));
    let (executor, report) =
        LsmStore::open(directory.path(), 2, options(), Position(2_500)).expect("it is there when it was filled");
    let mut restored = Replica::over(executor);
    assert_eq!((report.position, report.sessions), (Position(2_500), memory.executor.sessions().len() as u64));
    assert_eq!(restored.digest(), memory.digest());
    let later = range(2_501, &Workload::new(10).frames(300));
    memory.execute_range(later.clone());
    restored.execute_range(later);
    assert_eq!(restored.digest(), memory.digest(), "it goes on like the one it came from");
}

#[test]
fn a_snapshot_of_several_syncs_is_restored_into_tables_that_are_whole() {
    let directory = directory();
    let mut store = MemoryStore::new();
    for number in 0..200_u32 {
        store.put(&number.to_be_bytes(), &vec![number as u8; 60_000]).expect("written");
    }
    store.commit(Position(1)).expect("committed");
    let mut source = Replica::over(KvExecutor::new(store, limits()));
    let bytes = snapshot(&mut source.executor);
    assert!(bytes.len() as u64 > 2 * SYNC_EVERY_BYTES);
    let loader = LsmLoader::create(directory.path(), 1, options(), limits()).expect("begun");
    drop(restore(&bytes, 1, loader));
    assert_eq!(Replica::over(open(directory.path(), 1).expect("synced")).digest(), source.digest());
}

#[test]
fn the_table_that_is_being_filled_is_synced_each_time_four_mebibytes_were_written_and_not_sooner() {
    let directory = directory();
    // 63 entries of 64 KiB, and one that makes the four mebibytes full or leaves a byte to be missed.
    let restore = |last_bytes: usize| {
        let mut store = MemoryStore::new();
        for number in 0..64_u32 {
            let bytes = if number < 63 { 64 << 10 } else { last_bytes };
            store.put(&number.to_be_bytes(), &vec![1; bytes - 4]).expect("written");
        }
        store.commit(Position(1)).expect("committed");
        let bytes = snapshot(&mut KvExecutor::new(store, limits()));
        let loader = LsmLoader::create(directory.path(), 1, options(), limits()).expect("begun");
        // The table with the highest number is one that cannot be synced.
        let tables = generation_path(directory.path(), 1).join("lsm/keyspaces/1/tables");
        std::os::unix::fs::symlink("/dev/null", tables.join("999999")).expect("linked");
        Restore::begin(file(&bytes), CLUSTER, &base(1), loader).expect("a snapshot").finish().map(drop)
    };
    assert_eq!(SYNC_EVERY_BYTES, 4 << 20);
    restore((64 << 10) - 1).expect("no table was to be synced before its end");
    let error = restore(64 << 10).expect_err("synced, which that one cannot be");
    assert!(matches!(error, SnapshotError::File { what: "syncing a table", .. }), "{error}");
}

#[test]
fn a_view_shows_its_moment_while_the_store_executes_merges_and_writes_files() {
    let directory = directory();
    let mut disk = Replica::over(create(directory.path(), 1));
    let mut workload = Workload::new(11);
    disk.execute_range(range(1, &workload.frames(1_000)));
    let expected = snapshot(&mut disk.executor);
    let mut writer = disk.executor.snapshot(CLUSTER, base(1_000)).expect("at the executed position");
    let mut bytes = Vec::new();
    while writer.step(disk.executor.store(), 1, &mut bytes).expect("a step").is_none() {
        disk.execute_range(range(disk.next(), &workload.frames(400)));
        disk.executor.store().merge_everything().expect("merged");
    }
    assert!(disk.executor.executed() > Position(1_800), "several steps");
    assert_eq!(bytes, expected);
}

#[test]
fn what_is_executed_is_there_after_a_clean_end_and_says_what_it_is() {
    let directory = directory();
    let mut disk = Replica::over(create(directory.path(), 7));
    disk.execute_range(range(1, &Workload::new(12).frames(200)));
    assert_eq!(disk.executor.persist(), Ok(Position(200)));
    let (digest, sessions) = (disk.digest(), disk.executor.sessions().len() as u64);
    let persister = disk.executor.store().persister();
    let synced = std::thread::spawn(move || persister.persist()).join().expect("no panic");
    assert_eq!(synced, Ok(Position(200)), "from another thread too");
    drop(disk);
    let (executor, report) = LsmStore::open(directory.path(), 7, options(), Position(200)).expect("opened");
    assert_eq!((report.position, report.sessions), (Position(200), sessions));
    assert!(report.entries > 100 && report.answers > 0 && report.disk_bytes > 0, "{report:?}");
    assert_eq!(executor.limits(), &limits());
    assert_eq!(Replica::over(executor).digest(), digest);
}

#[test]
fn a_store_that_lacks_what_the_log_no_longer_has_is_to_be_rebuilt() {
    let directory = directory();
    let mut disk = Replica::over(create(directory.path(), 1));
    disk.execute_range(range(1, &Workload::new(13).frames(10)));
    drop(disk);
    let error = LsmStore::open(directory.path(), 1, options(), Position(11)).map(drop).expect_err("one is missing");
    assert!(matches!(error, LsmOpenError::Behind { applied: Position(10), needed: Position(11) }), "{error}");
    assert!(error.must_rebuild());
    assert!(LsmStore::open(directory.path(), 1, options(), Position(10)).is_ok());
}

#[test]
fn a_store_that_is_open_is_not_opened_again_and_not_called_damaged() {
    let directory = directory();
    let first = create(directory.path(), 1);
    let error = open(directory.path(), 1).map(drop).expect_err("it is open");
    assert!(matches!(error, LsmOpenError::InUse) && !error.must_rebuild(), "{error}");
    drop(first);
    assert!(open(directory.path(), 1).is_ok());
}

#[test]
fn a_generation_that_is_missing_or_was_never_filled_to_its_end_is_to_be_rebuilt() {
    let directory = directory();
    let missing = open(directory.path(), 3).map(drop).expect_err("nothing there");
    assert!(matches!(missing, LsmOpenError::Damaged { .. }), "{missing}");
    assert!(generations(directory.path()).unwrap().is_empty(), "nothing was made");
    let loader = LsmLoader::create(directory.path(), 3, options(), limits()).expect("begun");
    drop(loader);
    let unfilled = open(directory.path(), 3).map(drop).expect_err("without a mark");
    assert!(unfilled.must_rebuild(), "{unfilled}");
    let again = LsmLoader::create(directory.path(), 3, options(), limits());
    assert!(again.is_ok(), "what lies there does not stop the next attempt");
}

#[test]
fn a_snapshot_that_turns_out_damaged_leaves_a_generation_that_nobody_can_open() {
    let directory = directory();
    let mut memory = Replica::with_limits(limits());
    memory.execute_range(range(1, &Workload::new(14).frames(800)));
    let mut bytes = snapshot(&mut memory.executor);
    let last = bytes.len() - 30;
    bytes[last] ^= 1;
    let loader = LsmLoader::create(directory.path(), 2, options(), limits()).expect("begun");
    let restoring = Restore::begin(file(&bytes), CLUSTER, &base(800), loader).expect("the beginning is sound");
    assert!(restoring.finish().is_err());
    assert!(open(directory.path(), 2).map(drop).expect_err("no mark").must_rebuild());
}

/// The files of a tree with this ending or, without one, its tables.
fn files(directory: &Path, is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                left.push(path);
            } else if is_wanted(&path) {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn rot_in_a_table_is_an_error_when_it_is_read_and_a_reason_to_rebuild_from_then_on() {
    let directory = directory();
    let mut store = create(directory.path(), 1).into_store();
    for key in 0..2_000_u32 {
        store.put(&key.to_be_bytes(), &[key as u8; 100]).expect("put");
    }
    store.commit(Position(1)).expect("committed");
    store.merge_everything().expect("merged");
    drop(store);
    let is_table = |path: &Path| {
        path.parent().is_some_and(|parent| parent.ends_with("tables")) && fs::metadata(path).unwrap().len() > 100_000
    };
    let tables = files(&generation_path(directory.path(), 1), is_table);
    assert!(!tables.is_empty());
    for table in tables {
        let mut bytes = fs::read(&table).expect("a table");
        let middle = bytes.len() / 2;
        bytes[middle..middle + 64].iter_mut().for_each(|byte| *byte ^= 0x55);
        fs::write(&table, bytes).expect("written");
    }
    let executor = open(directory.path(), 1).expect("opening reads only a part");
    let store = executor.into_store();
    let read = store.scan(Bound::Unbounded, Bound::Unbounded, |_, _| ControlFlow::Continue(()));
    assert!(matches!(read, Err(StoreError::Medium(_))), "{read:?}");
    drop(store);
    let error = open(directory.path(), 1).map(drop).expect_err("it is known to be damaged");
    assert!(matches!(error, LsmOpenError::Damaged { .. }), "{error}");
}

#[test]
fn only_the_live_generation_stays() {
    let directory = directory();
    for generation in [1, 2, 10] {
        create(directory.path(), generation);
    }
    for other in ["store-", "store-x", "store-03", "metadata.dat", "snapshot-0000000000000001.dat"] {
        fs::create_dir(directory.path().join(other)).expect("created");
    }
    assert_eq!(generations(directory.path()).unwrap(), [1, 2, 10]);
    assert_eq!(remove_other_generations(directory.path(), Some(2)).unwrap(), [1, 10]);
    assert_eq!(generations(directory.path()).unwrap(), [2]);
    assert!(open(directory.path(), 2).is_ok());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 6);
    assert_eq!(remove_other_generations(directory.path(), None).unwrap(), [2]);
}

#[test]
fn a_generation_that_exists_is_not_made_again() {
    let directory = directory();
    drop(create(directory.path(), 1));
    let error = LsmStore::create(directory.path(), 1, options(), limits()).map(drop).expect_err("it exists");
    assert!(matches!(error, LsmOpenError::Io(_)), "{error}");
}

#[test]
fn keys_longer_than_the_tree_can_hold_in_two_steps_are_refused_at_the_beginning() {
    let directory = directory();
    let limits = ReplicatedLimits { key_bytes: 200_000, ..limits() };
    let error = LsmStore::create(directory.path(), 1, options(), limits).map(drop).expect_err("too long");
    assert!(matches!(error, LsmOpenError::KeysTooLong { given: 200_000, .. }), "{error}");
}

#[test]
fn the_store_counts_what_it_does_and_what_held_it_up() {
    let directory = directory();
    let mut disk = Replica::over(create(directory.path(), 1));
    let before = disk.executor.store().figures();
    disk.execute_range(range(1, &[support::open(1, false)]));
    for _ in 0..10 {
        disk.run(&[Command::Put { key: b"key", value: &[1; 100] }]);
    }
    disk.executor.persist().expect("synced");
    let after = disk.executor.store().figures();
    assert_eq!((after.commits - before.commits, after.persists - before.persists), (11, 1));
    disk.executor.persist_later()().expect("synced");
    assert_eq!(disk.executor.store().figures().persists - before.persists, 2, "also those of other threads");
    assert!(after.write_bytes - before.write_bytes > 1_000 && after.commit_us_max > 0 && after.disk_bytes > 0);
    assert!(after.stall_us <= after.commit_us && after.stalls <= after.commits);
}
