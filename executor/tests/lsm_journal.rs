//! The store on disk after a power cut: what it synced at a checkpoint is there, whatever became of its journals.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use bytes::Bytes;
use quorate_executor::lsm::{LsmLoader, LsmOpenError, LsmOptions, LsmStore, OpenReport, generation_path};
use quorate_executor::{Command, KvExecutor, Restore, StoreError};
use quorate_framework::{ClusterId, Digest, ExecutorCommand, Position, SnapshotBase};
use std::fs;
use std::path::{Path, PathBuf};
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
    /// there. So does what is found when it is opened again. Gives what each opening tells.
    fn check_states(&self, directory: &Path, least: u64) -> [OpenReport; 2] {
        [(); 2].map(|()| {
            let (executor, report) = open(directory, least).expect("opened");
            let mut found = Replica::over(executor);
            let position = report.position.0;
            assert_eq!((found.next(), found.digest()), (position + 1, self.digests[position as usize]));
            let next = &self.frames[position as usize..self.frames.len().min(position as usize + 2)];
            found.execute_range(range(found.next(), next));
            let executed = found.executor.executed().0;
            assert_eq!(found.digest(), self.digests[executed as usize], "gone on from {position} to {executed}");
            report
        })
    }

    /// [`Pair::check_states`]; and nothing is lost between the openings.
    fn check(&self, directory: &Path, least: u64) -> OpenReport {
        let [report, again] = self.check_states(directory, least);
        assert_eq!((again.position.0, again.dropped_journal_bytes), (report.position.0 + 2, 0));
        report
    }
}

/// Overwrites the sector of a journal in which a byte lies with zeros: it was never written.
fn lose_sector(journal: &mut [u8], byte: usize) {
    let begin = byte / SECTOR_BYTES * SECTOR_BYTES;
    let end = journal.len().min(begin + SECTOR_BYTES);
    journal[begin..end].fill(0);
}

