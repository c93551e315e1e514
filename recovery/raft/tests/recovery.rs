//! A Raft replica's data, written and read back through the shared log.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use quorate_framework::entry::{EntryKind, GroupBuilder, share_entries};
use quorate_framework::vfs::Vfs;
use quorate_framework::{ClusterId, Incarnation, MemberVector, Position, ReplicaId, Ticket, TicketSequence};
use quorate_raft::{HardState, RaftRecord, Term};
use quorate_recovery::{
    DirectoryVfs, FlushLinger, Identity, Pump, Recovered, RecoveryError, StartOptions, Submission, WalSettings,
    WalWriterLoop, check, current_boot, dump,
};
use quorate_recovery_raft::{RaftRecovery, describe, raft_identity, snapshot_change};
use quorate_simulated_disk::{CrashPolicy, SimulatedDisk};

fn identity() -> Identity {
    raft_identity(ClusterId([7; 16]), ReplicaId(1))
}

fn numbers(seed: u64) -> impl FnMut() -> u64 + Send + 'static {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    }
}

fn open_on(vfs: Box<dyn Vfs>, seed: u64) -> Result<Recovered<RaftRecord>, RecoveryError> {
    let settings = WalSettings { segment_bytes: 32 << 10, ..WalSettings::default() };
    let random = Box::new(numbers(seed));
    RaftRecovery::open(vfs, StartOptions { identity: identity(), boot: current_boot(), settings, random })
}

fn entries(range: std::ops::RangeInclusive<u64>, term: u64) -> RaftRecord {
    let mut builder = GroupBuilder::new();
    let last = Position(*range.end());
    let count = range.clone().count() as u32;
    for index in range {
        let head = [term.to_le_bytes(), index.to_le_bytes()].concat();
        let large = if index % 5 == 0 { 5000 } else { 30 };
        builder.push(EntryKind::Request, &head, &Bytes::from(format!("{index:<large$}")));
    }
    let mut chunks = Vec::new();
    share_entries(&builder.finish(), |chunk| chunks.push(chunk));
    RaftRecord::Entries { count, last, chunks }
}

fn members() -> MemberVector {
    MemberVector::from([(ReplicaId(1), Incarnation(1)), (ReplicaId(2), Incarnation(2))])
}

struct Writer {
    pump: Pump<RaftRecord>,
    tickets: TicketSequence,
}

impl Writer {
    fn on(disk: &SimulatedDisk, seed: u64) -> Writer {
        Writer { pump: open_on(Box::new(disk.mount()), seed).unwrap().pump, tickets: TicketSequence::default() }
    }

    fn persist(&mut self, submission: impl FnOnce(Ticket) -> Submission<RaftRecord>) {
        self.pump.submit(submission(self.tickets.next_ticket())).unwrap();
        while self.pump.run_group().unwrap().is_some() {}
    }

    fn record(&mut self, record: RaftRecord) {
        self.persist(|ticket| Submission::record(ticket, record));
    }

    fn snapshot(&mut self, position: u64, term: u64, released: u64) {
        let change = snapshot_change(Position(position), Term(term), &members(), position, Position(released));
        self.persist(|ticket| Submission::metadata(ticket, change));
    }
}

fn fresh() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    RaftRecovery::init(&disk, &identity(), &mut numbers(9)).unwrap();
    disk
}

fn recovered_indexes(state: &quorate_raft::RaftState) -> Vec<u64> {
    let index = |entry: &quorate_framework::entry::Entry| u64::from_le_bytes(entry.head()[8..].try_into().unwrap());
    state.entries.iter().map(index).collect()
}

#[test]
fn term_vote_and_log_come_back_as_they_were_acknowledged() {
    let disk = fresh();
    let mut writer = Writer::on(&disk, 1);
    let vote = HardState { term: Term(2), voted_for: Some(ReplicaId(2)) };
    writer.record(entries(1..=7, 1));
    writer.record(RaftRecord::HardState(vote));
    writer.record(RaftRecord::Truncate { from: Position(6) });
    writer.record(entries(6..=12, 2));
    disk.crash(CrashPolicy::SyncedOnly);
    let recovered = open_on(Box::new(disk.mount()), 2).unwrap();
    assert_eq!(recovered.state.hard_state, vote);
    assert_eq!(recovered_indexes(&recovered.state), (1..=12).collect::<Vec<u64>>());
    assert_eq!(recovered.state.entries[5].head()[..8], 2u64.to_le_bytes());
    assert_eq!(recovered.state.entries[9].payload().len(), 5000);
    assert_eq!((recovered.report.anomalies.len(), recovered.report.last_position), (0, Position(12)));
}

