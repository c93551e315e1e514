//! Rolling, carrying forward, retiring and using segments again.
#![allow(clippy::unwrap_used)]

mod support;

use quorate_framework::{Position, SnapshotBase};
use quorate_recovery::{MetadataChange, RecoveryBase, Submission, WalSettings, check, dump};
use quorate_simulated_disk::{CrashPolicy, SimulatedDisk};
use support::*;

fn checkpoint(writer: &mut Writer, position: u64, released: u64) {
    let base = SnapshotBase { position: Position(position), ..SnapshotBase::default() };
    let change = MetadataChange::Snapshot { base, store_generation: position, released: Position(released) };
    writer.pump.submit(Submission::metadata(writer.tickets.next_ticket(), change)).unwrap();
    while writer.pump.run_group().unwrap().is_some() {}
}

fn maintain(writer: &mut Writer) {
    while writer.pump.has_maintenance() {
        writer.pump.maintain().unwrap();
    }
}

#[test]
fn a_log_of_many_segments_reads_back_whole() {
    let disk = disk_with(40, 10);
    let recovered = open(&disk, 3);
    assert_eq!(positions(&recovered.state), (1..=40).collect::<Vec<u64>>());
    assert_eq!(recovered.report.segments, 7, "six groups fit beside header and seal");
    assert_eq!((recovered.report.records, recovered.report.groups), (46, 46), "40 and six seals");
}

#[test]
fn a_checkpoint_forgets_whole_segments_and_the_log_begins_after_them() {
    let disk = disk_with(20, 10);
    let mut writer = writer(&disk, 3);
    checkpoint(&mut writer, 13, 13);
    maintain(&mut writer);
    disk.crash(CrashPolicy::SyncedOnly);
    assert_eq!(segments(&disk, b"QUORFREE").len(), 2, "positions 1 to 6 and 7 to 12");
    let recovered = open(&disk, 4);
    assert_eq!(recovered.report.snapshot, Some(Position(13)));
    assert_eq!(positions(&recovered.state), (14..=20).collect::<Vec<u64>>());
    let metadata = recovered.pump.metadata();
    assert_eq!((metadata.first_group, metadata.store_generation), (15, 13));
}

#[test]
fn a_follower_that_still_needs_entries_keeps_their_segments() {
    let disk = disk_with(20, 10);
    let mut writer = writer(&disk, 3);
    checkpoint(&mut writer, 19, 6);
    assert_eq!(writer.pump.metadata().first_group, 8, "only the first segment, positions 1 to 6, may go");
    checkpoint(&mut writer, 19, 11);
    assert_eq!(writer.pump.metadata().first_group, 8, "position 12 is in the second");
    checkpoint(&mut writer, 19, 100);
    assert_eq!(writer.pump.metadata().first_group, 22, "never beyond the snapshot, which is in the last");
}

#[test]
fn a_death_between_checkpoint_and_freeing_frees_at_the_next_start() {
    let disk = disk_with(20, 10);
    let mut writer = writer(&disk, 3);
    checkpoint(&mut writer, 20, 20);
    disk.kill();
    assert_eq!(segments(&disk, b"QUORLIVE").len(), 4);
    drop(open(&disk, 4));
    assert_eq!((segments(&disk, b"QUORLIVE").len(), segments(&disk, b"QUORFREE").len()), (1, 3));
}

#[test]
fn old_records_of_a_segment_that_is_used_again_never_return() {
    let disk = disk_with(6, 10); // one segment, all six places used
    let mut writer = writer(&disk, 3);
    writer.persist(put(7, 10)).unwrap(); // a second one
    checkpoint(&mut writer, 7, 7);
    maintain(&mut writer);
    let free = segments(&disk, b"QUORFREE");
    assert_eq!(free.len(), 1);
    writer.persist_all((8..=13).map(|position| put(position, 10))); // fills the second, and begins the one used before
    assert_eq!(segments(&disk, b"QUORFREE").len(), 0);
    let bytes = disk.contents(&free[0]).unwrap();
    assert!(bytes.windows(8).any(|window| window == b"value 4 "), "the old bytes are still there");
    disk.crash(CrashPolicy::SyncedOnly);
    let recovered = open(&disk, 4);
    assert_eq!(positions(&recovered.state), (8..=13).collect::<Vec<u64>>());
    assert_eq!(recovered.report.torn_bytes_cut, 0, "the groups of an earlier life are no torn tail");
}

