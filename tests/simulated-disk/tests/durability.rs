//! What survives a kill, and what a power cut may leave.

// The workspace allows `unwrap` in tests; clippy does not see that the helpers of this file are one.
#![allow(clippy::unwrap_used)]

use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_simulated_disk::{CrashPolicy, ImageLimits, PAGE_BYTES, Recording, SimulatedDisk, Torn};
use std::collections::BTreeSet;
use std::path::Path;

const PAGE: usize = PAGE_BYTES as usize;

fn write_synced(disk: &SimulatedDisk, name: &str, bytes: &[u8]) -> Box<dyn VfsFile> {
    let mut file = disk.create(Path::new(name)).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_directory().unwrap();
    file
}

fn record(disk: &SimulatedDisk, run: impl FnOnce(&SimulatedDisk)) -> Recording {
    disk.start_recording();
    run(disk);
    disk.stop_recording().unwrap()
}

/// What a file is found to hold in the images of the last moment; all of them, checked.
fn last_moment(recording: &Recording, name: &str, torn: Torn) -> BTreeSet<Option<Vec<u8>>> {
    let images = recording.crash_images(ImageLimits { images_per_moment: 100_000, torn, seed: 0 });
    images
        .filter(|image| image.operations_done == recording.operations().len())
        .map(|image| {
            assert!(image.exhaustive);
            assert_eq!(image.disk.undurable(), (vec![], false), "what a power cut left is durable");
            image.disk.contents(name)
        })
        .collect()
}

fn found(bytes: impl Into<Vec<u8>>) -> Option<Vec<u8>> {
    Some(bytes.into())
}

#[test]
fn what_was_synced_with_its_name_survives_every_power_cut() {
    for seed in 0..200 {
        for policy in [CrashPolicy::SyncedOnly, CrashPolicy::Everything, CrashPolicy::Random(Torn::Sectors)] {
            let disk = SimulatedDisk::new(seed);
            drop(write_synced(&disk, "log", b"synced"));
            disk.crash(policy);
            assert_eq!(disk.contents("log"), found("synced"));
            assert_eq!(disk.list().unwrap(), [Path::new("log")]);
        }
    }
}

#[test]
fn an_unsynced_write_is_lost_or_kept_as_the_policy_says() {
    for (policy, left) in [(CrashPolicy::SyncedOnly, "old"), (CrashPolicy::Everything, "new and longer")] {
        let disk = SimulatedDisk::new(0);
        write_synced(&disk, "log", b"old").write_all_at(b"new and longer", 0).unwrap();
        assert_eq!(disk.contents("log"), found("new and longer"));
        assert_eq!(disk.durable_contents("log"), found("old"));
        disk.crash(policy);
        assert_eq!(disk.contents("log"), found(left));
    }
}

#[test]
fn a_kill_loses_nothing_and_a_later_power_cut_still_does() {
    let disk = SimulatedDisk::new(0);
    write_synced(&disk, "log", b"old").write_all_at(b"new", 0).unwrap();
    disk.kill();
    assert_eq!(disk.contents("log"), found("new"));
    assert_eq!(disk.undurable(), (vec!["log".into()], false));
    let unsynced = disk.copy(0);
    unsynced.crash(CrashPolicy::SyncedOnly);
    assert_eq!(unsynced.contents("log"), found("old"));

    disk.open(Path::new("log")).unwrap().sync_data().unwrap();
    disk.crash(CrashPolicy::SyncedOnly);
    assert_eq!(disk.contents("log"), found("new"), "the next process's sync covers what its predecessor wrote");
}

#[test]
fn a_synced_file_vanishes_if_the_directory_was_not_synced() {
    let disk = SimulatedDisk::new(0);
    let recording = record(&disk, |disk| {
        let mut file = disk.create(Path::new("log")).unwrap();
        file.write_all_at(b"synced", 0).unwrap();
        file.sync_data().unwrap();
    });
    assert_eq!(last_moment(&recording, "log", Torn::Pages), BTreeSet::from([None, found("synced")]));
}

#[test]
fn a_rename_may_be_lost_and_may_be_found_without_the_data_of_the_file() {
    let disk = SimulatedDisk::new(0);
    drop(write_synced(&disk, "metadata", b"old"));
    let recording = record(&disk, |disk| {
        let mut file = disk.create(Path::new("temporary")).unwrap();
        file.write_all_at(b"new", 0).unwrap();
        disk.rename(Path::new("temporary"), Path::new("metadata")).unwrap();
    });
    let outcomes = last_moment(&recording, "metadata", Torn::Pages);
    assert_eq!(outcomes, BTreeSet::from([found("old"), found(""), found([0; 3]), found("new")]));
}

