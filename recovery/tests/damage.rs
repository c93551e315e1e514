//! Torn tails are cut, rot is refused.
#![allow(clippy::unwrap_used)]

mod support;

use quorate_framework::vfs::Vfs;
use quorate_recovery::{RecoveryError, check};
use quorate_simulated_disk::{CrashPolicy, Fault, OperationKind, SimulatedDisk, Trigger};
use std::path::{Path, PathBuf};
use support::*;

const BLOCK: usize = 4096;

fn only_segment(disk: &SimulatedDisk) -> (String, Vec<u8>) {
    let names = segments(disk, b"QUORLIVE");
    assert_eq!(names.len(), 1, "{names:?}");
    (names[0].clone(), disk.contents(&names[0]).unwrap())
}

#[test]
fn the_last_group_cut_at_every_byte_is_dropped_and_the_log_goes_on() {
    let sound = disk_with(2, 4200); // groups of two blocks at 4,096 and 12,288
    let (name, bytes) = only_segment(&sound);
    let (start, end) = (BLOCK + 2 * BLOCK, BLOCK + 4 * BLOCK);
    let used = start + 64 + 12 + 9 + 4200;
    for cut in start..used {
        let disk = sound.copy(1);
        let mut torn = bytes.clone();
        torn[cut..end].fill(0);
        disk.put_durably(&name, &torn);
        let recovered = open(&disk, 3);
        assert_eq!(positions(&recovered.state), [1], "cut at {cut}");
        let mut writer = Writer::new(recovered.pump);
        writer.persist(put(2, 10)).unwrap();
        disk.crash(CrashPolicy::SyncedOnly);
        assert_eq!(open(&disk, 4).state.values[1].1, value(2, 10), "cut at {cut}");
    }
}

#[test]
fn each_flipped_byte_of_a_middle_group_is_refused_with_file_and_offset_and_nothing_changes() {
    let disk = disk_with(3, 600);
    let (name, bytes) = only_segment(&disk);
    let offset = 2 * BLOCK;
    for byte in offset..offset + BLOCK {
        let mut rotten = bytes.clone();
        rotten[byte] ^= 0x04;
        disk.put_durably(&name, &rotten);
        let error = try_open(&disk, 3).err().unwrap();
        match &error {
            RecoveryError::Damaged { file, offset: found, .. } => {
                assert_eq!((file, *found), (&PathBuf::from(&name), offset as u64), "byte {byte}");
            }
            other => panic!("byte {byte}: {other}"),
        }
        assert_eq!(disk.contents(&name).unwrap(), rotten, "byte {byte}");
    }
}

#[test]
fn rot_in_the_last_group_is_seen_once_a_clean_stop_has_vouched_for_it() {
    let disk = fresh(1);
    let mut writer = writer(&disk, 2);
    writer.persist_all([put(1, 10), put(2, 10)]);
    writer.pump.stop().unwrap();
    disk.crash(CrashPolicy::SyncedOnly);
    let (name, bytes) = only_segment(&disk);
    let mut rotten = bytes.clone();
    rotten[2 * BLOCK + 70] ^= 1;
    disk.put_durably(&name, &rotten);
    assert!(matches!(try_open(&disk, 3).err().unwrap(), RecoveryError::Damaged { offset: 8192, .. }));
    // Without the vouching group it cannot be told from a tear: docs/STORAGE-FORMAT.md, section 7.
    rotten[3 * BLOCK..4 * BLOCK].fill(0);
    disk.put_durably(&name, &rotten);
    assert_eq!(positions(&open(&disk, 3).state), [1]);
}

#[test]
fn a_whole_group_replaced_by_zeros_below_a_synced_one_is_refused() {
    let disk = disk_with(3, 10);
    let (name, mut bytes) = only_segment(&disk);
    bytes[BLOCK..2 * BLOCK].fill(0);
    disk.put_durably(&name, &bytes);
    assert!(matches!(try_open(&disk, 3).err().unwrap(), RecoveryError::Damaged { offset: 4096, .. }));
}

#[test]
fn a_read_error_is_refused_and_never_taken_for_the_end() {
    let disk = disk_with(3, 10);
    let (name, bytes) = only_segment(&disk);
    disk.break_sectors(&name, 3 * BLOCK as u64..3 * BLOCK as u64 + 512);
    let error = try_open(&disk, 3).err().unwrap();
    assert!(matches!(error, RecoveryError::Storage(_)), "{error}");
    assert!(error.to_string().contains(&name), "{error}");
    disk.put_durably(&name, &bytes);
}

#[test]
fn a_missing_segment_in_the_middle_and_a_missing_last_one_are_refused() {
    let whole = disk_with(20, 10);
    let names = segments(&whole, b"QUORLIVE");
    assert!(names.len() >= 3, "{names:?}");
    for name in &names[1..] {
        let disk = whole.copy(1);
        disk.remove(Path::new(name)).unwrap();
        let error = try_open(&disk, 3).err().unwrap();
        assert!(
            matches!(&error, RecoveryError::Damaged { reason, .. } if reason.contains("sealed")),
            "{name}: {error}"
        );
    }
    let disk = whole.copy(1);
    disk.remove(Path::new(&names[0])).unwrap();
    assert!(matches!(try_open(&disk, 3).err().unwrap(), RecoveryError::LogMissing { first_group: 1 }));
}

