//! Snapshots: what is written is what was executed up to one position; what is read is that, or an error.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use proptest::prelude::*;
use quorate_executor::snapshot::{
    MemoryLoader, RestoreReport, SECTION_BYTES, SYNC_EVERY_BYTES, SnapshotSummary, verify,
};
use quorate_executor::{
    Command, KvExecutor, MemoryStore, OrderedStore, ReplicatedLimits, Restore, SnapshotError, SnapshotFile,
    SnapshotName, SnapshotReader,
};
use quorate_framework::vfs::Vfs;
use quorate_framework::{ClusterId, ExecutorCommand, Position, SnapshotBase, SnapshotId, WireError};
use std::path::Path;
use support::files::{Directory, file};
use support::workload::{Workload, limits};
use support::{NONCE, Replica, block, open, range, session};

const CLUSTER: ClusterId = ClusterId([7; 16]);

fn base(position: u64) -> SnapshotBase {
    SnapshotBase { position: Position(position), protocol: b"term 3".to_vec(), membership: b"1, 2, 3".to_vec() }
}

fn base_of<S: OrderedStore>(replica: &Replica<S>) -> SnapshotBase {
    base(replica.executor.executed().0)
}

/// The bytes of a snapshot of a replica as it is.
fn snapshot<S: OrderedStore>(replica: &mut Replica<S>, budget_bytes: usize) -> (Vec<u8>, SnapshotSummary) {
    let base = base_of(replica);
    let mut writer = replica.executor.snapshot(CLUSTER, base).expect("at the executed position");
    let mut bytes = Vec::new();
    loop {
        if let Some(summary) = writer.step(replica.executor.store(), budget_bytes, &mut bytes).expect("a step") {
            return (bytes, summary);
        }
    }
}

fn restore(bytes: &[u8], position: u64) -> Result<(KvExecutor<MemoryStore>, RestoreReport), SnapshotError> {
    Restore::begin(file(bytes), CLUSTER, &base(position), MemoryLoader::default())?.finish()
}

/// After some thousand frames of every kind, with sessions and their answers.
fn worked(seed: u64, frames: usize) -> (Replica, Workload) {
    let (mut replica, mut workload) = (Replica::with_limits(limits()), Workload::new(seed));
    for frame in workload.frames(frames) {
        replica.execute(frame);
    }
    (replica, workload)
}

#[test]
fn a_restored_replica_is_in_the_same_state_and_goes_on_alike() {
    let (mut replica, mut workload) = worked(1, 3_000);
    let (bytes, summary) = snapshot(&mut replica, 1);
    let (executor, report) = restore(&bytes, 3_000).expect("what was written reads back");
    assert_eq!(
        (report.position, report.entries, report.sessions, report.answers, report.file_bytes),
        (Position(3_000), summary.entries, summary.sessions, summary.answers, bytes.len() as u64)
    );
    assert_eq!(report.entries, replica.executor.store().keys());
    assert_eq!(report.sessions, replica.executor.sessions().len() as u64);
    assert!(report.answers > 20 && report.sessions == 6, "{report:?}");
    let mut restored = Replica::over(executor);
    assert_eq!(restored.digest(), replica.digest());
    let later = range(3_001, &workload.frames(500));
    assert_eq!(restored.execute_range(later.clone()), replica.execute_range(later));
    assert_eq!(restored.digest(), replica.digest());
}

#[test]
fn execution_between_the_steps_does_not_show_in_the_snapshot() {
    let (mut replica, mut workload) = worked(2, 2_000);
    let (expected, _) = snapshot(&mut replica, usize::MAX);
    let mut writer = replica.executor.snapshot(CLUSTER, base(2_000)).expect("at the executed position");
    let mut bytes = Vec::new();
    while writer.step(replica.executor.store(), 1, &mut bytes).expect("a step").is_none() {
        replica.execute(workload.frame());
    }
    assert!(replica.executor.executed() > Position(2_002), "several steps");
    assert_eq!(bytes, expected);
    drop(writer);
    replica.execute(workload.frame());
    assert_eq!(replica.executor.store().live_views(), 0, "a writer that is dropped costs nothing");
}

