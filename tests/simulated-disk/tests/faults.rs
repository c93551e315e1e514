//! Errors, a full disk, rot, stalls, and disks that lie.

// The workspace allows `unwrap` in tests; clippy does not see that the helpers of this file are one.
#![allow(clippy::unwrap_used)]

use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_simulated_disk::{
    AfterFailedSync, CrashPolicy, Fault, OperationKind, PAGE_BYTES, SimulatedDisk, Torn, Trigger,
};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

const PAGE: usize = PAGE_BYTES as usize;
const LIMIT: Duration = Duration::from_secs(20);

fn write_synced(disk: &SimulatedDisk, name: &str, bytes: &[u8]) -> Box<dyn VfsFile> {
    let mut file = disk.create(Path::new(name)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_directory().unwrap();
    file
}

fn found(bytes: impl Into<Vec<u8>>) -> Option<Vec<u8>> {
    Some(bytes.into())
}

#[test]
fn the_nth_operation_of_a_kind_fails_and_no_other() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", b"");
    disk.inject(Trigger::nth(OperationKind::Write, 3), Fault::Error);
    let results: Vec<bool> = (0..5).map(|place| file.write_all_at(b"x", place).is_ok()).collect();
    assert_eq!(results, [true, true, false, true, true]);
    assert_eq!(disk.contents("log"), found(*b"xx\0xx"));
}

#[test]
fn a_fault_may_be_bound_to_a_name_and_may_last() {
    let disk = SimulatedDisk::new(0);
    let (mut log, mut other) = (write_synced(&disk, "log", b""), write_synced(&disk, "other", b""));
    disk.inject(Trigger::nth(OperationKind::SyncData, 2).on("log").and_all_later(), Fault::Error);
    let results: Vec<(bool, bool)> = (0..3).map(|_| (log.sync_data().is_ok(), other.sync_data().is_ok())).collect();
    assert_eq!(results, [(true, true), (false, true), (false, true)]);
    disk.disarm();
    log.sync_data().unwrap();
}

#[test]
fn a_write_may_arrive_in_part_before_its_error() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", b"........");
    disk.inject(Trigger::next(OperationKind::Write), Fault::PartialWrite { bytes: 3 });
    assert_eq!(file.write_all_at(b"abcdef", 0).unwrap_err().raw_os_error(), Some(5));
    assert_eq!(disk.contents("log"), found("abc....."));
}

#[test]
fn a_full_disk_takes_what_fits_and_then_refuses_and_takes_more_when_room_is_made() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", &[1; PAGE]);
    drop(write_synced(&disk, "ballast", &[1; PAGE]));
    disk.set_capacity(Some(3 * PAGE_BYTES));
    assert_eq!(file.write_all_at(&[2; 3 * PAGE], PAGE_BYTES).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(disk.contents("log"), found([vec![1; PAGE], vec![2; PAGE]].concat()));
    assert_eq!(file.allocate(3 * PAGE_BYTES).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.length().unwrap(), 2 * PAGE_BYTES, "no room at all");
    file.write_all_at(&[3; 2 * PAGE], 0).unwrap();
    disk.remove(Path::new("ballast")).unwrap();
    file.write_all_at(&[4; PAGE], 2 * PAGE_BYTES).unwrap();
    assert_eq!(disk.used_bytes(), 3 * PAGE_BYTES);
    disk.set_capacity(Some(5 * PAGE_BYTES + 1));
    assert_eq!(file.allocate(9 * PAGE_BYTES).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(file.length().unwrap(), 5 * PAGE_BYTES, "zeros as far as there was room");
    disk.set_capacity(None);
    file.write_all_at(b"x", 9 * PAGE_BYTES).unwrap();
}

#[test]
fn after_a_failed_sync_pages_marked_clean_are_read_as_new_and_never_written() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", b"old");
    file.write_all_at(b"new", 0).unwrap();
    disk.inject(Trigger::next(OperationKind::SyncData), Fault::FailedSync(AfterFailedSync::MarkedClean));
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(5));
    file.sync_data().unwrap();
    assert_eq!(disk.contents("log"), found("new"));
    assert_eq!(disk.undurable().0, [PathBuf::from("log")], "the disk knows better than its process");
    let cut = disk.copy(0);
    cut.crash(CrashPolicy::Everything);
    assert_eq!(cut.contents("log"), found("old"));

    file.write_all_at(b"!", 3).unwrap();
    file.sync_data().unwrap();
    disk.crash(CrashPolicy::SyncedOnly);
    assert_eq!(disk.contents("log"), found("new!"), "another write makes the whole page dirty again");
}

#[test]
fn after_a_failed_sync_dirty_pages_are_written_by_the_next_one() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", b"old");
    file.write_all_at(b"new", 0).unwrap();
    disk.inject(Trigger::next(OperationKind::SyncData), Fault::Error);
    file.sync_data().unwrap_err();
    assert_eq!(disk.durable_contents("log"), found("old"));
    file.sync_data().unwrap();
    assert_eq!(disk.durable_contents("log"), found("new"));
}

