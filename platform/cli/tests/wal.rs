//! `quorate wal check` and `dump` on real data directories, sound and damaged. Both change nothing.

#![allow(clippy::unwrap_used)] // Helpers of tests are tests, too.

mod common;

use bytes::Bytes;
use common::{folder, run, text};
use quorate_framework::entry::{EntryKind, GroupBuilder, share_entries};
use quorate_framework::{
    ClusterId, Digest, Incarnation, LOST_DATA, MemberVector, Position, RecoverySpec, ReplicaId, TicketSequence,
};
use quorate_raft::{HardState, RaftRecord, Term};
use quorate_recovery::{
    DirectoryVfs, Identity, MetadataChange, Pump, RecoveryBase, RecoveryError, StartOptions, Submission, WalSettings,
    current_boot,
};
use quorate_recovery_pbft::{PbftRecord, ViewMode, pbft_identity};
use quorate_recovery_raft::raft_identity;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

const SEGMENT: &str = "segment-0000000000000000.wal";

/// Numbers that are the same in every run.
fn numbers(mut state: u64) -> impl FnMut() -> u64 + Send + 'static {
    move || {
        state += 1;
        state
    }
}

fn raft() -> Identity {
    let replicated_settings = [("session_window", 8), ("answer_bytes", 100)];
    let replicated_settings = replicated_settings.map(|(name, value)| (name.to_owned(), value)).into();
    Identity { replicated_settings, ..raft_identity(ClusterId([7; 16]), ReplicaId(2)) }
}

/// The directory, locked. A process that another test is just starting holds every lock of this one until it has become another program,
/// so a lock that was let go may still be held for a moment.
fn opened(directory: &Path) -> DirectoryVfs {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match DirectoryVfs::open(directory) {
            Err(RecoveryError::Locked(_)) if Instant::now() < end => std::thread::yield_now(),
            other => return other.unwrap(),
        }
    }
}

fn start<S: RecoverySpec>(directory: &Path, identity: &Identity) -> Pump<S> {
    let vfs = opened(directory);
    let settings = WalSettings { segment_bytes: 64 << 10, free_segments: 0, ..WalSettings::default() };
    let random = Box::new(numbers(100));
    let options = StartOptions { identity: identity.clone(), boot: current_boot(), settings, random };
    RecoveryBase::<S>::open(Box::new(vfs), options).unwrap().pump
}

fn entries(first: u64, count: u64, term: u64) -> RaftRecord {
    let mut builder = GroupBuilder::new();
    for index in first..first + count {
        let head = [term.to_le_bytes(), index.to_le_bytes()].concat();
        builder.push(EntryKind::Request, &head, &Bytes::from(format!("value {index}")));
    }
    let mut chunks = Vec::new();
    share_entries(&builder.finish(), |chunk| chunks.push(chunk));
    RaftRecord::Entries { count: count as u32, last: Position(first + count - 1), chunks }
}

/// A replica that has voted and written three groups of entries.
fn written(directory: &Path, stop: bool) {
    RecoveryBase::<RaftRecord>::init(&opened(directory), &raft(), &mut numbers(9)).unwrap();
    let mut pump = start::<RaftRecord>(directory, &raft());
    let mut tickets = TicketSequence::default();
    let members = MemberVector::from([(ReplicaId(2), Incarnation(10)), (ReplicaId(3), Incarnation(0xff))]);
    let vote = RaftRecord::HardState(HardState { term: Term(4), voted_for: Some(ReplicaId(3)) });
    let groups = [
        vec![Submission::metadata(tickets.next_ticket(), MetadataChange::Members(members))],
        vec![Submission::record(tickets.next_ticket(), vote)],
        vec![Submission::record(tickets.next_ticket(), entries(1, 2, 4))],
        vec![Submission::record(tickets.next_ticket(), entries(3, 1, 4))],
        vec![
            Submission::record(tickets.next_ticket(), RaftRecord::Truncate { from: Position(3) }),
            Submission::record(tickets.next_ticket(), entries(3, 2, 4)),
        ],
    ];
    for group in groups {
        group.into_iter().for_each(|submission| pump.submit(submission).unwrap());
        while pump.run_group().unwrap().is_some() {}
    }
    if stop {
        pump.stop().unwrap();
    }
}

/// Everything that a look could change.
fn state(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            let bytes = fs::read(&path).unwrap();
            (path, (bytes, modified))
        })
        .collect()
}

fn flip(directory: &Path, file: &str, offset: u64) {
    let file = fs::File::options().read(true).write(true).open(directory.join(file)).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
}

fn sound(records: &str, end: &str, clean: &str) -> String {
    let cluster = "07".repeat(16);
    format!(
        "replica      replica 2 of cluster {cluster} (raft)\n\
         applied by   answer_bytes 100, session_window 8\n\
         incarnation  000000000000000a, started 1 times\n\
         formed with  2, 3\n\
         last run     wal_sync always, stopped cleanly: {clean}\n\
         snapshot     none\n\
         {records}{end}"
    )
}

