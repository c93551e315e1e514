//! The store on disk after a power cut: what it synced at a checkpoint is there, whatever became of its journals.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use bytes::Bytes;
use quorate_executor::lsm::{LsmLoader, LsmOpenError, LsmOptions, LsmStore, OpenReport, generation_path};
use quorate_executor::{Command, KeyValue, KvExecutor, OrderedStore, Restore, StoreError};
use quorate_framework::{ClusterId, Digest, ExecutorCommand, Position, SnapshotBase};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use support::files;
use support::workload::{Workload, limits};
use support::{Replica, frame, open as open_session, range, session};
use tempfile::TempDir;

const CLUSTER: ClusterId = ClusterId([7; 16]);
const SECTOR_BYTES: usize = 512;

fn options() -> LsmOptions {
    LsmOptions { cache_bytes: 1 << 20, journal_bytes: 64 << 20, ..LsmOptions::default() }
}

fn open(directory: &Path, needed: u64) -> Result<(KvExecutor<LsmStore>, OpenReport), LsmOpenError> {
    LsmStore::open(directory, 1, options(), Position(needed))
}

fn journal(directory: &Path, number: u32) -> PathBuf {
    generation_path(directory, 1).join(format!("lsm/{number}.jnl"))
}

/// The bytes of the first journal without the zeros at its end.
fn written(directory: &Path) -> Vec<u8> {
    let mut bytes = fs::read(journal(directory, 0)).expect("a journal");
    bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    bytes
}

/// A copy of a data directory, as it would be found after the process was gone: what an open store holds in memory is not in it.
fn copy_of(directory: &Path) -> TempDir {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).expect("a directory");
        for entry in fs::read_dir(from).expect("a directory") {
            let (from, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).expect("an entry");
            if from.is_dir() {
                copy(&from, &to);
            } else if from.extension().is_some_and(|ending| ending == "jnl") {
                // 64 MiB long, and nearly all of it zeros.
                let mut bytes = fs::read(&from).expect("a journal");
                bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
                fs::write(&to, bytes).expect("written");
            } else {
                fs::copy(&from, &to).expect("copied");
            }
        }
    }
    let found = tempfile::tempdir().expect("a temporary directory");
    copy(directory, found.path());
    found
}

/// A store on disk, one in memory beside it that executes the same, and the digest at each position.
struct Pair {
    directory: TempDir,
    disk: Replica<LsmStore>,
    memory: Replica,
    frames: Vec<Bytes>,
    digests: Vec<Digest>,
}