#[test]
fn a_snapshot_is_taken_only_of_the_position_that_was_named() {
    let (mut replica, _) = worked(3, 10);
    for wanted in [9, 11] {
        let refused = replica.executor.snapshot(CLUSTER, base(wanted)).map(drop);
        assert!(matches!(refused, Err(SnapshotError::NotAt { executed: Position(10), .. })), "{refused:?}");
    }
}

#[test]
fn a_snapshot_shows_the_committed_state_while_more_is_executed_ahead() {
    let (mut replica, mut workload) = worked(4, 100);
    let (expected, _) = snapshot(&mut replica, usize::MAX);
    let ahead = range(101, &workload.frames(20));
    replica.apply(vec![ExecutorCommand::Speculate { base: block(100), range: ahead.clone() }]).expect("ahead");
    let (bytes, _) = snapshot(&mut replica, usize::MAX);
    assert_eq!(bytes, expected);
    assert!(replica.executor.is_ahead(), "what lies ahead outlives a snapshot");
    assert_eq!(replica.execute_range(ahead).transactions, 0, "and is promoted");
}

#[test]
fn a_value_larger_than_a_section_and_a_session_larger_than_one_are_restored() {
    let mut replica = Replica::with_session();
    let value = vec![5; 3 * SECTION_BYTES];
    replica.run(&[Command::Put { key: b"large", value: &value }, Command::Put { key: b"small", value: b"x" }]);
    for _ in 0..8 {
        replica.run(&[Command::Get { key: b"large" }]);
    }
    let (bytes, summary) = snapshot(&mut replica, 1);
    assert!(summary.sections > 8, "{summary:?}");
    let (executor, _) = restore(&bytes, 10).expect("what was written reads back");
    assert_eq!(Replica::over(executor).digest(), replica.digest());
}

#[test]
fn an_empty_state_is_restored_too() {
    let mut replica = Replica::new();
    let (bytes, summary) = snapshot(&mut replica, 1);
    assert_eq!((summary.sections, summary.entries, summary.sessions), (0, 0, 0));
    // Position 0 cannot be committed: a snapshot of nothing is never asked for, and never taken for one of something.
    assert!(verify(file(&bytes)).is_ok());
    let restored = restore(&bytes, 0);
    assert!(restored.is_err(), "{restored:?}");
}

/// Where the sections of a file begin and end.
fn sections(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let mut found = Vec::new();
    let mut start = 20 + word(12);
    while start < bytes.len() {
        let end = start + 16 + word(start + 8);
        found.push(start..end);
        start = end;
    }
    assert_eq!(start, bytes.len());
    found
}

/// Bytes with the CRC of the section at `start` made to fit.
fn mended(mut bytes: Vec<u8>, section: std::ops::Range<usize>) -> Vec<u8> {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[section.start..section.start + 12]);
    hasher.update(&bytes[section.start + 16..section.end]);
    bytes[section.start + 12..section.start + 16].copy_from_slice(&hasher.finalize().to_le_bytes());
    bytes
}

fn sample() -> Vec<u8> {
    let (mut replica, _) = worked(5, 1_500);
    let (bytes, summary) = snapshot(&mut replica, usize::MAX);
    assert!(summary.sections >= 2 && restore(&bytes, 1_500).is_ok());
    bytes
}

#[test]
fn a_file_cut_after_each_section_or_with_bytes_behind_the_end_is_an_error() {
    let bytes = sample();
    let mut cuts: Vec<usize> = sections(&bytes).iter().map(|section| section.start).collect();
    cuts.extend([0, 1, 19, 20, 60, bytes.len() - 1]);
    for cut in cuts {
        let read = restore(&bytes[..cut], 1_500);
        assert!(matches!(read, Err(SnapshotError::Damaged { reason: WireError::Short { .. }, .. })), "{cut}: {read:?}");
    }
    let read = restore(&[&bytes[..], &[0]].concat(), 1_500);
    assert!(matches!(read, Err(SnapshotError::Damaged { reason: WireError::Trailing { .. }, .. })), "{read:?}");
}

