//! Every disk that a power cut may leave recovers as docs/STORAGE-FORMAT.md says.
#![allow(clippy::unwrap_used)]

mod support;

use quorate_recovery::RecoveryBase;
use quorate_simulated_disk::{CrashPolicy, ImageLimits, Operation, Recording, SimulatedDisk, Torn};
use support::history::*;
use support::*;

/// The highest ticket released among the first operations.
fn released(recording: &Recording, operations: usize) -> u64 {
    let marks = recording.operations()[..operations].iter().filter_map(|recorded| match &recorded.operation {
        Operation::Mark(text) => text.parse().ok(),
        _ => None,
    });
    marks.max().unwrap_or(0)
}

fn record(prepare: impl Fn(&SimulatedDisk), answer: Answer) -> Recording {
    let disk = fresh(1);
    disk.start_recording();
    prepare(&disk);
    assert_eq!(run(&disk, answer).1, None);
    disk.stop_recording().unwrap()
}

/// How many images there are, and what is wrong with the first wrong one.
fn wrong_images(recording: &Recording, limits: ImageLimits, is_enough: impl Fn(u64) -> bool) -> (u64, u64, String) {
    let (mut images, mut wrong, mut first) = (0, 0, String::new());
    for image in recording.crash_images(limits) {
        images += 1;
        let acknowledged = released(recording, image.operations_done);
        let verdict = judge(&image.disk, acknowledged).and_then(|recovered| {
            // What was recovered is durable, and the log goes on.
            let state = recovered.state;
            drop(recovered.pump);
            image.disk.crash(CrashPolicy::SyncedOnly);
            let again = judge(&image.disk, acknowledged)?;
            if again.state != state {
                return Err(format!("a second start finds something else: {:?} instead of {state:?}", again.state));
            }
            let next = again.state.values.last().map_or(again.state.base, |(position, _)| *position).next().0;
            let mut writer = Writer::new(again.pump);
            writer.persist(put(next, 20)).map_err(|error| error.to_string())?;
            image.disk.crash(CrashPolicy::SyncedOnly);
            let options = options(9, small());
            let last = RecoveryBase::<Record>::open(Box::new(image.disk.mount()), options)
                .map_err(|error| format!("does not recover after going on: {error}"))?;
            match last.state.values.last() {
                Some((position, bytes)) if position.0 == next && *bytes == value(next, 20) => Ok(()),
                other => Err(format!("{other:?} instead of what was acknowledged after the crash at {next}")),
            }
        });
        if let Err(reason) = verdict {
            if wrong == 0 {
                first = format!("{reason}\n{}", image.describe());
            }
            wrong += 1;
            if is_enough(wrong) {
                break;
            }
        }
    }
    (images, wrong, first)
}

#[test]
fn every_prefix_and_every_legal_loss_recovers_with_all_that_was_acknowledged() {
    let recording = record(|_| {}, Answer::AfterSync);
    for torn in [Torn::Pages, Torn::Sectors] {
        let limits = ImageLimits { images_per_moment: 40, torn, seed: 3 };
        let (images, wrong, first) = wrong_images(&recording, limits, |wrong| wrong > 0);
        assert_eq!(wrong, 0, "{first}");
        assert!(images > 300, "{images} images");
    }
}

#[test]
fn the_check_fails_when_files_are_not_synced() {
    let recording = record(|disk| disk.ignore_sync_data(true), Answer::AfterSync);
    let (_, wrong, _) =
        wrong_images(&recording, ImageLimits { images_per_moment: 10, ..ImageLimits::default() }, |n| n > 3);
    assert!(wrong > 3);
}

#[test]
fn the_check_fails_when_the_directory_is_not_synced() {
    let recording = record(|disk| disk.ignore_sync_directory(true), Answer::AfterSync);
    let (_, wrong, _) =
        wrong_images(&recording, ImageLimits { images_per_moment: 10, ..ImageLimits::default() }, |n| n > 3);
    assert!(wrong > 3);
}

#[test]
fn the_check_fails_when_the_answer_leaves_before_the_sync() {
    let recording = record(|_| {}, Answer::BeforeSync);
    let (_, wrong, _) =
        wrong_images(&recording, ImageLimits { images_per_moment: 10, ..ImageLimits::default() }, |n| n > 3);
    assert!(wrong > 3);
}

#[test]
fn a_power_cut_at_any_moment_of_a_recovery_changes_nothing_of_what_is_recovered() {
    // A disk on which much is to be done: the process dies, and of its last writes only some have reached the disk.
    let recording = record(|_| {}, Answer::AfterSync);
    let operations = recording.operations().len();
    let mut images = 0;
    for stop in (operations / 4..operations).step_by(7) {
        let disk = recording.disk_after(stop);
        disk.crash(CrashPolicy::Random(Torn::Sectors));
        let acknowledged = released(&recording, stop);
        let copy = disk.copy(4);
        let state = judge(&copy, acknowledged).unwrap().state;
        disk.start_recording();
        drop(judge(&disk, acknowledged).unwrap());
        let recovery = disk.stop_recording().unwrap();
        for image in recovery.crash_images(ImageLimits { images_per_moment: 12, torn: Torn::Sectors, seed: 1 }) {
            let again =
                judge(&image.disk, acknowledged).unwrap_or_else(|error| panic!("{error}\n{}", image.describe()));
            assert_eq!(again.state, state, "{}", image.describe());
            images += 1;
        }
    }
    assert!(images > 200, "{images} images");
}

#[test]
fn a_kill_at_any_moment_then_a_start_then_a_power_cut_loses_nothing_that_the_start_found() {
    let recording = record(|_| {}, Answer::AfterSync);
    for operations in 0..=recording.operations().len() {
        let disk = recording.disk_after(operations);
        disk.kill();
        let acknowledged = released(&recording, operations);
        let found = judge(&disk, acknowledged).unwrap_or_else(|error| panic!("{error} after {operations} operations"));
        disk.crash(CrashPolicy::SyncedOnly);
        let again = judge(&disk, acknowledged).unwrap_or_else(|error| panic!("{error} after {operations} operations"));
        assert_eq!(again.state, found.state, "after {operations} operations");
    }
}