const CLEAN_END: &str = "log          4 records in 4 groups, 16384 bytes in 1 segments\n\
    unused       0 segments\n\
    position     last 4\n\
    groups       last 4, known to be synced up to 3\n\
    torn tail    none\n\
    sound        yes: a start will accept this log\n";

#[test]
fn a_sound_directory_is_described_and_not_changed() {
    let folder = folder();
    written(folder.path(), true);
    let before = state(folder.path());
    let checked = run(&["wal", "check", text(folder.path())]);
    assert_eq!((checked.code, checked.err.as_str()), (0, ""));
    assert_eq!(checked.out, sound("", CLEAN_END, "yes"));
    let dumped = run(&["wal", "dump", text(folder.path())]);
    assert_eq!((dumped.code, dumped.err.as_str()), (0, ""));
    let records = format!(
        "{SEGMENT} 4096 group 1 (synced up to 0): entries 1 to 2, 66 bytes\n\
         {SEGMENT} 8192 group 2 (synced up to 1): entries 3 to 3, 33 bytes\n\
         {SEGMENT} 12288 group 3 (synced up to 2): truncate from 3\n\
         {SEGMENT} 12288 group 3 (synced up to 2): entries 3 to 4, 66 bytes\n"
    );
    assert_eq!(dumped.out, sound(&records, CLEAN_END, "yes"));
    assert_eq!(state(folder.path()), before, "looking changes nothing");
}