#[test]
fn files_do_not_grow_in_number_while_checkpoints_keep_up() {
    let disk = fresh(1);
    let mut writer = writer(&disk, 2);
    for position in 1..=400 {
        writer.persist(put(position, 100)).unwrap();
        if position % 10 == 0 {
            checkpoint(&mut writer, position, position);
        }
        if writer.pump.maintenance_is_due() {
            writer.pump.maintain().unwrap();
        }
    }
    assert!(writer.pump.counters().rolls >= 60);
    let files = segments(&disk, b"QUOR").len();
    assert!(files <= 5, "{files} segment files");
}

#[test]
fn a_group_longer_than_a_segment_gets_one_of_its_own_that_is_not_kept() {
    let disk = fresh(1);
    let mut writer = writer(&disk, 2);
    writer.persist_all([put(1, 10), put(2, 200_000), put(3, 10)]);
    disk.crash(CrashPolicy::SyncedOnly);
    let mut writer = Writer::new({
        let recovered = open(&disk, 3);
        assert_eq!(recovered.state.values[1].1, value(2, 200_000));
        recovered.pump
    });
    writer.persist_all((4..=12).map(|position| put(position, 10)));
    checkpoint(&mut writer, 12, 12);
    maintain(&mut writer);
    let sizes: Vec<usize> = segments(&disk, b"QUOR").iter().map(|name| disk.contents(name).unwrap().len()).collect();
    assert!(sizes.iter().all(|size| *size == 32 << 10), "{sizes:?}");
}

#[test]
fn records_without_a_position_outlive_their_segment_and_the_latest_wins() {
    let disk = fresh(1);
    let mut writer = writer(&disk, 2);
    writer.persist_all([Record::View(1, 10), Record::View(2, 20), Record::View(1, 11)]);
    writer.persist_all((1..=20).map(|position| put(position, 10)));
    checkpoint(&mut writer, 20, 20);
    maintain(&mut writer);
    disk.crash(CrashPolicy::SyncedOnly);
    let recovered = open(&disk, 3);
    assert_eq!(recovered.state.views.into_iter().collect::<Vec<_>>(), [(1, 11), (2, 20)]);
    assert_eq!(recovered.state.view_replays, 2, "each once");
    // They are carried on from a log that was read back, too.
    let mut writer = Writer::new(recovered.pump);
    writer.persist_all((21..=40).map(|position| put(position, 10)));
    checkpoint(&mut writer, 40, 40);
    maintain(&mut writer);
    disk.crash(CrashPolicy::SyncedOnly);
    assert_eq!(open(&disk, 4).state.views.into_iter().collect::<Vec<_>>(), [(1, 11), (2, 20)]);
}

#[test]
fn a_carried_record_is_not_replayed_a_second_time_beside_its_original() {
    let disk = fresh(1);
    let mut writer = writer(&disk, 2);
    writer.persist(Record::View(1, 10)).unwrap();
    writer.persist_all((1..=20).map(|position| put(position, 10)));
    disk.crash(CrashPolicy::SyncedOnly);
    assert_eq!(open(&disk, 3).state.view_replays, 1);
    let mut carried = 0;
    dump::<Record>(&disk, None, &mut |record| {
        carried += u64::from(record.kind == quorate_recovery::RecordKind::Carried);
    })
    .unwrap();
    assert_eq!(carried, 3, "one at the head of each later segment");
}

#[test]
fn what_groups_hold_is_bounded_and_a_longer_record_is_alone() {
    let disk = fresh(1);
    let bounds = WalSettings { group_bytes: 1000, group_records: 4, ..settings() };
    let recovered = RecoveryBase::<Record>::open(Box::new(disk.mount()), options(2, bounds)).unwrap();
    let mut writer = Writer::new(recovered.pump);
    for (position, bytes) in [(1, 10), (2, 10), (3, 10), (4, 10), (5, 10), (6, 900), (7, 500), (8, 3000), (9, 10)] {
        writer.submit(put(position, bytes)).unwrap();
    }
    let mut groups = Vec::new();
    while let Some(group) = writer.pump.take_group().unwrap() {
        groups.push(group.records());
        assert!(writer.pump.take_group().unwrap().is_none(), "one group on its way at a time");
        let written = writer.pump.write(group).unwrap();
        let running = writer.pump.sync_started(written);
        writer.pump.sync(running).unwrap();
    }
    assert_eq!(groups, [4, 2, 1, 1, 1]);
    assert_eq!(writer.pump.pending_bytes(), 0);
    assert_eq!(check::<Record>(&disk, None).unwrap().records, 9);
}

