//! Starting, stopping, refusing.
#![allow(clippy::unwrap_used)]

mod support;

use quorate_framework::vfs::Vfs;
use quorate_framework::{ClusterId, Incarnation, LOST_DATA, MemberVector, Position, ReplicaId, SnapshotBase, Ticket};
use quorate_recovery::{
    BootId, Identity, MetadataChange, RecoveryBase, RecoveryError, StartOptions, StorageError, Submission, check,
    describe_differences,
};
use quorate_simulated_disk::{CrashPolicy, SimulatedDisk};
use std::path::Path;
use support::*;

#[test]
fn init_makes_a_forming_replica_once_and_refuses_a_second_time() {
    let disk = SimulatedDisk::new(1);
    let metadata = init(&disk);
    assert_eq!((metadata.members.clone(), metadata.start_counter, metadata.log_exists), (None, 0, false));
    assert_ne!(metadata.incarnation, Incarnation(0));
    disk.crash(CrashPolicy::SyncedOnly);
    let again = RecoveryBase::<Record>::init(&disk, &identity(), &mut *random(9));
    assert!(matches!(again, Err(RecoveryError::NotEmpty(path)) if path == Path::new("metadata.dat")));
    assert_eq!(open(&disk, 2).pump.metadata().incarnation, metadata.incarnation);
}

#[test]
fn init_beside_segments_of_a_lost_replica_is_refused() {
    let disk = disk_with(1, 10);
    disk.remove(Path::new("metadata.dat")).unwrap();
    let result = RecoveryBase::<Record>::init(&disk, &identity(), &mut *random(9));
    assert!(matches!(result, Err(RecoveryError::NotEmpty(path)) if path.to_str().unwrap().ends_with(".wal")));
}

#[test]
fn an_empty_directory_is_refused_and_the_message_says_what_to_do() {
    let error = try_open(&SimulatedDisk::new(1), 1).err().unwrap();
    assert!(matches!(error, RecoveryError::NotInitialised));
    assert!(error.to_string().contains("quorate init --bootstrap"), "{error}");
}

#[test]
fn what_was_persisted_is_there_after_a_power_cut_and_each_start_counts() {
    let disk = fresh(1);
    for start in 1..=3 {
        let recovered = open(&disk, start);
        assert_eq!(recovered.pump.metadata().start_counter, start);
        assert_eq!(positions(&recovered.state), (1..start).collect::<Vec<u64>>());
        assert_eq!(recovered.state.vote, (start - 1) * 10);
        let mut writer = Writer::new(recovered.pump);
        writer.persist(put(start, 100)).unwrap();
        writer.persist(Record::Vote(start * 10)).unwrap();
        disk.crash(CrashPolicy::SyncedOnly);
    }
}

#[test]
fn the_start_counter_is_raised_durably_before_the_start_returns() {
    let disk = fresh(1);
    drop(open(&disk, 1));
    disk.crash(CrashPolicy::SyncedOnly);
    assert_eq!(open(&disk, 1).pump.metadata().start_counter, 2);
}

#[test]
fn the_member_vector_and_the_vote_survive_and_are_the_latest() {
    let disk = fresh(1);
    let members = MemberVector::from([(ReplicaId(3), Incarnation(5)), (ReplicaId(4), Incarnation(6))]);
    let mut writer = writer(&disk, 1);
    writer.submit(Record::Vote(1)).unwrap();
    let ticket = writer.tickets.next_ticket();
    writer.pump.submit(Submission::metadata(ticket, MetadataChange::Members(members.clone()))).unwrap();
    let last = writer.persist(Record::Vote(2)).unwrap();
    assert_eq!(writer.pump.durable(), last);
    assert_eq!(writer.pump.metadata_writes(), 2, "the start's own, and one for three changes");
    disk.crash(CrashPolicy::SyncedOnly);
    let recovered = open(&disk, 2);
    assert_eq!((recovered.state.vote, recovered.pump.metadata().members.clone()), (2, Some(members)));
}

#[test]
fn data_of_another_replica_cluster_or_protocol_is_refused_and_nothing_is_written() {
    let disk = disk_with(2, 10);
    let strangers = [
        Identity { replica: ReplicaId(9), ..identity() },
        Identity { cluster: ClusterId([9; 16]), ..identity() },
        Identity { protocol: "raft".to_owned(), ..identity() },
    ];
    for stranger in strangers {
        let before = disk.contents("metadata.dat");
        let options = StartOptions { identity: stranger.clone(), ..options(1, settings()) };
        let error = RecoveryBase::<Record>::open(Box::new(disk.mount()), options).err().unwrap();
        let text = error.to_string();
        assert!(matches!(error, RecoveryError::Foreign { .. }), "{error}");
        assert!(text.contains(&identity().to_string()) && text.contains(&stranger.to_string()), "{text}");
        assert_eq!(disk.contents("metadata.dat"), before);
    }
}

