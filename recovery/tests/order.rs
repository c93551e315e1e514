//! The order of operations on the disk: what must be synced before what.
#![allow(clippy::unwrap_used)]

mod support;

use quorate_framework::{Position, SnapshotBase};
use quorate_recovery::{MetadataChange, Submission};
use quorate_simulated_disk::SimulatedDisk;
use support::*;

/// What was done on the disk, without what a file is called.
fn lines(disk: &SimulatedDisk) -> Vec<String> {
    let lines = disk.stop_recording().unwrap().lines();
    lines.into_iter().map(|line| line.replace("-000000000000000", "-").replace(".wal", "")).collect()
}

fn run(writer: &mut Writer, disk: &SimulatedDisk) {
    while let Some(ticket) = writer.pump.run_group().unwrap() {
        disk.mark(format!("durable {ticket}"));
    }
}

#[test]
fn a_vote_is_written_synced_renamed_and_the_directory_synced_before_its_ticket_is_released() {
    let disk = fresh(1);
    let mut writer = writer(&disk, 2);
    disk.start_recording();
    writer.submit(Record::Vote(7)).unwrap();
    run(&mut writer, &disk);
    let lines = lines(&disk);
    let bytes = disk.contents("metadata.dat").unwrap().len();
    assert_eq!(
        lines,
        [
            "create metadata.tmp".to_owned(),
            format!("write metadata.tmp 0+{bytes}"),
            "sync metadata.tmp".to_owned(),
            "rename metadata.tmp metadata.dat".to_owned(),
            "sync directory".to_owned(),
            "durable #1".to_owned()
        ]
    );
}

#[test]
fn a_vote_is_a_barrier_between_the_records_before_and_after_it() {
    let disk = fresh(1);
    let mut writer = writer(&disk, 2);
    disk.start_recording();
    for record in [put(1, 1), put(2, 1), Record::Vote(1), Record::Vote(2), put(3, 1)] {
        writer.submit(record).unwrap();
    }
    run(&mut writer, &disk);
    let lines: Vec<String> = lines(&disk).into_iter().filter(|line| !line.starts_with("write metadata")).collect();
    assert_eq!(
        lines,
        [
            "write segment-0 4096+4096",
            "sync segment-0",
            "create metadata.tmp",
            "sync metadata.tmp",
            "rename metadata.tmp metadata.dat",
            "sync directory",
            "durable #4",
            "write segment-0 8192+4096",
            "sync segment-0",
            "durable #5",
        ]
    );
}

#[test]
fn a_roll_syncs_the_new_header_and_its_name_then_the_seal_then_writes_the_group() {
    let disk = fresh(1);
    let mut writer = writer(&disk, 2);
    writer.persist_all((1..=6).map(|position| put(position, 10)));
    disk.start_recording();
    writer.submit(put(7, 10)).unwrap();
    run(&mut writer, &disk);
    assert_eq!(
        lines(&disk),
        [
            "create segment-1",
            "allocate segment-1 32768",
            "write segment-1 0+4096",
            "sync segment-1",
            "sync directory",
            "write segment-0 28672+4096",
            "sync segment-0",
            "write segment-1 4096+4096",
            "sync segment-1",
            "durable #7",
        ]
    );
}

#[test]
fn a_checkpoint_moves_the_metadata_before_a_segment_is_freed_and_frees_it_before_it_is_used_again() {
    let disk = fresh(1);
    let mut writer = writer(&disk, 2);
    writer.persist_all((1..=12).map(|position| put(position, 10)));
    disk.start_recording();
    let base = SnapshotBase { position: Position(6), ..SnapshotBase::default() };
    let change = MetadataChange::Snapshot { base, store_generation: 1, released: Position(6) };
    writer.pump.submit(Submission::metadata(writer.tickets.next_ticket(), change)).unwrap();
    run(&mut writer, &disk);
    writer.pump.maintain().unwrap();
    writer.submit(put(13, 10)).unwrap();
    run(&mut writer, &disk);
    let lines: Vec<String> = lines(&disk).into_iter().filter(|line| !line.starts_with("write metadata")).collect();
    assert_eq!(
        lines,
        [
            "create metadata.tmp",
            "sync metadata.tmp",
            "rename metadata.tmp metadata.dat",
            "sync directory",
            "durable #13",
            "write segment-0 0+4096", // free
            "sync segment-0",
            "write segment-0 0+4096", // live again
            "sync segment-0",
            "write segment-1 28672+4096", // the seal
            "sync segment-1",
            "write segment-0 4096+4096",
            "sync segment-0",
            "durable #14",
        ]
    );
}

#[test]
fn a_start_syncs_what_it_read_before_it_says_anything() {
    let disk = disk_with(8, 10);
    disk.start_recording();
    drop(open(&disk, 3));
    let is_of_interest =
        |line: &String| !line.starts_with("write metadata") && !line.starts_with("remove metadata.tmp");
    let lines: Vec<String> = lines(&disk).into_iter().filter(is_of_interest).collect();
    assert_eq!(
        lines,
        [
            "sync segment-0",
            "write segment-1 8192+4096", // the last group, for which nothing vouches
            "sync segment-1",
            "create metadata.tmp",
            "sync metadata.tmp",
            "rename metadata.tmp metadata.dat",
            "sync directory",
        ]
    );
}

#[test]
fn without_syncs_metadata_is_synced_all_the_same_and_the_log_is_not() {
    let disk = fresh(1);
    let recovered =
        quorate_recovery::RecoveryBase::<Record>::open(Box::new(disk.mount()), options(2, never())).unwrap();
    let mut writer = Writer::new(recovered.pump);
    disk.start_recording();
    writer.submit(put(1, 10)).unwrap();
    writer.submit(Record::Vote(1)).unwrap();
    run(&mut writer, &disk);
    let lines: Vec<String> = lines(&disk).into_iter().filter(|line| !line.starts_with("write metadata")).collect();
    assert_eq!(
        lines,
        [
            "write segment-0 4096+4096",
            "create metadata.tmp",
            "sync metadata.tmp",
            "rename metadata.tmp metadata.dat",
            "sync directory",
            "durable #2",
        ]
    );
}