#[test]
fn an_unknown_section_and_sections_out_of_order_are_errors_although_every_checksum_fits() {
    let bytes = sample();
    let found = sections(&bytes);
    for place in 0..found.len() {
        for kind in [0_u8, 4, 200] {
            let mut changed = bytes.clone();
            changed[found[place].start] = kind;
            let read = restore(&mended(changed, found[place].clone()), 1_500);
            assert!(matches!(read, Err(SnapshotError::Damaged { .. })), "kind {kind} at {place}: {read:?}");
        }
        let without = [&bytes[..found[place].start], &bytes[found[place].end..]].concat();
        assert!(restore(&without, 1_500).is_err(), "without section {place}");
        let doubled = [&bytes[..found[place].end], &bytes[found[place].start..]].concat();
        assert!(restore(&doubled, 1_500).is_err(), "section {place} twice");
    }
    let (first, second) = (found[0].clone(), found[1].clone());
    let swapped = [&bytes[..first.start], &bytes[second.clone()], &bytes[first], &bytes[second.end..]].concat();
    assert!(restore(&swapped, 1_500).is_err());
}

#[test]
fn a_wrong_count_is_an_error_although_every_checksum_fits() {
    let bytes = sample();
    let found = sections(&bytes);
    for section in &found {
        for difference in [1, 255] {
            let mut changed = bytes.clone();
            changed[section.start + 4] = changed[section.start + 4].wrapping_add(difference);
            let read = restore(&mended(changed, section.clone()), 1_500);
            assert!(matches!(read, Err(SnapshotError::Damaged { .. })), "{read:?}");
        }
    }
    // Every number of the end section, the hash and the mark.
    let end = found.last().unwrap().clone();
    for place in (end.start + 16..end.end).step_by(8) {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        let read = restore(&mended(changed, end.clone()), 1_500);
        assert!(matches!(read, Err(SnapshotError::Damaged { .. })), "byte {place}: {read:?}");
    }
}

#[test]
fn a_snapshot_of_a_later_version_says_so() {
    let mut bytes = sample();
    bytes[8] = 2;
    let read = restore(&bytes, 1_500);
    assert!(matches!(read, Err(SnapshotError::UnknownVersion { found: 2, known: 1 })), "{read:?}");
}

#[test]
fn a_length_that_promises_too_much_allocates_nothing() {
    let bytes = sample();
    for at in [12, sections(&bytes)[0].start + 8] {
        let mut changed = bytes.clone();
        changed[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(restore(&changed, 1_500), Err(SnapshotError::Damaged { .. })));
    }
}

#[test]
fn the_snapshot_of_another_cluster_position_or_membership_is_not_installed() {
    let bytes = sample();
    let begin =
        |cluster, base: &SnapshotBase| Restore::begin(file(&bytes), cluster, base, MemoryLoader::default()).map(drop);
    assert!(begin(CLUSTER, &base(1_500)).is_ok());
    let other = begin(ClusterId([8; 16]), &base(1_500));
    assert!(matches!(other, Err(SnapshotError::Foreign { what: "cluster" })), "{other:?}");
    let other = begin(CLUSTER, &base(1_499));
    assert!(matches!(other, Err(SnapshotError::Foreign { what: "position" })), "{other:?}");
    let other = begin(CLUSTER, &SnapshotBase { membership: b"1, 2".to_vec(), ..base(1_500) });
    assert!(matches!(other, Err(SnapshotError::Foreign { what: "membership" })), "{other:?}");
    let other = begin(CLUSTER, &SnapshotBase { protocol: b"term 4".to_vec(), ..base(1_500) });
    assert!(matches!(other, Err(SnapshotError::Foreign { what: "protocol state" })), "{other:?}");
}