#[test]
fn a_checkpoint_stands_without_any_journal() {
    let mut pair = Pair::new();
    (0..5).for_each(|_| pair.put(2_000));
    let checkpoint = pair.checkpoint();
    pair.put(2_000);
    let found = pair.cut();
    fs::write(journal(found.path(), 0), "").unwrap();
    let report = pair.check(found.path(), checkpoint);
    assert_eq!((report.position, report.dropped_journal_bytes), (Position(6), 0));
    assert_eq!(checkpoint, 6);
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
fn a_sector_lost_inside_a_value_takes_back_to_the_checkpoint_and_is_told() {
    let mut pair = Pair::new();
    pair.put(100 << 10);
    let checkpoint = pair.checkpoint();
    let checkpointed_bytes = written(pair.path()).len();
    (0..3).for_each(|_| pair.put(100 << 10));
    let found = pair.cut();
    let mut bytes = written(pair.path());
    lose_sector(&mut bytes, checkpointed_bytes + (150 << 10));
    fs::write(journal(found.path(), 0), &bytes).unwrap();
    let report = pair.check(found.path(), checkpoint);
    assert_eq!((checkpoint, report.position), (2, Position(2)));
    assert_eq!(report.dropped_journal_bytes, bytes.len() as u64);
}

#[test]
fn whichever_sector_of_the_journal_is_lost_a_start_finds_the_state_of_one_position_from_the_checkpoint_on() {
    let mut pair = Pair::new();
    (0..3).for_each(|number| pair.put(700 * number));
    let checkpoint = pair.checkpoint();
    (0..12).for_each(|number| pair.put(number * number * 33));
    let (whole, cut) = (written(pair.path()), pair.cut());
    let mut refused = 0;
    let sectors = whole.len().div_ceil(SECTOR_BYTES);
    assert!(sectors >= 40, "{sectors}");
    for sector in 0..sectors {
        let found = copy_of(cut.path());
        let mut bytes = whole.clone();
        lose_sector(&mut bytes, sector * SECTOR_BYTES);
        fs::write(journal(found.path(), 0), bytes).unwrap();
        let report = pair.check(found.path(), checkpoint);
        if report.dropped_journal_bytes > 0 {
            refused += 1;
            assert_eq!(report.position, Position(checkpoint), "sector {sector}");
        }
    }
    assert!(refused >= 10 && refused < sectors, "{refused} of {sectors}: some lie inside values, some do not");
}

#[test]
fn a_restored_store_and_a_fresh_one_stand_without_their_journals() {
    let mut pair = Pair::new();
    let found = pair.cut();
    fs::write(journal(found.path(), 0), "").unwrap();
    assert_eq!(pair.check(found.path(), 0).position, Position(0), "as it was made");

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
fn what_the_log_no_longer_has_is_missed_when_it_stood_in_a_lost_journal_only() {
    let mut pair = Pair::new();
    (0..4).for_each(|_| pair.put(2_000));
    let found = pair.cut();
    let mut bytes = written(pair.path());
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    fs::write(journal(found.path(), 0), bytes).unwrap();
    for _ in 0..2 {
        let error = open(found.path(), 1).map(drop).expect_err("nothing was checkpointed since it was made");
        assert!(matches!(error, LsmOpenError::Behind { applied: Position(0), needed: Position(1) }), "{error}");
    }
    assert_eq!(pair.check(found.path(), 0).position, Position(0));
}

/// A pair with a checkpoint whose journal is divided after a later batch as if the tree had begun another one there; gives its
/// directory, the checkpoint's position and that of the batch.
fn divided() -> (Pair, TempDir, u64, u64) {
    let mut pair = Pair::new();
    (0..2).for_each(|_| pair.put(1_000));
    let checkpoint = pair.checkpoint();
    (0..3).for_each(|_| pair.put(1_000));
    let (first, end) = (written(pair.path()), pair.disk.executor.executed().0);
    (0..3).for_each(|_| pair.put(1_000));
    let second = written(pair.path()).split_off(first.len());
    let found = pair.cut();
    fs::write(journal(found.path(), 0), first).unwrap();
    fs::write(journal(found.path(), 1), second).unwrap();
    (pair, found, checkpoint, end)
}

#[test]
fn of_several_journals_none_is_taken_since_rot_at_the_end_of_one_would_leave_a_hole() {
    let (pair, found, checkpoint, _) = divided();
    let report = pair.check(found.path(), checkpoint);
    assert_eq!((checkpoint, report.position), (3, Position(3)));
    assert!(report.dropped_journal_bytes > 6_000, "{report:?}");

    // First in what ends the last batch of the older one, where the crate takes it for the end of the journal.
    let (pair, divided, checkpoint, _) = divided();
    for place in 0..10 {
        let found = copy_of(divided.path());
        let mut first = fs::read(journal(found.path(), 0)).unwrap();
        let rotten = first.len() - 1 - place * 113;
        first[rotten] ^= 0x55;
        fs::write(journal(found.path(), 0), first).unwrap();
        assert_eq!(pair.check(found.path(), checkpoint).position, Position(checkpoint), "byte {rotten}");
    }
}

#[test]
fn a_start_that_is_cut_off_while_it_empties_journals_leaves_a_state_to_the_next() {
    // The newer one is emptied first.
    let (pair, found, checkpoint, end) = divided();
    fs::write(journal(found.path(), 1), "").unwrap();
    let [report, _] = pair.check_states(found.path(), checkpoint);
    assert_eq!((report.position, report.dropped_journal_bytes), (Position(end), 0));
    // And the older one is the one that is damaged.
    let (pair, found, checkpoint, _) = divided();
    fs::write(journal(found.path(), 1), "").unwrap();
    let mut first = fs::read(journal(found.path(), 0)).unwrap();
    let last_value = first.len() - 500;
    first[last_value] ^= 1;
    fs::write(journal(found.path(), 0), &first).unwrap();
    let report = pair.check(found.path(), checkpoint);
    assert_eq!((report.position, report.dropped_journal_bytes), (Position(checkpoint), first.len() as u64));
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
