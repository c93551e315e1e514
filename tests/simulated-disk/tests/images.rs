//! Crash images: what a recording shows, how many images there are, and that they find a missing sync.

// The workspace allows `unwrap` in tests; clippy does not see that the helpers of this file are one.
#![allow(clippy::unwrap_used)]

use quorate_framework::vfs::Vfs;
use quorate_simulated_disk::{
    CrashPolicy, Fault, ImageLimits, Operation, OperationKind, PAGE_BYTES, Recording, SimulatedDisk, Torn, Trigger,
};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

const PAGE: usize = PAGE_BYTES as usize;

/// What a careless author may leave out or do too early.
#[derive(Clone, Copy, Debug, Default)]
struct Mistakes {
    no_sync: bool,
    no_directory_sync: bool,
    answer_before_directory_sync: bool,
    overwrite_in_place: bool,
}

/// Replaces a small file, so that after the answer the new value is found and before it the old one or the new one.
fn replace(disk: &SimulatedDisk, value: u8, mistakes: Mistakes) -> io::Result<()> {
    let bytes = [value; PAGE + 10];
    if mistakes.overwrite_in_place {
        let mut file = disk.open(Path::new("vote"))?;
        file.write_all_at(&bytes, 0)?;
        file.sync_data()?;
        disk.mark(format!("answer {value}"));
        return Ok(());
    }
    let mut file = disk.create(Path::new("vote.new"))?;
    file.write_all_at(&bytes, 0)?;
    if !mistakes.no_sync {
        file.sync_data()?;
    }
    disk.rename(Path::new("vote.new"), Path::new("vote"))?;
    if mistakes.answer_before_directory_sync {
        disk.mark(format!("answer {value}"));
    }
    if !mistakes.no_directory_sync {
        disk.sync_directory()?;
    }
    if !mistakes.answer_before_directory_sync {
        disk.mark(format!("answer {value}"));
    }
    Ok(())
}

fn recorded(mistakes: Mistakes, disk: &SimulatedDisk) -> Recording {
    disk.put_durably("vote", &[0; PAGE + 10]);
    disk.start_recording();
    for value in 1..=3 {
        replace(disk, value, mistakes).unwrap();
    }
    disk.stop_recording().unwrap()
}

/// The first image in which an answered value is missing, or a value is found that was never written.
fn violation(recording: &Recording) -> Option<String> {
    recording.crash_images(ImageLimits::default()).find_map(|image| {
        let done = &recording.operations()[..image.operations_done];
        let answers = done.iter().filter(|recorded| matches!(recorded.operation, Operation::Mark(_)));
        let answered = answers.count() as u8;
        let found = image.disk.contents("vote").unwrap_or_default();
        let legal = (answered..=answered + 1).any(|value| found[..] == [value; PAGE + 10]);
        (!legal).then(|| image.describe())
    })
}

#[test]
fn a_careful_replacement_stands_every_power_cut() {
    let recording = recorded(Mistakes::default(), &SimulatedDisk::new(0));
    let steps = ["create vote.new", "write vote.new 0+4106", "sync vote.new", "rename vote.new vote", "sync directory"];
    let expected: Vec<String> =
        (1..=3).flat_map(|value| steps.map(str::to_owned).into_iter().chain([format!("answer {value}")])).collect();
    assert_eq!(recording.lines(), expected);
    assert_eq!(violation(&recording), None);
    assert!(recording.crash_images(ImageLimits::default()).all(|image| image.exhaustive));
}

#[test]
fn every_sync_left_out_or_too_late_is_found() {
    let mistakes = [
        Mistakes { no_sync: true, ..Mistakes::default() },
        Mistakes { no_directory_sync: true, ..Mistakes::default() },
        Mistakes { answer_before_directory_sync: true, ..Mistakes::default() },
        Mistakes { overwrite_in_place: true, ..Mistakes::default() },
    ];
    for mistake in mistakes {
        assert!(violation(&recorded(mistake, &SimulatedDisk::new(0))).is_some(), "{mistake:?} was not seen");
    }
}