#[test]
fn after_a_failed_sync_that_drops_its_pages_the_old_bytes_are_read() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", b"old");
    file.write_all_at(b"newer", 0).unwrap();
    disk.inject(Trigger::next(OperationKind::SyncData), Fault::FailedSync(AfterFailedSync::Dropped));
    file.sync_data().unwrap_err();
    assert_eq!(disk.contents("log"), found(*b"old\0\0"));
}

#[test]
fn a_failed_directory_sync_may_lose_names_for_good_and_what_depends_on_them() {
    let names_after = |after, policy| {
        let disk = SimulatedDisk::new(0);
        drop(disk.create(Path::new("a")).unwrap());
        disk.inject(Trigger::next(OperationKind::SyncDirectory), Fault::FailedSync(after));
        disk.sync_directory().unwrap_err();
        let seen = disk.list().unwrap().len();
        drop(disk.create(Path::new("b")).unwrap());
        if after == AfterFailedSync::MarkedClean {
            disk.rename(Path::new("a"), Path::new("c")).unwrap();
        }
        disk.sync_directory().unwrap();
        disk.crash(policy);
        (seen, disk.list().unwrap().iter().map(|name| name.display().to_string()).collect::<String>())
    };
    for policy in [CrashPolicy::SyncedOnly, CrashPolicy::Everything, CrashPolicy::Random(Torn::Pages)] {
        assert_eq!(names_after(AfterFailedSync::StillDirty, policy), (1, "ab".to_owned()));
        assert_eq!(names_after(AfterFailedSync::MarkedClean, policy), (1, "b".to_owned()));
        assert_eq!(names_after(AfterFailedSync::Dropped, policy), (0, "b".to_owned()));
    }
}

#[test]
fn a_file_made_under_a_name_whose_removal_a_failed_sync_forgot_is_lost_and_the_old_one_comes_back() {
    let disk = SimulatedDisk::new(0);
    drop(write_synced(&disk, "log", b"old"));
    disk.remove(Path::new("log")).unwrap();
    disk.inject(Trigger::next(OperationKind::SyncDirectory), Fault::FailedSync(AfterFailedSync::MarkedClean));
    disk.sync_directory().unwrap_err();
    drop(write_synced(&disk, "log", b"new"));
    assert_eq!(disk.contents("log"), found("new"));
    assert_eq!(disk.undurable(), (vec![], true));
    disk.crash(CrashPolicy::Everything);
    assert_eq!(disk.contents("log"), found("old"));
}

#[test]
fn a_broken_sector_fails_reads_that_touch_it_until_it_is_written_over_whole() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", &[1; PAGE]);
    disk.break_sectors("log", 600..601);
    let reads =
        |file: &dyn VfsFile, offset| file.read_exact_at(&mut [0; 100], offset).map_err(|error| error.raw_os_error());
    assert_eq!(reads(&*file, 412), Ok(()));
    assert_eq!(reads(&*file, 413), Err(Some(5)));
    assert_eq!(reads(&*file, 1_023), Err(Some(5)));
    assert_eq!(reads(&*file, 1_024), Ok(()));
    file.write_all_at(&[2; 511], 512).unwrap();
    assert_eq!(reads(&*file, 512), Err(Some(5)));
    disk.crash(CrashPolicy::Everything);
    let mut file = disk.open(Path::new("log")).unwrap();
    assert_eq!(reads(&*file, 512), Err(Some(5)), "also after a restart");
    file.write_all_at(&[2; 512], 512).unwrap();
    assert_eq!(reads(&*file, 512), Ok(()));
}

#[test]
fn a_flipped_bit_is_read_and_stays_unless_a_dirty_page_covers_it() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", &[0; 2 * PAGE]);
    file.write_all_at(&[1], PAGE_BYTES).unwrap();
    disk.flip_bit("log", 5, 3);
    disk.flip_bit("log", PAGE_BYTES + 5, 0);
    let byte = |bytes: Option<Vec<u8>>, place: usize| bytes.unwrap()[place];
    assert_eq!((byte(disk.contents("log"), 5), byte(disk.durable_contents("log"), 5)), (8, 8));
    assert_eq!((byte(disk.contents("log"), PAGE + 5), byte(disk.durable_contents("log"), PAGE + 5)), (0, 1));
    let lost = disk.copy(0);
    lost.crash(CrashPolicy::SyncedOnly);
    assert_eq!(byte(lost.contents("log"), PAGE + 5), 1);
    file.sync_data().unwrap();
    disk.crash(CrashPolicy::SyncedOnly);
    assert_eq!((byte(disk.contents("log"), 5), byte(disk.contents("log"), PAGE + 5)), (8, 0));
}

#[test]
fn rot_strikes_where_the_seed_says() {
    let rot = |seed| {
        let disk = SimulatedDisk::new(seed);
        drop(write_synced(&disk, "log", &[0; 1_000]));
        let places = disk.rot("log", 1);
        let changed: Vec<u64> =
            (0..).zip(disk.contents("log").unwrap()).filter(|(_, byte)| *byte != 0).map(|(at, _)| at).collect();
        assert_eq!(changed, places);
        places
    };
    assert_eq!(rot(1), rot(1));
    assert!((2..10).any(|seed| rot(seed) != rot(1)));
}