#[test]
fn names_become_durable_in_any_order_unless_they_share_one() {
    let disk = SimulatedDisk::new(0);
    let recording = record(&disk, |disk| {
        drop(disk.create(Path::new("a")).unwrap());
        drop(disk.create(Path::new("b")).unwrap());
        disk.rename(Path::new("b"), Path::new("c")).unwrap();
    });
    let end = recording.operations().len();
    let images = recording.crash_images(ImageLimits::default()).filter(|image| image.operations_done == end);
    let names: Vec<String> = images
        .map(|image| image.disk.list().unwrap().iter().map(|name| name.display().to_string()).collect())
        .collect();
    let expected = ["", "a", "ab", "ac", "b", "c"];
    assert_eq!(BTreeSet::from_iter(names.iter().map(String::as_str)), BTreeSet::from(expected));
    assert_eq!(names.len(), expected.len(), "each once");
}

#[test]
fn two_renames_onto_one_name_keep_their_order() {
    let disk = SimulatedDisk::new(0);
    drop(write_synced(&disk, "x", b"x"));
    drop(write_synced(&disk, "y", b"y"));
    let recording = record(&disk, |disk| {
        disk.rename(Path::new("x"), Path::new("z")).unwrap();
        disk.rename(Path::new("y"), Path::new("z")).unwrap();
    });
    let both: BTreeSet<_> = recording
        .crash_images(ImageLimits::default())
        .map(|image| ["x", "y", "z"].map(|name| image.disk.contents(name).map(|bytes| bytes[0] as char)))
        .collect();
    let expected = [[Some('x'), Some('y'), None], [None, Some('y'), Some('x')], [None, None, Some('y')]];
    assert_eq!(both, BTreeSet::from(expected));
}

#[test]
fn a_removal_without_a_directory_sync_may_bring_the_file_back_with_its_data() {
    let disk = SimulatedDisk::new(0);
    drop(write_synced(&disk, "segment", b"old records"));
    let recording = record(&disk, |disk| disk.remove(Path::new("segment")).unwrap());
    assert_eq!(last_moment(&recording, "segment", Torn::Pages), BTreeSet::from([None, found("old records")]));
    disk.sync_directory().unwrap();
    disk.crash(CrashPolicy::Random(Torn::Pages));
    assert_eq!(disk.contents("segment"), None);
}

#[test]
fn pages_survive_each_on_its_own() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", &[1; 2 * PAGE]);
    let recording = record(&disk, |_| file.write_all_at(&[2; 2 * PAGE], 0).unwrap());
    let expected =
        [(1, 1), (1, 2), (2, 1), (2, 2)].map(|(first, second)| found([[first; PAGE], [second; PAGE]].concat()));
    assert_eq!(last_moment(&recording, "log", Torn::Pages), BTreeSet::from(expected));
}

#[test]
fn a_page_is_found_as_it_was_after_one_of_its_writes_and_never_as_a_mixture() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", b"......");
    let recording = record(&disk, |_| {
        file.write_all_at(b"ab", 0).unwrap();
        file.write_all_at(b"cd", 2).unwrap();
        file.write_all_at(b"ef", 4).unwrap();
    });
    let expected = ["......", "ab....", "abcd..", "abcdef"].map(found);
    assert_eq!(last_moment(&recording, "log", Torn::Pages), BTreeSet::from(expected));
}

#[test]
fn a_page_may_be_torn_at_sectors_where_that_is_asked_for_and_never_inside_one() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", &[1; 1_024]);
    let recording = record(&disk, |_| file.write_all_at(&[2; 1_024], 0).unwrap());
    let expected =
        [(1, 1), (1, 2), (2, 1), (2, 2)].map(|(first, second)| found([[first; 512], [second; 512]].concat()));
    assert_eq!(last_moment(&recording, "log", Torn::Sectors), BTreeSet::from(expected));
    assert_eq!(last_moment(&recording, "log", Torn::Pages).len(), 2);
}

#[test]
fn a_file_may_be_found_longer_without_its_data_and_shorter_than_what_was_written() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", b"ab");
    let recording = record(&disk, |_| file.write_all_at(b"cd", 2).unwrap());
    let expected = [found("ab"), found(*b"ab\0\0"), found("abcd")];
    assert_eq!(last_moment(&recording, "log", Torn::Pages), BTreeSet::from(expected));
}

#[test]
fn a_file_that_grew_by_many_pages_may_be_found_grown_halfway() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", b"");
    let recording = record(&disk, |_| file.allocate(8 * PAGE_BYTES).unwrap());
    let expected = [0, 4, 8].map(|pages| found(vec![0; pages * PAGE]));
    assert_eq!(last_moment(&recording, "log", Torn::Pages), BTreeSet::from(expected));
    file.sync_data().unwrap();
    assert_eq!(disk.durable_contents("log").unwrap().len(), 8 * PAGE);
}

#[test]
fn bytes_behind_a_length_that_was_lost_do_not_come_back_when_the_file_grows_again() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", b"ab");
    let recording = record(&disk, |_| file.write_all_at(b"ABcd", 0).unwrap());
    let mut seen = BTreeSet::new();
    for image in recording.crash_images(ImageLimits::default()) {
        if image.disk.contents("log").unwrap().len() == 2 {
            image.disk.open(Path::new("log")).unwrap().allocate(4).unwrap();
            seen.insert(image.disk.contents("log"));
        }
    }
    assert_eq!(seen, BTreeSet::from([found(*b"ab\0\0"), found(*b"AB\0\0")]));
}