#[test]
fn a_lying_disk_is_found() {
    for (data, directory) in [(true, false), (false, true)] {
        let disk = SimulatedDisk::new(0);
        disk.ignore_sync_data(data);
        disk.ignore_sync_directory(directory);
        let found = violation(&recorded(Mistakes::default(), &disk));
        assert!(found.is_some(), "syncs of files ignored: {data}, of the directory: {directory}");
    }
}

#[test]
fn every_outcome_of_every_moment_comes_exactly_once() {
    let disk = SimulatedDisk::new(0);
    disk.put_durably("log", &[1; 2 * PAGE]);
    let mut file = disk.open(Path::new("log")).unwrap();
    disk.start_recording();
    file.write_all_at(&[2; PAGE], 0).unwrap(); // two outcomes
    file.write_all_at(&[2; PAGE], PAGE_BYTES).unwrap(); // four
    file.read_exact_at(&mut [0; 4], 0).unwrap(); // no moment of its own
    drop(disk.create(Path::new("other")).unwrap()); // eight
    file.sync_data().unwrap(); // two
    disk.mark("answer"); // the same two, with something to expect
    disk.sync_directory().unwrap(); // one
    let recording = disk.stop_recording().unwrap();
    let mut by_moment = vec![0; recording.operations().len() + 1];
    let mut seen = BTreeSet::new();
    for image in recording.crash_images(ImageLimits::default()) {
        by_moment[image.operations_done] += 1;
        let state = (image.operations_done, image.disk.list().unwrap(), image.disk.contents("log"));
        assert!(seen.insert(state), "twice: {}", image.describe());
    }
    assert_eq!(by_moment, [1, 2, 4, 0, 8, 2, 2, 1]);
}

#[test]
fn of_too_many_outcomes_a_sample_is_made_with_the_extremes_and_each_single_loss() {
    let disk = SimulatedDisk::new(0);
    disk.put_durably("log", &[1; 40 * PAGE]);
    disk.start_recording();
    disk.open(Path::new("log")).unwrap().write_all_at(&[2; 40 * PAGE], 0).unwrap();
    let recording = disk.stop_recording().unwrap();
    let sample = |seed| {
        let limits = ImageLimits { images_per_moment: 150, torn: Torn::Pages, seed };
        let images =
            recording.crash_images(limits).filter(|image| image.operations_done == recording.operations().len());
        let new_pages = images.map(|image| {
            assert!(!image.exhaustive);
            let bytes = image.disk.contents("log").unwrap();
            bytes.chunks(PAGE).map(|page| page[0] == 2).collect::<Vec<bool>>()
        });
        new_pages.collect::<BTreeSet<Vec<bool>>>()
    };
    let images = sample(1);
    assert_eq!(images.len(), 150);
    for new in [true, false] {
        assert!(images.contains(&vec![new; 40]));
        for exception in 0..40 {
            let mut pages = vec![new; 40];
            pages[exception] = !new;
            assert!(images.contains(&pages), "page {exception} alone");
        }
    }
    assert_eq!(images, sample(1));
    assert_ne!(images, sample(2));
}

/// A generator of its own, so that the test does not lean on what it tests.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// One random operation on a few names.
fn random_operation(disk: &SimulatedDisk, numbers: &mut Numbers) {
    let name = |numbers: &mut Numbers| PathBuf::from(["a", "b", "c"][numbers.below(3) as usize]);
    let (path, other) = (name(numbers), name(numbers));
    match numbers.below(9) {
        0 => drop(disk.create(&path)),
        1 => drop(disk.rename(&path, &other)),
        2 => drop(disk.remove(&path)),
        3 => drop(disk.sync_directory()),
        4 => drop(disk.open(&path).and_then(|mut file| file.sync_data())),
        5 => drop(disk.open(&path).and_then(|mut file| file.allocate(numbers.below(3) * 3_000))),
        _ => {
            let bytes = vec![1 + numbers.below(255) as u8; 1 + numbers.below(5_000) as usize];
            let offset = numbers.below(2) * 2_000;
            drop(disk.open(&path).and_then(|mut file| file.write_all_at(&bytes, offset)));
        }
    }
}

type Contents = Vec<(PathBuf, Vec<u8>)>;

