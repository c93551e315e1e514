//! The storage over the real log on a real directory.

use super::*;
use crate::driver::scripted::{Scripted, ScriptedRecord};
use quorate_framework::{ClusterId, Incarnation, Position, ReplicaId, SnapshotBase, TicketSequence};
use quorate_recovery::{
    DirectoryVfs, Identity, RecoveryBase, ReplicatedSettings, StartOptions, WalSettings, current_boot,
};
use std::path::Path;
use std::time::{Duration, Instant};

type Base = RecoveryBase<ScriptedRecord>;

fn identity() -> Identity {
    Identity {
        cluster: ClusterId([1; 16]),
        replica: ReplicaId(1),
        protocol: "scripted".to_owned(),
        replicated_settings: ReplicatedSettings::new(),
    }
}

fn open(path: &Path) -> quorate_recovery::Recovered<ScriptedRecord> {
    let options = StartOptions {
        identity: identity(),
        boot: current_boot(),
        settings: WalSettings { segment_bytes: 1 << 20, ..WalSettings::default() },
        random: Box::new(rand::random::<u64>),
    };
    Base::open(Box::new(DirectoryVfs::open(path).unwrap()), options).unwrap()
}

fn storage(path: &Path) -> Box<dyn Storage<Scripted>> {
    let wake: Wake = Arc::new(|| ());
    Box::new(WalStorage::start(open(path).pump, FlushLinger::default(), wake).unwrap())
}

fn wait(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < end, "not in time: {what}");
        thread::yield_now();
    }
}

#[test]
fn records_members_and_a_snapshot_are_there_after_a_clean_stop_in_the_order_of_their_tickets() {
    let folder = tempfile::tempdir().unwrap();
    Base::init(&DirectoryVfs::open(folder.path()).unwrap(), &identity(), &mut rand::random::<u64>).unwrap();
    let mut storage = storage(folder.path());
    let mut tickets = TicketSequence::default();
    let mut next = || tickets.next_ticket();
    let vector = MemberVector::from([(ReplicaId(1), Incarnation(7))]);
    let (first, second, third) = (next(), next(), next());
    let mut records = vec![(first, ScriptedRecord(10)), (third, ScriptedRecord(30))];
    let mut members = vec![(second, vector.clone())];
    storage.submit(&mut records, &mut members);
    assert!(records.is_empty() && members.is_empty());
    wait("all is durable", || storage.durable() == third);
    let figures = storage.figures().unwrap();
    assert!(figures.records == 2 && figures.fsyncs >= 2 && figures.metadata_writes == 2, "{figures:?}");
    assert!(figures.fsync_p50_us.is_some() && figures.pending_bytes == 0, "{figures:?}");
    let base = SnapshotBase { position: Position(9), protocol: vec![4], membership: Vec::new() };
    let released = Position::ZERO;
    storage.name_snapshot(next(), NamedSnapshot { base: base.clone(), store_generation: 3, released });
    storage.begin_stop();
    wait("the stop", || storage.is_stopped());
    assert_eq!(storage.failure(), None);
    drop(storage);
    let pump = match RecoveryBase::<ScriptedRecord>::open(
        Box::new(DirectoryVfs::open(folder.path()).unwrap()),
        StartOptions {
            identity: identity(),
            boot: current_boot(),
            settings: WalSettings { segment_bytes: 1 << 20, ..WalSettings::default() },
            random: Box::new(rand::random::<u64>),
        },
    ) {
        // This protocol knows nothing of snapshots and says so: what the metadata name has been read back.
        Err(error) => return assert!(error.to_string().contains("a snapshot at 9"), "{error}"),
        Ok(recovered) => recovered.pump,
    };
    panic!("a snapshot that the protocol cannot start from was taken: {:?}", pump.metadata());
}

#[test]
fn a_second_start_finds_what_was_durable_and_the_incarnation_and_counts_itself() {
    let folder = tempfile::tempdir().unwrap();
    let made = Base::init(&DirectoryVfs::open(folder.path()).unwrap(), &identity(), &mut rand::random::<u64>).unwrap();
    let mut storage = storage(folder.path());
    let mut tickets = TicketSequence::default();
    let mut records: Vec<_> = (0..100).map(|number| (tickets.next_ticket(), ScriptedRecord(number))).collect();
    storage.submit(&mut records, &mut Vec::new());
    wait("all is durable", || storage.durable() == tickets.last());
    drop(storage);
    let recovered = open(folder.path());
    assert_eq!(recovered.state, (0..100).collect::<Vec<u64>>());
    let metadata = recovered.pump.metadata();
    assert_eq!((metadata.incarnation, metadata.start_counter), (made.incarnation, 2));
    assert!(!recovered.report.stopped_cleanly, "it was dropped as by a crash");
}

#[test]
fn a_submission_out_of_order_ends_the_storage_for_good() {
    let folder = tempfile::tempdir().unwrap();
    Base::init(&DirectoryVfs::open(folder.path()).unwrap(), &identity(), &mut rand::random::<u64>).unwrap();
    let mut storage = storage(folder.path());
    let mut tickets = TicketSequence::default();
    let (first, second) = (tickets.next_ticket(), tickets.next_ticket());
    storage.submit(&mut vec![(second, ScriptedRecord(1))], &mut Vec::new());
    wait("it is durable", || storage.durable() == second);
    storage.submit(&mut vec![(first, ScriptedRecord(2))], &mut Vec::new());
    wait("the failure", || storage.failure().is_some());
    let failure = storage.failure();
    storage.submit(&mut vec![(tickets.next_ticket(), ScriptedRecord(3))], &mut Vec::new());
    assert_eq!(
        (storage.failure(), storage.durable()),
        (failure, second),
        "the first reason stays, and nothing follows"
    );
}