#[test]
fn pending_bytes_count_until_the_sync_and_a_spare_is_prepared_in_small_steps() {
    let disk = fresh(1);
    let large = WalSettings { segment_bytes: 3 << 20, ..settings() };
    let recovered = RecoveryBase::<Record>::open(Box::new(disk.mount()), options(2, large)).unwrap();
    let mut writer = Writer::new(recovered.pump);
    writer.submit(put(1, 100)).unwrap();
    let pending = writer.pump.pending_bytes();
    assert!(pending >= 109, "{pending}");
    let group = writer.pump.take_group().unwrap().unwrap();
    let written = writer.pump.write(group).unwrap();
    assert_eq!(writer.pump.pending_bytes(), pending);
    let running = writer.pump.sync_started(written);
    writer.pump.sync(running).unwrap();
    assert_eq!(writer.pump.pending_bytes(), 0);
    let mut steps = 0;
    while writer.pump.has_maintenance() {
        writer.pump.maintain().unwrap();
        steps += 1;
    }
    assert_eq!((steps, segments(&disk, b"QUORFREE").len()), (3, 1));
}

#[test]
fn a_spare_that_cannot_be_prepared_ends_nothing() {
    let disk = fresh(1);
    let mut writer = writer(&disk, 2);
    disk.set_capacity(Some(disk.used_bytes() + 8192));
    maintain(&mut writer);
    writer.persist(put(1, 10)).unwrap();
    assert!(segments(&disk, b"QUORFREE").is_empty());
    disk.set_capacity(None);
    writer.persist_all((2..=8).map(|position| put(position, 10)));
    disk.crash(CrashPolicy::SyncedOnly);
    assert_eq!(open(&disk, 3).state.values.len(), 8);
}

#[test]
fn a_segment_has_exactly_these_bytes() {
    let disk = SimulatedDisk::new(1);
    init(&disk);
    let salts = || {
        let mut next = 0x10u64;
        Box::new(move || {
            next += 1;
            next
        })
    };
    let options = quorate_recovery::StartOptions {
        random: salts(),
        ..options(0, WalSettings { segment_bytes: 16 << 10, ..settings() })
    };
    let recovered = RecoveryBase::<Record>::open(Box::new(disk.mount()), options).unwrap();
    let mut writer = Writer::new(recovered.pump);
    writer.persist_all([put(1, 10), Record::View(7, 8), put(2, 10)]);
    let padded = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        bytes
    };
    let record = |kind: u8, head: &[u8], body: &[u8]| {
        let length = (head.len() + body.len()) as u32;
        [&length.to_le_bytes()[..], &[kind, 0, 0, 0], &(head.len() as u32).to_le_bytes(), head, body].concat()
    };
    let group = |sequence: u64, salt: u64, synced: u64, previous: u32, records: &[Vec<u8>]| {
        let records_bytes = records.concat();
        let body = padded(&[&[0; 64][..], &records_bytes].concat())[64..].to_vec();
        let covered = [
            &sequence.to_le_bytes()[..],
            &salt.to_le_bytes(),
            &synced.to_le_bytes(),
            &(records_bytes.len() as u64).to_le_bytes(),
            &previous.to_le_bytes(),
            &(records.len() as u32).to_le_bytes(),
            &crc32fast::hash(&body).to_le_bytes(),
            &[0; 12],
        ]
        .concat();
        let checksum = crc32fast::hash(&covered);
        ([b"QGRP", &checksum.to_le_bytes()[..], &covered, &body].concat(), checksum)
    };
    let number = |value: u64| value.to_le_bytes().to_vec();
    let put_record = |position: u64| record(1, &[vec![1], number(position)].concat(), &value(position, 10));
    let view = [vec![3], number(7), number(8)].concat();
    let header = |salt: u64, first: u64| {
        let mut bytes =
            [b"QUORLIVE", &[1, 0, 0, 0, 3, 0, 0, 0][..], &[0xc1; 16], &number(salt), &number(first)].concat();
        bytes.extend(number(16 << 10));
        bytes.extend([0; 4]);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        padded(&bytes)
    };
    let (one, first) = group(1, 0x11, 0, 0, &[put_record(1)]);
    let (two, second) = group(2, 0x11, 1, first, &[record(1, &view, b"")]);
    let (three, seal) = group(3, 0x11, 2, second, &[record(3, &[number(0x12), number(4)].concat(), b"")]);
    let (four, carried) = group(4, 0x12, 3, seal, &[record(2, &view, b"")]);
    let (five, _) = group(5, 0x12, 3, carried, &[put_record(2)]);
    let names = segments(&disk, b"QUORLIVE");
    assert_eq!(disk.contents(&names[0]).unwrap(), [header(0x11, 1), one, two, three].concat());
    assert_eq!(disk.contents(&names[1]).unwrap(), [header(0x12, 4), four, five, vec![0; 4096]].concat());
}