fn contents(disk: &SimulatedDisk) -> Contents {
    let names = disk.list().unwrap();
    names.into_iter().map(|name| (name.clone(), disk.contents(&name).unwrap())).collect()
}

#[test]
fn a_recording_gives_back_every_moment_as_it_was() {
    for seed in 0..50 {
        let disk = SimulatedDisk::new(seed);
        let mut numbers = Numbers(seed);
        disk.inject(Trigger::nth(OperationKind::Write, 4), Fault::PartialWrite { bytes: 100 });
        disk.start_recording();
        let mut moments = Vec::new();
        for step in 0..60 {
            random_operation(&disk, &mut numbers);
            if step == 40 {
                disk.crash(CrashPolicy::Random(Torn::Sectors));
            }
            let done = disk.recording().unwrap().operations().len();
            // Looking at names is an operation too: at those of a copy.
            moments.push((done, contents(&disk.copy(0)), disk.undurable()));
        }
        let recording = disk.stop_recording().unwrap();
        for (done, seen, undurable) in moments {
            let again = recording.disk_after(done);
            assert_eq!((contents(&again), again.undurable()), (seen, undurable), "seed {seed} after {done}");
        }
    }
}

#[test]
fn what_a_power_cut_leaves_by_chance_is_among_the_images_of_its_moment() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let mut numbers = Numbers(seed);
        for _ in 0..12 {
            random_operation(&disk, &mut numbers);
        }
        disk.start_recording();
        let recording = disk.stop_recording().unwrap();
        let limits = ImageLimits { images_per_moment: 20_000, torn: Torn::Pages, seed: 0 };
        let mut images = BTreeSet::new();
        for image in recording.crash_images(limits) {
            assert!(image.exhaustive);
            images.insert(contents(&image.disk));
        }
        let policies = [CrashPolicy::SyncedOnly, CrashPolicy::Everything];
        let chances = (0..50).map(|chance| (chance, CrashPolicy::Random(Torn::Pages)));
        for (chance, policy) in policies.into_iter().map(|policy| (0, policy)).chain(chances) {
            let cut = disk.copy(chance);
            cut.crash(policy);
            assert!(images.contains(&contents(&cut)), "seed {seed}, chance {chance}, {policy:?}");
        }
    }
}

#[test]
fn what_survives_of_a_page_is_something_that_was_written_there_since_the_last_sync() {
    for seed in 0..300 {
        let disk = SimulatedDisk::new(seed);
        let mut numbers = Numbers(seed);
        disk.put_durably("log", &[0; 4 * PAGE]);
        let mut file = disk.open(Path::new("log")).unwrap();
        let mut legal = vec![BTreeSet::from([0_u8]); 4];
        let mut newest = [0_u8; 4];
        for value in 1..=30 {
            let page = numbers.below(4) as usize;
            file.write_all_at(&[value; PAGE], (page * PAGE) as u64).unwrap();
            newest[page] = value;
            legal[page].insert(value);
            if numbers.below(6) == 0 {
                file.sync_data().unwrap();
                legal = newest.iter().map(|value| BTreeSet::from([*value])).collect();
            }
        }
        disk.crash(CrashPolicy::Random(Torn::Pages));
        let left = disk.contents("log").unwrap();
        for (page, legal) in left.chunks(PAGE).zip(legal) {
            assert!(page.iter().all(|byte| *byte == page[0]) && legal.contains(&page[0]), "seed {seed}: {}", page[0]);
        }
    }
}

#[test]
fn a_failed_operation_stands_in_the_recording_with_its_error() {
    let disk = SimulatedDisk::new(0);
    disk.put_durably("log", b"");
    disk.start_recording();
    let mut file = disk.open(Path::new("log")).unwrap();
    disk.inject(Trigger::next(OperationKind::SyncData), Fault::Full);
    file.sync_data().unwrap_err();
    disk.kill();
    disk.crash(CrashPolicy::SyncedOnly);
    let lines = disk.stop_recording().unwrap().lines();
    assert_eq!(lines[1..], ["kill", "power cut"]);
    assert!(lines[0].starts_with("sync log failed: No space left"), "{}", lines[0]);
}