#[test]
fn a_stalled_operation_hangs_until_it_may_go_on_and_others_do_not() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", b"old");
    disk.stall(&[OperationKind::SyncData]);
    assert!(disk.is_stalled(OperationKind::SyncData) && !disk.is_stalled(OperationKind::Write));
    file.write_all_at(b"new", 0).unwrap();
    let syncing = std::thread::spawn(move || file.sync_data());
    assert!(disk.await_hanging(1, LIMIT));
    assert!(!syncing.is_finished());
    assert_eq!(disk.durable_contents("log"), found("old"));

    // What is written while the sync hangs is not its business.
    let mut second = disk.open(Path::new("log")).unwrap();
    second.write_all_at(b"LATER", 0).unwrap();
    disk.resume();
    syncing.join().unwrap().unwrap();
    assert_eq!(disk.durable_contents("log"), found("new"));
    assert_eq!(disk.contents("log"), found("LATER"));
    second.sync_data().unwrap();
    assert_eq!(disk.durable_contents("log"), found("LATER"));
}

#[test]
fn a_directory_sync_does_not_cover_a_name_made_while_it_hung() {
    let disk = SimulatedDisk::new(0);
    drop(disk.create(Path::new("before")).unwrap());
    disk.stall(&[OperationKind::SyncDirectory]);
    let process = disk.mount();
    let syncing = std::thread::spawn(move || process.sync_directory());
    assert!(disk.await_hanging(1, LIMIT));
    drop(disk.create(Path::new("meanwhile")).unwrap());
    disk.resume();
    syncing.join().unwrap().unwrap();
    assert_eq!(disk.durable_contents("before"), found(""));
    assert_eq!(disk.durable_contents("meanwhile"), None);
}

#[test]
fn a_power_cut_ends_a_stall_and_a_kill_does_not() {
    let disk = SimulatedDisk::new(0);
    disk.stall(&[OperationKind::Write]);
    disk.kill();
    assert!(disk.is_stalled(OperationKind::Write));
    disk.crash(CrashPolicy::Everything);
    assert!(!disk.is_stalled(OperationKind::Write));
}

#[test]
fn an_operation_that_hangs_fails_when_its_process_ends() {
    let disk = SimulatedDisk::new(0);
    for end in [SimulatedDisk::kill, (|disk| disk.crash(CrashPolicy::Everything)) as fn(&SimulatedDisk)] {
        let process = disk.mount();
        disk.inject(Trigger::next(OperationKind::SyncDirectory), Fault::Stall);
        let syncing = std::thread::spawn(move || process.sync_directory());
        assert!(disk.await_hanging(1, LIMIT));
        end(&disk);
        syncing.join().unwrap().unwrap_err();
        disk.resume();
        disk.mount().sync_directory().unwrap();
    }
}

#[test]
fn the_power_may_be_cut_at_any_operation() {
    let run = |disk: &SimulatedDisk| -> std::io::Result<()> {
        let process = disk.mount();
        let mut file = process.create(Path::new("log"))?;
        file.write_all_at(b"x", 0)?;
        file.sync_data()?;
        process.sync_directory()
    };
    let mut left = Vec::new();
    for count in 1..=5 {
        let disk = SimulatedDisk::new(0);
        disk.inject(Trigger::nth_of_all(count), Fault::PowerCut(CrashPolicy::Everything));
        left.push((run(&disk).is_ok(), disk.contents("log")));
    }
    let expected = [(false, None), (false, found("")), (false, found("x")), (false, found("x")), (true, found("x"))];
    assert_eq!(left, expected);
}

#[test]
fn a_lying_disk_says_yes_and_keeps_nothing() {
    let run = |data: bool, directory: bool| {
        let disk = SimulatedDisk::new(0);
        drop(write_synced(&disk, "log", b"old"));
        disk.ignore_sync_data(data);
        disk.ignore_sync_directory(directory);
        disk.open(Path::new("log")).unwrap().write_all_at(b"new", 0).unwrap();
        disk.open(Path::new("log")).unwrap().sync_data().unwrap();
        disk.rename(Path::new("log"), Path::new("renamed")).unwrap();
        disk.sync_directory().unwrap();
        disk.crash(CrashPolicy::SyncedOnly);
        (disk.contents("log"), disk.contents("renamed"))
    };
    assert_eq!(run(false, false), (None, found("new")));
    assert_eq!(run(true, false), (None, found("old")));
    assert_eq!(run(false, true), (found("new"), None));
    assert_eq!(run(true, true), (found("old"), None));
}

#[test]
fn a_file_put_there_by_hand_is_durable_and_replaces_another() {
    let disk = SimulatedDisk::new(0);
    disk.put_durably("log", b"first and longer");
    disk.put_durably("log", b"second");
    disk.crash(CrashPolicy::SyncedOnly);
    assert_eq!(disk.contents("log"), found("second"));
    assert_eq!(disk.list().unwrap(), [Path::new("log")]);
}