#[test]
fn a_damaged_header_of_a_live_segment_is_refused() {
    let whole = disk_with(20, 10);
    for name in segments(&whole, b"QUORLIVE") {
        let disk = whole.copy(1);
        disk.flip_bit(&name, 41, 3);
        assert!(try_open(&disk, 3).is_err(), "{name}");
        assert!(disk.contents(&name).is_some(), "nothing was removed");
    }
}

#[test]
fn a_copy_of_a_segment_is_refused() {
    let disk = disk_with(20, 10);
    let names = segments(&disk, b"QUORLIVE");
    disk.put_durably("segment-00000000000000aa.wal", &disk.contents(&names[1]).unwrap());
    // The copy has salt and groups of the original: whichever of them is read, the other belongs nowhere.
    let error = try_open(&disk, 3).err().unwrap();
    assert!(matches!(error, RecoveryError::Damaged { .. }), "{error}");
}

#[test]
fn a_seal_that_was_lost_with_groups_behind_it_is_refused() {
    let disk = disk_with(8, 10);
    let names = segments(&disk, b"QUORLIVE");
    assert_eq!(names.len(), 2);
    let mut bytes = disk.contents(&names[0]).unwrap();
    bytes[7 * BLOCK..].fill(0);
    disk.put_durably(&names[0], &bytes);
    let error = try_open(&disk, 3).err().unwrap();
    assert!(matches!(&error, RecoveryError::Damaged { offset, .. } if *offset == 7 * BLOCK as u64), "{error}");
}

#[test]
fn a_group_that_outlived_a_cut_never_continues_what_is_written_after_it() {
    let disk = fresh(1);
    let mut writer = support::writer(&disk, 2);
    writer.persist_all([put(1, 10), put(2, 10)]);
    disk.crash(CrashPolicy::SyncedOnly);
    let (name, with_two) = only_segment(&disk);
    // Position 2 is lost: its group is torn. Then another group 2 is written in its place.
    let mut torn = with_two.clone();
    torn[2 * BLOCK + 66] ^= 1;
    disk.put_durably(&name, &torn);
    let mut writer = Writer::new(open(&disk, 3).pump);
    writer.persist_all([put(2, 500), put(3, 500)]);
    disk.crash(CrashPolicy::SyncedOnly);
    // A group 3 that continues the old group 2 comes back from the dead in place of the new one.
    let old = disk_with(3, 10);
    let (_, old_bytes) = only_segment(&old);
    let (_, mut bytes) = only_segment(&disk);
    bytes[3 * BLOCK..4 * BLOCK].copy_from_slice(&old_bytes[3 * BLOCK..4 * BLOCK]);
    disk.put_durably(&name, &bytes);
    assert_eq!(positions(&open(&disk, 4).state), [1, 2]);
}

#[test]
fn a_group_of_another_life_of_the_segment_is_never_read_even_if_all_else_fits() {
    let disk = disk_with(2, 10);
    let (name, mut bytes) = only_segment(&disk);
    // A third group like the second, with the right sequence, predecessor and CRCs, and a salt of its own or of another life.
    let second = bytes[2 * BLOCK..3 * BLOCK].to_vec();
    for (is_own, expected) in [(true, vec![1, 2, 3]), (false, vec![1, 2])] {
        let mut group = second.clone();
        group[8..16].copy_from_slice(&3u64.to_le_bytes());
        group[16] ^= u8::from(!is_own);
        group[40..44].copy_from_slice(&second[4..8]);
        group[64 + 12 + 1] = 3; // the record's position
        let body = crc32fast::hash(&group[64..]);
        group[48..52].copy_from_slice(&body.to_le_bytes());
        let checksum = crc32fast::hash(&group[8..64]);
        group[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes[3 * BLOCK..4 * BLOCK].copy_from_slice(&group);
        disk.put_durably(&name, &bytes);
        let found = open(&disk.copy(1), 3);
        assert_eq!(positions(&found.state), expected, "own life: {is_own}");
    }
}

#[test]
fn looking_at_a_torn_log_says_so_and_changes_nothing() {
    let disk = disk_with(3, 10);
    let (name, mut bytes) = only_segment(&disk);
    bytes[3 * BLOCK + 65] ^= 1;
    disk.put_durably(&name, &bytes);
    let operations = disk.operation_count();
    let report = check::<Record>(&disk, Some(&identity())).unwrap();
    assert_eq!((report.records, report.torn_bytes, report.last_group, report.vouched_group), (2, 4096, 2, 1));
    assert_eq!(disk.contents(&name).unwrap(), bytes);
    assert!(disk.operation_count() > operations);
    assert_eq!(open(&disk, 3).report.torn_bytes_cut, 4096);
    assert_eq!(check::<Record>(&disk, None).unwrap().torn_bytes, 0, "it was cut");
}

#[test]
fn a_cut_that_fails_anywhere_is_taken_up_by_the_next_start() {
    let disk = disk_with(3, 10);
    let (name, mut bytes) = only_segment(&disk);
    bytes[3 * BLOCK + 65] ^= 1;
    disk.put_durably(&name, &bytes);
    let mut completed = false;
    for count in 1..200 {
        let copy = disk.copy(count);
        copy.inject(
            Trigger::nth_of_all(count),
            Fault::PowerCut(CrashPolicy::Random(quorate_simulated_disk::Torn::Sectors)),
        );
        if try_open(&copy, 3).is_ok() {
            completed = true;
            break;
        }
        assert_eq!(positions(&open(&copy, 4).state), [1, 2], "power cut at operation {count}");
    }
    assert!(completed, "the loop must reach a start that is not cut off");
    let _ = OperationKind::Write;
}