#[test]
fn settings_that_decide_how_entries_are_applied_stay_those_of_init_and_a_start_with_others_changes_nothing() {
    let disk = disk_with(2, 10);
    disk.put_durably("metadata.tmp", b"a start that was cut off");
    let with = |list: &[(&str, u64)]| {
        let replicated_settings = list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let options =
            StartOptions { identity: Identity { replicated_settings, ..identity() }, ..options(1, settings()) };
        RecoveryBase::<Record>::open(Box::new(disk.mount()), options)
    };
    let before = contents(&disk);
    for (given, told) in [
        (&[("key_bytes", 64), ("window", 9)][..], "window was 8 and is 9"),
        (&[("key_bytes", 1)], "key_bytes was 64 and is 1, window was 8 and is nothing"),
        (&[("frames", 5), ("key_bytes", 64), ("window", 8)], "frames was nothing and is 5"),
    ] {
        let error = with(given).err().unwrap();
        let RecoveryError::OtherSettings { differences } = &error else { panic!("{error}") };
        assert_eq!(describe_differences(differences), told);
        let text = error.to_string();
        assert!(text.contains(&format!(": {told}. Nothing was changed; put the old values back")), "{text}");
        assert_eq!(contents(&disk), before);
    }
    let recovered = with(&[("window", 8), ("key_bytes", 64)]).unwrap();
    assert_eq!(positions(&recovered.state), [1, 2]);
    assert_eq!(recovered.pump.metadata().replicated_settings, identity().replicated_settings);
}

#[test]
fn a_look_at_a_directory_shows_its_settings_and_asks_for_none() {
    let disk = disk_with(2, 10);
    let report = check::<Record>(&disk, None).unwrap();
    assert_eq!(report.metadata.replicated_settings, identity().replicated_settings);
}

#[test]
fn a_segment_of_another_cluster_is_refused() {
    let (disk, other) = (disk_with(2, 10), SimulatedDisk::new(2));
    let stranger = Identity { cluster: ClusterId([9; 16]), ..identity() };
    RecoveryBase::<Record>::init(&other, &stranger, &mut *random(3)).unwrap();
    let options = StartOptions { identity: stranger, ..options(4, settings()) };
    drop(RecoveryBase::<Record>::open(Box::new(other.mount()), options).unwrap());
    let name = segments(&other, b"QUORLIVE").remove(0);
    disk.put_durably("segment-00000000000000ff.wal", &other.contents(name).unwrap());
    let error = try_open(&disk, 1).err().unwrap();
    assert!(
        matches!(&error, RecoveryError::Foreign { file, .. } if file.ends_with("segment-00000000000000ff.wal")),
        "{error}"
    );
}

#[test]
fn metadata_missing_beside_a_log_and_a_log_missing_beside_metadata_are_refused() {
    let disk = disk_with(2, 10);
    let metadata = disk.contents("metadata.dat").unwrap();
    disk.remove(Path::new("metadata.dat")).unwrap();
    assert!(matches!(try_open(&disk, 1).err().unwrap(), RecoveryError::MetadataMissing(_)));
    disk.sync_directory().unwrap();
    disk.put_durably("metadata.dat", &metadata);
    for name in segments(&disk, b"QUORLIVE") {
        disk.remove(Path::new(&name)).unwrap();
    }
    assert!(matches!(try_open(&disk, 1).err().unwrap(), RecoveryError::LogMissing { first_group: 1 }));
}

#[test]
fn metadata_of_a_replica_that_never_ran_beside_a_log_is_refused() {
    let disk = disk_with(2, 10);
    let never_ran = fresh(1).contents("metadata.dat").unwrap();
    disk.put_durably("metadata.dat", &never_ran);
    assert!(matches!(try_open(&disk, 1).err().unwrap(), RecoveryError::LogUnexpected(_)));
}

#[test]
fn every_flipped_bit_and_every_cut_of_the_metadata_is_refused() {
    let disk = disk_with(1, 10);
    let sound = disk.contents("metadata.dat").unwrap();
    for byte in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[byte] ^= 0x10;
        disk.put_durably("metadata.dat", &damaged);
        assert!(matches!(try_open(&disk, 1).err().unwrap(), RecoveryError::MetadataDamaged { .. }), "byte {byte}");
        disk.put_durably("metadata.dat", &sound[..byte]);
        assert!(matches!(try_open(&disk, 1).err().unwrap(), RecoveryError::MetadataDamaged { .. }), "cut at {byte}");
    }
    disk.put_durably("metadata.dat", &sound);
    open(&disk, 1);
}

#[test]
fn a_stop_while_a_group_is_on_its_way_is_refused_and_never_noted_as_clean() {
    let disk = fresh(1);
    let mut writer = writer(&disk, 1);
    writer.submit(put(1, 10)).unwrap();
    let group = writer.pump.take_group().unwrap();
    assert!(group.is_some());
    assert!(matches!(writer.pump.stop(), Err(StorageError::GroupInFlight)));
    assert!(!open(&disk, 2).report.stopped_cleanly);
}