#[test]
fn more_sessions_than_the_limits_in_the_same_file_allow_are_an_error() {
    let mut replica = Replica::with_limits(ReplicatedLimits { sessions: 3, ..ReplicatedLimits::default() });
    for nonce in 1..4 {
        replica.execute(open(NONCE + nonce, false));
    }
    let (mut bytes, _) = snapshot(&mut replica, usize::MAX);
    assert!(restore(&bytes, 3).is_ok());
    // The limit stands at a fixed place of the header; the header's CRC is made to fit.
    let limit = 20 + 16 + 8 + 32 + 20;
    assert_eq!(bytes[limit], 3);
    bytes[limit] = 2;
    let length = 20 + u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..16]);
    hasher.update(&bytes[20..length]);
    bytes[16..20].copy_from_slice(&hasher.finalize().to_le_bytes());
    let read = restore(&bytes, 3);
    assert!(matches!(read, Err(SnapshotError::Damaged { reason: WireError::TooLarge { .. }, .. })), "{read:?}");
}

proptest! {
    #[test]
    fn any_changed_byte_is_noticed(place in any::<prop::sample::Index>(), difference in 1..=255_u8) {
        thread_local!(static SAMPLE: Vec<u8> = sample());
        let mut bytes = SAMPLE.with(Clone::clone);
        let place = place.index(bytes.len());
        bytes[place] ^= difference;
        prop_assert!(restore(&bytes, 1_500).is_err());
        prop_assert!(verify(file(&bytes)).is_err());
    }

    #[test]
    fn arbitrary_bytes_behind_a_sound_header_never_make_reading_panic(tail in prop::collection::vec(any::<u8>(), 0..300)) {
        let (mut replica, _) = worked(6, 1);
        let (bytes, _) = snapshot(&mut replica, usize::MAX);
        let header = sections(&bytes)[0].start;
        prop_assert!(restore(&[&bytes[..header], &tail].concat(), 1).is_err());
        prop_assert!(restore(&tail, 1).is_err());
    }
}

#[test]
fn a_restore_in_steps_gives_what_one_at_once_gives() {
    let mut replica = Replica::with_session();
    for first in (0..4_000_u32).step_by(8) {
        let keys: Vec<[u8; 4]> = (first..first + 8).map(u32::to_be_bytes).collect();
        let puts: Vec<Command<'_>> = keys.iter().map(|key| Command::Put { key, value: &[1; 200] }).collect();
        replica.run(&puts);
    }
    let (bytes, summary) = snapshot(&mut replica, usize::MAX);
    let mut steps = 1;
    let mut stepping =
        Restore::begin(file(&bytes), CLUSTER, &base_of(&replica), MemoryLoader::default()).expect("a snapshot");
    while !stepping.step(1).expect("a step") {
        steps += 1;
    }
    assert!(steps >= summary.sections - 2 && steps > 4, "{steps} steps, {summary:?}");
    let (executor, report) = stepping.finish().expect("all was read");
    assert_eq!(report.entries, 4_000);
    assert_eq!(Replica::over(executor).digest(), replica.digest());
    assert!(replica.executor.sessions().contains(session(1)));
}

#[test]
fn a_file_gets_its_name_only_when_it_is_synced_and_the_directory_after_that() {
    let directory = Directory::default();
    let (mut replica, _) = worked(7, 300);
    let mut writer = replica.executor.snapshot(CLUSTER, base(300)).expect("at the executed position");
    let mut target = SnapshotFile::create(&directory, SnapshotName::Temporary(Position(300))).expect("a file");
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let done = writer.step(replica.executor.store(), 1, &mut bytes).expect("a step");
        target.append(&bytes).expect("written");
        if done.is_some() {
            break;
        }
    }
    let name = target.finish(&directory, Position(300)).expect("finished");
    assert_eq!(
        directory.calls(),
        [
            "create snapshot-000000000000012c.tmp",
            "write",
            "sync",
            "rename snapshot-000000000000012c.tmp snapshot-000000000000012c.dat",
            "sync directory",
        ]
    );
    assert_eq!(name, SnapshotName::Complete(Position(300)));
    let reader = SnapshotReader::open(directory.open(&name.path()).expect("it is there")).expect("a snapshot");
    assert_eq!(reader.header().base, base(300));
    let (header, _) = verify(directory.open(&name.path()).expect("it is there")).expect("sound");
    assert_eq!(header.block, block(300));
}