#[test]
fn programs_get_one_object_of_a_check_and_one_a_line_of_a_dump() {
    let folder = folder();
    written(folder.path(), true);
    let checked = run(&["wal", "check", text(folder.path()), "--output", "json"]);
    let report: Value = serde_json::from_str(&checked.out).unwrap();
    for (key, value) in [
        ("sound", json!(true)),
        ("in_use", json!(false)),
        ("records", json!(4)),
        ("groups", json!(4)),
        ("last_position", json!(4)),
        ("vouched_group", json!(3)),
        ("torn_bytes", json!(0)),
    ] {
        assert_eq!(report[key], value, "{key}: {report:#}");
    }
    assert_eq!(report["metadata"]["incarnation"], "000000000000000a");
    let settings = json!({ "answer_bytes": 100, "session_window": 8 });
    assert_eq!(report["metadata"]["replicated_settings"], settings);
    assert_eq!(report["metadata"]["members"][1], json!({ "id": 3, "incarnation": "00000000000000ff" }));
    let dumped = run(&["wal", "dump", text(folder.path()), "--output", "json"]);
    let lines: Vec<Value> = dumped.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let whats: Vec<&str> = lines.iter().map(|line| line["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["metadata", "record", "record", "record", "record", "end"]);
    assert_eq!(lines[0]["protocol"], "raft");
    let expected = json!({ "what": "record", "file": SEGMENT, "offset": 12288, "group": 3, "synced_upto": 2, "kind": "protocol",
        "record": { "type": "entries", "first": 3, "last": 4, "bytes": 66, "entries": [
            { "position": 3, "term": 4, "kind": "request", "payload_bytes": 7 },
            { "position": 4, "term": 4, "kind": "request", "payload_bytes": 7 }] } });
    assert_eq!(lines[4], expected);
    assert_eq!((&lines[5]["sound"], &lines[5]["records"]), (&json!(true), &json!(4)));
}

#[test]
fn rot_is_refused_with_file_and_offset_and_what_to_do_and_what_lies_before_it_is_shown() {
    let folder = folder();
    written(folder.path(), true);
    flip(folder.path(), SEGMENT, 8192 + 70);
    let before = state(folder.path());
    let directory = text(folder.path());
    let checked = run(&["wal", "check", directory]);
    assert_eq!((checked.code, checked.out.as_str()), (1, ""));
    assert!(checked.err.starts_with(&format!("error: {directory}: {SEGMENT} at byte 8192: ")), "{}", checked.err);
    assert!(checked.err.contains(LOST_DATA), "{}", checked.err);
    assert_eq!(checked.err.lines().count(), 1, "{}", checked.err);
    let dumped = run(&["wal", "dump", directory]);
    assert_eq!((dumped.code, &dumped.err), (1, &checked.err));
    let records = format!("{SEGMENT} 4096 group 1 (synced up to 0): entries 1 to 2, 66 bytes\n");
    assert_eq!(dumped.out, sound(&records, "", "yes"));
    let checked = run(&["wal", "check", directory, "--output", "json"]);
    let report: Value = serde_json::from_str(&checked.out).unwrap();
    assert_eq!(
        (checked.code, &report["sound"], &report["file"], &report["offset"]),
        (1, &json!(false), &json!(SEGMENT), &json!(8192))
    );
    let dumped = run(&["wal", "dump", directory, "--output", "json"]);
    let end: Value = serde_json::from_str(dumped.out.lines().last().unwrap()).unwrap();
    assert_eq!((dumped.code, &end["what"], &end["offset"]), (1, &json!("end"), &json!(8192)));
    assert_eq!(state(folder.path()), before, "looking changes nothing");
}

#[test]
fn a_torn_tail_is_told_and_left_as_it_is() {
    let folder = folder();
    written(folder.path(), false);
    // Nothing vouches for the last group after a crash.
    flip(folder.path(), SEGMENT, 12288 + 70);
    let before = state(folder.path());
    let checked = run(&["wal", "check", text(folder.path())]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    let end = "log          2 records in 2 groups, 8192 bytes in 1 segments\n\
        unused       0 segments\n\
        position     last 3\n\
        groups       last 2, known to be synced up to 1\n\
        torn tail    4096 bytes, never known to be synced: a start will cut them\n\
        sound        yes: a start will accept this log\n";
    assert_eq!(checked.out, sound("", end, "no"));
    assert_eq!(state(folder.path()), before, "looking changes nothing");
}

#[test]
fn damaged_or_missing_metadata_and_a_missing_log_are_told_with_what_to_do() {
    let folder = folder();
    let directory = text(folder.path());
    let empty = run(&["wal", "check", directory]);
    assert_eq!(empty.code, 2);
    assert!(empty.err.contains("holds no replica") && empty.err.contains("quorate init --bootstrap"), "{}", empty.err);
    written(folder.path(), true);
    flip(folder.path(), "metadata.dat", 30);
    let damaged = run(&["wal", "check", directory]);
    assert_eq!(damaged.code, 1);
    assert!(damaged.err.contains("metadata.dat is damaged (its CRC is wrong)"), "{}", damaged.err);
    let missing = |name: &str, told: &str| {
        let (from, to) = (folder.path().join(name), folder.path().join("elsewhere"));
        fs::rename(&from, &to).unwrap();
        let refused = run(&["wal", "dump", directory]);
        fs::rename(&to, &from).unwrap();
        assert_eq!(refused.code, 1, "{}", refused.out);
        assert!(refused.err.contains(told) && refused.err.contains(LOST_DATA), "{}", refused.err);
    };
    missing("metadata.dat", "metadata.dat is missing beside segment-");
    flip(folder.path(), "metadata.dat", 30);
    missing(SEGMENT, "the log is missing");
}

#[test]
fn a_directory_in_use_is_named_as_such() {
    let folder = folder();
    written(folder.path(), true);
    let running = start::<RaftRecord>(folder.path(), &raft());
    let checked = run(&["wal", "check", text(folder.path())]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(checked.out.contains("\nnote         a process uses this directory"), "{}", checked.out);
    drop(running);
    let end = Instant::now() + Duration::from_secs(20);
    while run(&["wal", "check", text(folder.path())]).out.contains("a process uses") {
        assert!(Instant::now() < end, "nothing uses it any more");
    }
}

#[test]
fn records_of_another_protocol_are_read_with_its_own_words_and_unknown_ones_refused_by_name() {
    let make = |directory: &Path, identity: &Identity| {
        RecoveryBase::<PbftRecord>::init(&opened(directory), identity, &mut numbers(9)).unwrap();
        let mut pump = start::<PbftRecord>(directory, identity);
        let mut tickets = TicketSequence::default();
        let (position, digest, body) = (Position(1), Digest([3; 32]), Bytes::from_static(b"batch"));
        for record in [
            PbftRecord::ViewState { view: 6, mode: ViewMode::Normal },
            PbftRecord::PrePrepare { view: 6, position, digest, body },
        ] {
            pump.submit(Submission::record(tickets.next_ticket(), record)).unwrap();
        }
        while pump.run_group().unwrap().is_some() {}
        pump.stop().unwrap();
    };
    let pbft = folder();
    make(pbft.path(), &pbft_identity(ClusterId([7; 16]), ReplicaId(2)));
    let dumped = run(&["wal", "dump", text(pbft.path())]);
    assert_eq!(dumped.code, 0, "{}", dumped.err);
    let records = format!(
        "{SEGMENT} 4096 group 1 (synced up to 0): view 6\n\
         {SEGMENT} 4096 group 1 (synced up to 0): pre-prepare 1 in view 6, 5 bytes\n"
    );
    assert!(dumped.out.contains(&records), "{}", dumped.out);
    let other = folder();
    make(other.path(), &Identity { protocol: "paxos".to_owned(), ..raft() });
    let refused = run(&["wal", "check", text(other.path())]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.err.contains("the protocol is 'paxos', whose records this version does not know"),
        "{}",
        refused.err
    );
}

#[test]
fn a_directory_that_is_none_is_bad_input_in_one_line() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for command in ["check", "dump"] {
        for path in [&file, &folder.path().join("no such folder")] {
            let refused = run(&["wal", command, text(path)]);
            assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{}", refused.err);
            assert!(refused.err.starts_with(&format!("error: {}: ", text(path))), "{}", refused.err);
            assert_eq!(refused.err.lines().count(), 1, "{}", refused.err);
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