#[test]
fn a_checkpoint_below_the_tail_loses_no_entry_after_it_and_names_the_members_of_its_position() {
    let disk = fresh();
    let mut writer = Writer::on(&disk, 1);
    writer.record(RaftRecord::HardState(HardState { term: Term(1), voted_for: None }));
    for index in 1..=30 {
        writer.record(entries(index..=index, 1));
    }
    writer.snapshot(20, 1, 15);
    while writer.pump.has_maintenance() {
        writer.pump.maintain().unwrap();
    }
    assert!(writer.pump.metadata().first_group > 1);
    disk.crash(CrashPolicy::SyncedOnly);
    let recovered = open_on(Box::new(disk.mount()), 2).unwrap();
    assert_eq!(recovered.state.snapshot, (Position(20), Term(1)));
    let (base, _) = recovered.state.base;
    assert!(base < Position(20), "what the last segments still hold serves followers that are a little behind");
    assert_eq!(recovered_indexes(&recovered.state), (base.0 + 1..=30).collect::<Vec<u64>>());
    let snapshot = recovered.pump.metadata().snapshot.clone().unwrap();
    let named: MemberVector = quorate_framework::control::decode("members", &snapshot.membership).unwrap();
    assert_eq!(named, members());
}

#[test]
fn an_install_that_was_cut_off_after_its_commit_point_is_finished_by_the_start_once() {
    let disk = fresh();
    let mut writer = Writer::on(&disk, 1);
    writer.record(RaftRecord::HardState(HardState { term: Term(3), voted_for: None }));
    writer.record(entries(1..=5, 1));
    writer.snapshot(40, 3, 0);
    disk.crash(CrashPolicy::SyncedOnly);
    let recovered = open_on(Box::new(disk.mount()), 2).unwrap();
    assert_eq!((recovered.state.base, recovered.state.entries.len()), ((Position(40), Term(3)), 0));
    let mut resets = 0;
    dump::<RaftRecord>(&disk, None, &mut |record| {
        resets += u64::from(matches!(record.record, Some(RaftRecord::Reset { .. })));
    })
    .unwrap();
    assert_eq!(resets, 1, "written before the start returned");
    let mut writer = Writer { pump: recovered.pump, tickets: TicketSequence::default() };
    writer.record(entries(41..=42, 3));
    disk.crash(CrashPolicy::SyncedOnly);
    let again = open_on(Box::new(disk.mount()), 3).unwrap();
    assert_eq!(recovered_indexes(&again.state), [41, 42]);
    assert_eq!(again.report.records, 3, "two groups of entries, one reset, and no second one: {}", again.report);
}

#[test]
fn a_log_ahead_of_the_metadatas_term_is_reported() {
    let disk = fresh();
    Writer::on(&disk, 1).record(entries(1..=2, 6));
    disk.crash(CrashPolicy::SyncedOnly);
    let recovered = open_on(Box::new(disk.mount()), 2).unwrap();
    assert_eq!(recovered.report.anomalies, ["the log knows term 6, the metadata only term 0: term 6 is taken"]);
}

#[test]
fn a_truncation_below_a_reset_in_the_log_is_refused_with_file_and_offset() {
    let disk = fresh();
    let mut writer = Writer::on(&disk, 1);
    writer.snapshot(10, 1, 0);
    writer.record(RaftRecord::Reset { position: Position(10), term: Term(1) });
    writer.record(RaftRecord::Truncate { from: Position(10) });
    disk.crash(CrashPolicy::SyncedOnly);
    let error = open_on(Box::new(disk.mount()), 2).err().unwrap();
    assert!(matches!(&error, RecoveryError::Replay { offset: 8192, .. }), "{error}");
}

#[test]
fn a_dump_says_in_one_line_what_each_record_is() {
    let disk = fresh();
    let mut writer = Writer::on(&disk, 1);
    writer.record(entries(1..=3, 1));
    writer.record(RaftRecord::Truncate { from: Position(3) });
    let mut lines = Vec::new();
    let report = dump::<RaftRecord>(&disk, Some(&identity()), &mut |record| lines.push(describe(&record))).unwrap();
    assert_eq!(report.last_position, Position(3));
    let name = "segment-0000000000000000.wal";
    assert_eq!(
        lines,
        [
            format!("{name} 4096 group 1 (synced up to 0): entries 1 to 3, 168 bytes"),
            format!("{name} 8192 group 2 (synced up to 1): truncate from 3"),
        ]
    );
}

#[test]
fn a_real_directory_goes_through_the_writers_thread_and_back() {
    let folder = tempfile::tempdir().unwrap();
    RaftRecovery::init(&DirectoryVfs::open(folder.path()).unwrap(), &identity(), &mut numbers(9)).unwrap();
    let recovered = open_on(Box::new(DirectoryVfs::open(folder.path()).unwrap()), 1).unwrap();
    let wal = WalWriterLoop::start(recovered.pump, FlushLinger::default(), |_| {}).unwrap();
    let mut tickets = TicketSequence::default();
    let mut list: Vec<_> =
        (1..=200).map(|index| Submission::record(tickets.next_ticket(), entries(index..=index, 1))).collect();
    list.push(Submission::record(
        tickets.next_ticket(),
        RaftRecord::HardState(HardState { term: Term(1), voted_for: None }),
    ));
    wal.submit(&mut list).unwrap();
    wal.stop().unwrap();
    let looked = DirectoryVfs::open_unlocked(folder.path()).unwrap();
    assert_eq!(check::<RaftRecord>(&looked, Some(&identity())).unwrap().last_position, Position(200));
    let recovered = open_on(Box::new(DirectoryVfs::open(folder.path()).unwrap()), 2).unwrap();
    assert_eq!(recovered_indexes(&recovered.state), (1..=200).collect::<Vec<u64>>());
    assert_eq!(recovered.state.hard_state.term, Term(1));
}