#[test]
fn a_clean_stop_makes_everything_durable_and_vouches_for_the_last_group() {
    let disk = fresh(1);
    let mut writer = writer(&disk, 1);
    for position in 1..=3 {
        writer.submit(put(position, 10)).unwrap();
    }
    let metadata = writer.pump.stop().unwrap();
    assert!(metadata.stopped_cleanly);
    disk.crash(CrashPolicy::SyncedOnly);
    let report = check::<Record>(&disk, None).unwrap();
    assert_eq!((report.groups, report.last_group, report.vouched_group, report.records), (2, 2, 1, 3));
    let recovered = open(&disk, 2);
    assert!(recovered.report.stopped_cleanly);
    assert_eq!(positions(&recovered.state), [1, 2, 3]);
    assert!(!recovered.pump.metadata().stopped_cleanly, "it runs now");
}

#[test]
fn without_syncs_a_killed_process_loses_nothing_and_a_booted_machine_makes_a_new_incarnation() {
    let disk = fresh(1);
    let start = |boot| {
        let options = StartOptions { boot, ..options(3, never()) };
        RecoveryBase::<Record>::open(Box::new(disk.mount()), options).unwrap()
    };
    let first = start(BOOT);
    let incarnation = first.pump.metadata().incarnation;
    let mut writer = Writer::new(first.pump);
    let ticket = writer.persist(put(1, 10)).unwrap();
    writer.persist(put(2, 10)).unwrap();
    assert_eq!((ticket < writer.pump.durable(), writer.pump.counters().syncs), (true, 0));
    let members = MemberVector::from([(ReplicaId(3), incarnation)]);
    let change = MetadataChange::Members(members.clone());
    writer.pump.submit(Submission::metadata(writer.tickets.next_ticket(), change)).unwrap();
    writer.pump.run_group().unwrap();
    disk.kill();
    let killed = start(BOOT);
    assert_eq!(positions(&killed.state), [1, 2]);
    assert_eq!(killed.pump.metadata().incarnation, incarnation);
    assert_eq!(killed.pump.metadata().members, Some(members));
    disk.kill();
    let booted = start(BootId([2; 16]));
    assert_eq!(booted.report.incarnation_given_up, Some(incarnation));
    let told = format!("not synced: incarnation {incarnation} is given up; {LOST_DATA}");
    assert!(booted.report.to_string().ends_with(&told), "{}", booted.report);
    assert_ne!(booted.pump.metadata().incarnation, incarnation);
    assert_eq!((booted.pump.metadata().members.clone(), booted.pump.metadata().start_counter), (None, 1));
    let kept = booted.pump.metadata().incarnation;
    booted.pump.stop().unwrap();
    disk.crash(CrashPolicy::SyncedOnly);
    let stopped = start(BootId([3; 16]));
    assert_eq!((stopped.report.incarnation_given_up, stopped.pump.metadata().incarnation), (None, kept));
    assert_eq!(positions(&stopped.state), [1, 2], "a clean stop synced what was never synced before");
}

#[test]
fn a_ticket_out_of_order_and_an_older_snapshot_end_the_log() {
    let disk = fresh(1);
    let mut first = writer(&disk, 1);
    let ticket = first.submit(put(1, 1)).unwrap();
    assert!(first.pump.submit(Submission::record(ticket, put(2, 1))).is_err());
    assert!(first.pump.submit(Submission::record(first.tickets.next_ticket(), put(2, 1))).is_err(), "final");
    disk.kill();
    let mut second = writer(&disk, 2);
    for (position, is_fine) in [(5, true), (5, true), (4, false)] {
        let base = SnapshotBase { position: Position(position), ..SnapshotBase::default() };
        let change = MetadataChange::Snapshot { base, store_generation: 1, released: Position(position) };
        second.pump.submit(Submission::metadata(second.tickets.next_ticket(), change)).unwrap();
        assert_eq!(second.pump.run_group().is_ok(), is_fine, "{position}");
    }
    assert_eq!(second.pump.metadata().snapshot.as_ref().unwrap().position, Position(5));
    assert_ne!(second.pump.durable(), Ticket::RECOVERED);
}

#[test]
fn settings_the_format_cannot_hold_are_refused() {
    let disk = fresh(1);
    for segment_bytes in [0, 4096, 12_288, 32_769] {
        let options = options(1, quorate_recovery::WalSettings { segment_bytes, ..settings() });
        let error = RecoveryBase::<Record>::open(Box::new(disk.mount()), options).err().unwrap();
        assert!(matches!(error, RecoveryError::Settings(_)), "{segment_bytes}: {error}");
    }
}