impl Pair {
    fn new() -> Pair {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let disk = LsmStore::create(directory.path(), 1, options(), limits()).expect("a fresh generation");
        let mut memory = Replica::with_limits(limits());
        let digests = vec![memory.digest()];
        let mut pair = Pair { directory, disk: Replica::over(disk), memory, frames: Vec::new(), digests };
        pair.execute_in_memory(open_session(1, false));
        pair.disk.execute(pair.frames[0].clone());
        pair
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A batch with one value of this many bytes, none of which is zero, under a key that later batches write again.
    fn put(&mut self, value_bytes: usize) {
        self.put_in_memory(value_bytes);
        self.disk.execute(self.frames[self.frames.len() - 1].clone());
    }

    fn put_in_memory(&mut self, value_bytes: usize) {
        let position = self.memory.next();
        let (key, value) = (format!("key {}", position % 3), vec![b'a' + (position % 26) as u8; value_bytes]);
        let put = Command::Put { key: key.as_bytes(), value: &value };
        self.execute_in_memory(frame(session(1), position - 1, &[put]));
    }

    fn execute_in_memory(&mut self, frame: Bytes) {
        self.memory.execute(frame.clone());
        self.frames.push(frame);
        self.digests.push(self.memory.digest());
    }

    /// What is executed is checkpointed; gives its position.
    fn checkpoint(&mut self) -> u64 {
        self.disk.executor.persist().expect("written out").0
    }

    /// The directory as a power cut leaves it, but for what it takes from the journals. What follows is executed in memory only.
    fn cut(&mut self) -> TempDir {
        while self.memory.next() <= self.disk.next() + 1 {
            self.put_in_memory(3_000);
        }
        copy_of(self.path())
    }

    /// The store that is found here is at one of the positions from `least` on, in the state that belongs to it, and goes on from
    /// there; nothing is lost between two openings. Gives the position.
    fn check(&self, directory: &Path, least: u64) -> u64 {
        let positions = [(); 2].map(|()| {
            let (executor, report) = open(directory, least).expect("opened");
            let mut found = Replica::over(executor);
            let position = report.position.0;
            assert_eq!((found.next(), found.digest()), (position + 1, self.digests[position as usize]));
            let next = &self.frames[position as usize..self.frames.len().min(position as usize + 2)];
            found.execute_range(range(found.next(), next));
            let executed = found.executor.executed().0;
            assert_eq!(found.digest(), self.digests[executed as usize], "gone on from {position} to {executed}");
            position
        });
        assert_eq!(positions[1], positions[0] + 2);
        positions[0]
    }
}

#[test]
fn a_checkpoint_stands_without_any_journal() {
    let mut pair = Pair::new();
    (0..5).for_each(|_| pair.put(2_000));
    assert_eq!(pair.checkpoint(), 6);
    pair.put(2_000);
    let found = pair.cut();
    fs::write(journal(found.path(), 0), "").unwrap();
    assert_eq!(pair.check(found.path(), 6), 6);
}

#[test]
fn a_checkpoint_from_another_thread_stands_without_any_journal_and_holds_what_was_committed_when_it_was_ordered() {
    let mut pair = Pair::new();
    (0..5).for_each(|_| pair.put(2_000));
    let writing = std::thread::spawn(pair.disk.executor.persist_later());
    (0..5).for_each(|_| pair.put(2_000));
    assert_eq!(writing.join().expect("no panic"), Ok(Position(6)));
    let found = pair.cut();
    fs::write(journal(found.path(), 0), "").unwrap();
    pair.check(found.path(), 6);
}

#[test]
fn whatever_is_lost_or_rotten_in_a_journal_a_start_finds_the_state_of_the_tables() {
    let mut pair = Pair::new();
    (0..3).for_each(|number| pair.put(700 * number));
    let checkpoint = pair.checkpoint();
    (0..12).for_each(|number| pair.put(number * number * 33));
    let (whole, cut) = (written(pair.path()), pair.cut());
    let spoil = |change: &dyn Fn(&mut Vec<u8>)| {
        let found = copy_of(cut.path());
        let mut bytes = whole.clone();
        change(&mut bytes);
        fs::write(journal(found.path(), 0), bytes).unwrap();
        assert_eq!(pair.check(found.path(), checkpoint), checkpoint);
    };
    spoil(&|_| ());
    for sector in whole
        .chunks(SECTOR_BYTES)
        .enumerate()
        .map(|(number, bytes)| number * SECTOR_BYTES..number * SECTOR_BYTES + bytes.len())
    {
        spoil(&|bytes| bytes[sector.clone()].fill(0));
    }
    // The first batch behind the checkpoint among them, with its number, which the crate's checksums do not cover.
    let behind = whole.len() / 5;
    for byte in behind..behind + 60 {
        spoil(&|bytes| bytes[byte] ^= 1 << (byte % 8));
    }
    for length in [0, 1, behind, whole.len() - 1] {
        spoil(&|bytes| bytes.truncate(length));
    }
}

#[test]
fn of_several_journals_none_is_taken_either() {
    let mut pair = Pair::new();
    (0..2).for_each(|_| pair.put(1_000));
    let checkpoint = pair.checkpoint();
    (0..3).for_each(|_| pair.put(1_000));
    let first = written(pair.path());
    (0..3).for_each(|_| pair.put(1_000));
    let second = written(pair.path()).split_off(first.len());
    let found = pair.cut();
    // What ends the last batch of the older one is rotten: the crate would take it for the end of that journal, and go on with the next.
    let mut rotten = first;
    *rotten.last_mut().expect("bytes") ^= 0x55;
    fs::write(journal(found.path(), 0), rotten).unwrap();
    fs::write(journal(found.path(), 1), second).unwrap();
    assert_eq!(pair.check(found.path(), checkpoint), checkpoint);
}

#[test]
fn a_restored_store_and_a_fresh_one_stand_without_their_journals() {
    let mut pair = Pair::new();
    let found = pair.cut();
    fs::write(journal(found.path(), 0), "").unwrap();
    assert_eq!(pair.check(found.path(), 0), 0, "as it was made");

    let mut source = Replica::with_limits(limits());
    source.execute_range(range(1, &Workload::new(3).frames(500)));
    let base = SnapshotBase { position: Position(500), protocol: vec![1], membership: vec![2] };
    let mut writer = source.executor.snapshot(CLUSTER, base.clone()).expect("at the executed position");
    let mut bytes = Vec::new();
    while writer.step(source.executor.store(), 1 << 20, &mut bytes).expect("a step").is_none() {}
    let directory = tempfile::tempdir().expect("a temporary directory");
    let loader = LsmLoader::create(directory.path(), 1, options(), limits()).expect("begun");
    let restoring = Restore::begin(files::file(&bytes), CLUSTER, &base, loader).expect("a snapshot");
    let restored = restoring.finish().expect("restored").0;
    let found = copy_of(directory.path());
    drop(restored);
    fs::write(journal(found.path(), 0), "").unwrap();
    let (executor, _) = open(found.path(), 500).expect("in tables, all of it");
    assert_eq!(Replica::over(executor).digest(), source.digest());
}

#[test]
fn what_the_log_no_longer_has_is_missed_when_it_stood_in_no_table() {
    let mut pair = Pair::new();
    (0..4).for_each(|_| pair.put(2_000));
    let found = pair.cut();
    for _ in 0..2 {
        let error = open(found.path(), 1).map(drop).expect_err("nothing was checkpointed since it was made");
        assert!(matches!(error, LsmOpenError::Behind { applied: Position(0), needed: Position(1) }), "{error}");
    }
    assert_eq!(pair.check(found.path(), 0), 0);
}

#[test]
fn a_commit_never_waits_for_a_thread_of_the_tree_that_has_failed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // Each commit sets a memory table aside, faster than they are written out.
    let hurried = LsmOptions { memory_table_bytes: 1, ..options() };
    let mut store = LsmStore::create(directory.path(), 1, hurried, limits()).expect("a fresh generation").into_store();
    let (told, heard) = std::sync::mpsc::channel();
    let tables = generation_path(directory.path(), 1).join("lsm/keyspaces/1/tables");
    std::thread::spawn(move || {
        let failed = (1..).find_map(|position: u64| {
            store.put(&position.to_be_bytes(), &[7; 100]).expect("into the open batch");
            let error = store.commit(Position(position)).err();
            if position == 50 {
                told.send(None).expect("somebody waits");
            }
            error
        });
        told.send(failed).expect("somebody waits");
    });
    assert_eq!(heard.recv().expect("commits succeed"), None);
    fs::rename(&tables, tables.with_file_name("elsewhere")).unwrap();
    let failed = heard.recv_timeout(Duration::from_secs(60)).expect("an end to it").expect("an error");
    assert!(matches!(failed, StoreError::Medium(_)), "{failed}");
}

#[test]
fn a_checkpoint_that_cannot_be_written_ends_with_an_error_and_so_does_all_that_follows() {
    let mut pair = Pair::new();
    pair.put(2_000);
    let keyspace = generation_path(pair.path(), 1).join("lsm/keyspaces/1");
    fs::rename(keyspace.join("tables"), keyspace.join("elsewhere")).unwrap();
    fs::write(keyspace.join("tables"), "no directory").unwrap();
    let persister = pair.disk.executor.store().persister();
    let failed = pair.disk.executor.persist().unwrap_err();
    assert!(failed.to_string().starts_with("the store failed: files cannot be read or written: "), "{failed}");
    assert!(matches!(persister.persist(), Err(StoreError::Medium(_))), "from another thread too");
    let next = range(pair.disk.next(), &[frame(session(1), 2, &[])]);
    let answered = pair.disk.apply(vec![ExecutorCommand::Execute { range: next, answers: true }]);
    assert_eq!(answered.unwrap_err(), failed);
}