#[test]
fn a_long_file_is_synced_every_few_writes_and_not_all_at_its_end() {
    let directory = Directory::default();
    let mut target = SnapshotFile::create(&directory, SnapshotName::Temporary(Position(1))).expect("a file");
    let quarter = vec![0; SYNC_EVERY_BYTES as usize / 4];
    for _ in 0..9 {
        target.append(&quarter).expect("written");
    }
    assert_eq!(directory.calls(), ["create snapshot-0000000000000001.tmp", "write", "sync", "write", "sync", "write"]);
    directory.fail(Some("sync"));
    target.append(&quarter).and_then(|()| target.append(&quarter)).expect("not due yet");
    assert!(matches!(target.append(&quarter), Err(SnapshotError::File { .. })));
    directory.fail(None);
    assert!(matches!(target.finish(&directory, Position(1)), Err(SnapshotError::FailedBefore)));
}

#[test]
fn after_a_failed_write_or_sync_a_file_is_never_finished() {
    for failing in ["write", "sync", "rename", "sync directory"] {
        let directory = Directory::default();
        let name = SnapshotName::Temporary(Position(1));
        let mut target = SnapshotFile::create(&directory, name).expect("a file");
        target.append(b"some").expect("written");
        directory.fail(Some(failing));
        if failing == "write" {
            assert!(matches!(target.append(b"more"), Err(SnapshotError::File { .. })));
            directory.fail(None);
            assert!(matches!(target.append(b"more"), Err(SnapshotError::FailedBefore)));
            directory.calls();
            assert!(matches!(target.finish(&directory, Position(1)), Err(SnapshotError::FailedBefore)));
            assert!(directory.calls().is_empty(), "not even synced");
        } else {
            assert!(matches!(target.finish(&directory, Position(1)), Err(SnapshotError::File { .. })));
            let named = directory.list().unwrap().contains(&SnapshotName::Complete(Position(1)).path());
            assert_eq!(named, failing == "sync directory", "{failing}");
        }
    }
}

#[test]
fn files_that_are_not_to_be_kept_are_removed_and_others_left_alone() {
    let directory = Directory::default();
    let keep = SnapshotName::Complete(Position(9));
    let strays = [
        SnapshotName::Complete(Position(8)),
        SnapshotName::Temporary(Position(9)),
        SnapshotName::Fetched(SnapshotId(77)),
    ];
    let foreign = ["metadata.dat", "snapshot-9.dat", "snapshot-0000000000000008.dat.old", "store-1"];
    for path in strays.iter().chain([&keep]).map(|name| name.path()).chain(foreign.map(|name| Path::new(name).into())) {
        directory.create(&path).expect("created");
    }
    let mut removed = SnapshotName::remove_others(&directory, &[keep]).expect("removed");
    removed.sort_by_key(|name| name.path());
    assert_eq!(removed, strays);
    let left = directory.list().unwrap();
    assert_eq!(left.len(), foreign.len() + 1);
    assert!(left.contains(&keep.path()));
}

#[test]
fn a_file_that_was_left_unfinished_is_begun_anew() {
    let directory = Directory::default();
    let name = SnapshotName::Temporary(Position(4));
    SnapshotFile::create(&directory, name).expect("a file").append(b"an earlier attempt").expect("written");
    let mut again = SnapshotFile::create(&directory, name).expect("again");
    again.append(b"new").expect("written");
    let complete = again.finish(&directory, Position(4)).expect("finished");
    assert_eq!(directory.bytes(&complete.path()), b"new");
}