#[test]
fn a_truncation_and_the_loss_of_what_lay_beyond_are_one() {
    let disk = SimulatedDisk::new(0);
    let mut file = write_synced(&disk, "log", &[1; 2 * PAGE]);
    let recording = record(&disk, |_| {
        file.allocate(1).unwrap();
        file.allocate(2 * PAGE_BYTES).unwrap();
    });
    let zeros_beyond = |length: usize| found([vec![1], vec![0; length - 1]].concat());
    let expected = [found([1; 2 * PAGE]), found([1]), zeros_beyond(PAGE), zeros_beyond(2 * PAGE)];
    assert_eq!(last_moment(&recording, "log", Torn::Pages), BTreeSet::from(expected));
    file.sync_data().unwrap();
    disk.crash(CrashPolicy::SyncedOnly);
    assert_eq!(disk.contents("log"), zeros_beyond(2 * PAGE));
}

#[test]
fn the_seed_decides_what_a_random_power_cut_leaves() {
    let left = |seed| {
        let disk = SimulatedDisk::new(seed);
        let mut file = write_synced(&disk, "log", &[1; 16 * PAGE]);
        file.write_all_at(&[2; 16 * PAGE], 0).unwrap();
        drop(disk.create(Path::new("other")).unwrap());
        disk.crash(CrashPolicy::Random(Torn::Sectors));
        (disk.contents("log").unwrap(), disk.list().unwrap())
    };
    let outcomes: Vec<_> = (0..50).map(left).collect();
    assert_eq!(outcomes, (0..50).map(left).collect::<Vec<_>>());
    let different: BTreeSet<_> = outcomes.iter().collect();
    assert!(different.len() > 20, "only {} outcomes of 50 seeds", different.len());
    assert!(outcomes.iter().any(|(log, _)| log[..] == [1; 16 * PAGE]), "never everything lost");
    assert!(outcomes.iter().any(|(log, _)| log[..] == [2; 16 * PAGE]), "never everything kept");
}

#[test]
fn a_mounted_handle_and_its_files_end_with_their_process() {
    let disk = SimulatedDisk::new(0);
    let end_of_life: [fn(&SimulatedDisk); 3] =
        [SimulatedDisk::kill, |disk| disk.crash(CrashPolicy::Everything), SimulatedDisk::wipe];
    for (count, end) in end_of_life.iter().enumerate() {
        let process = disk.mount();
        let name = format!("file{count}");
        let mut file = process.create(Path::new(&name)).unwrap();
        end(&disk);
        file.write_all_at(b"late", 0).unwrap_err();
        file.sync_data().unwrap_err();
        file.length().unwrap_err();
        process.list().unwrap_err();
        process.sync_directory().unwrap_err();
        drop(file);
        disk.mount().list().unwrap();
    }
    assert_eq!(disk.list().unwrap(), [] as [&Path; 0], "wiped");
}

#[test]
fn an_open_file_outlives_its_name_and_then_its_room_is_free() {
    let disk = SimulatedDisk::new(0);
    let file = write_synced(&disk, "log", &[1; 10]);
    disk.remove(Path::new("log")).unwrap();
    disk.sync_directory().unwrap();
    let mut bytes = [0; 10];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes, [1; 10]);
    assert_eq!(disk.used_bytes(), PAGE_BYTES);
    drop(file);
    assert_eq!(disk.used_bytes(), 0);

    let left_open = write_synced(&disk, "log", &[1; 10]);
    disk.remove(Path::new("log")).unwrap();
    disk.kill();
    assert_eq!(disk.used_bytes(), 0, "a dead process holds nothing open");
    drop(left_open);
}

#[test]
fn names_that_exist_or_do_not_and_reads_past_the_end_are_refused_as_a_file_system_does() {
    use std::io::ErrorKind;
    let disk = SimulatedDisk::new(0);
    let file = write_synced(&disk, "log", b"12345");
    let kind = |result: std::io::Result<Box<dyn VfsFile>>| result.err().unwrap().kind();
    assert_eq!(kind(disk.create(Path::new("log"))), ErrorKind::AlreadyExists);
    assert_eq!(kind(disk.open(Path::new("none"))), ErrorKind::NotFound);
    for wrong in ["", "/log", "../log", "a/log", "."] {
        assert_eq!(kind(disk.open(Path::new(wrong))), ErrorKind::InvalidInput, "{wrong:?}");
    }
    assert_eq!(disk.rename(Path::new("none"), Path::new("log")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.remove(Path::new("none")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(file.read_exact_at(&mut [0; 3], 3).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(file.read_exact_at(&mut [0; 3], u64::MAX).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    let mut file = file;
    assert_eq!(file.write_all_at(b"x", u64::MAX).unwrap_err().kind(), ErrorKind::FileTooLarge);
    assert_eq!(disk.contents("log"), found("12345"));
}
