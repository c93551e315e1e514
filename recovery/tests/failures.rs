//! A failed operation is final, and what the next start finds is as after a power cut.
#![allow(clippy::unwrap_used)]

mod support;

use quorate_framework::Incarnation;
use quorate_recovery::{Recovered, RecoveryBase, RecoveryError};
use quorate_simulated_disk::{AfterFailedSync, CrashPolicy, Fault, OperationKind, SimulatedDisk, Torn, Trigger};
use support::history::*;
use support::*;

/// So many runs in a row without a failure mean that the fault comes after the end of the run.
const UNHARMED_RUNS: u64 = 20;

/// Runs the history with a fault at each operation of a kind (all if none) in turn; gives how many runs failed.
fn fail_each(kind: Option<OperationKind>, fault: Fault) -> u64 {
    // Declined (docs/STORAGE-FORMAT.md, section 7): a directory that never again makes these names durable.
    let names_are_lost =
        kind == Some(OperationKind::SyncDirectory) && fault == Fault::FailedSync(AfterFailedSync::MarkedClean);
    let (mut failures, mut unharmed) = (0, 0);
    for count in 1.. {
        let disk = fresh(count);
        let trigger = kind.map_or_else(|| Trigger::nth_of_all(count), |kind| Trigger::nth(kind, count));
        disk.inject(trigger, fault);
        let (released, failure) = run(&disk, Answer::AfterSync);
        disk.disarm();
        let killed = disk.copy(count);
        killed.kill();
        disk.crash(CrashPolicy::Random(Torn::Sectors));
        let context = format!("{fault:?} at operation {count} ({failure:?})");
        judge(&disk, released).unwrap_or_else(|error| panic!("{context}, power cut: {error}"));
        let found = judge(&killed, released).unwrap_or_else(|error| panic!("{context}, kill: {error}")).state;
        if !names_are_lost {
            // After a failed sync the page cache may show what the disk will never get: a start must not build on that.
            killed.crash(CrashPolicy::SyncedOnly);
            let again = judge(&killed, released).unwrap_or_else(|error| panic!("{context}, then power cut: {error}"));
            assert_eq!(again.state, found, "{context}, then power cut");
        }
        match failure {
            Some(_) => (failures, unharmed) = (failures + 1, 0),
            None => {
                assert_eq!(released, history().len() as u64, "{context}");
                unharmed += 1;
            }
        }
        // A fault may strike what nothing relies on (a spare), or nothing any more.
        if unharmed == UNHARMED_RUNS {
            break;
        }
    }
    failures
}

#[test]
fn any_operation_that_fails_ends_the_log_and_the_next_start_finds_what_was_acknowledged() {
    let failures = fail_each(None, Fault::Error);
    assert!(failures > 100, "{failures} runs failed");
}

#[test]
fn a_write_that_arrives_in_part_is_dropped_whole() {
    for bytes in [1, 511, 512, 4096, 5000] {
        let failures = fail_each(Some(OperationKind::Write), Fault::PartialWrite { bytes });
        assert!(failures > 15, "{failures} runs failed");
    }
}

#[test]
fn a_sync_that_failed_is_never_believed_later() {
    for after in [AfterFailedSync::StillDirty, AfterFailedSync::MarkedClean, AfterFailedSync::Dropped] {
        let failures = fail_each(Some(OperationKind::SyncData), Fault::FailedSync(after));
        assert!(failures > 15, "{after:?}: {failures} runs failed");
        let failures = fail_each(Some(OperationKind::SyncDirectory), Fault::FailedSync(after));
        assert!(failures > 5, "{after:?}: {failures} runs failed");
    }
}

#[test]
fn a_full_disk_ends_the_log_with_a_word_of_advice_and_a_start_after_freeing_space_works() {
    let disk = fresh(1);
    let mut writer = writer(&disk, 2);
    writer.persist_all((1..=6).map(|position| put(position, 10)));
    disk.set_capacity(Some(disk.used_bytes()));
    let error = writer.persist(put(7, 10)).unwrap_err();
    assert!(error.is_disk_full());
    assert!(error.to_string().ends_with("; free space and start the replica again"), "{error}");
    assert!(writer.persist(put(8, 10)).unwrap_err().is_disk_full(), "final, also when there was room again");
    disk.kill();
    // A start on the full disk makes nothing worse, and says what is the matter.
    let still_full = try_open(&disk, 3);
    if let Err(error) = still_full {
        assert!(error.to_string().contains("free space"), "{error}");
    }
    disk.set_capacity(None);
    disk.kill();
    let recovered = open(&disk, 4);
    assert_eq!(positions(&recovered.state), [1, 2, 3, 4, 5, 6]);
    let mut writer = Writer::new(recovered.pump);
    writer.persist(put(7, 10)).unwrap();
}

/// Starts without syncs, in the boot of all starts.
fn start_unsynced(disk: &SimulatedDisk, seed: u64) -> Result<Recovered<Record>, RecoveryError> {
    RecoveryBase::open(Box::new(disk.mount()), options(seed, never()))
}

/// A replica without syncs that has acknowledged six values, and its incarnation.
fn unsynced() -> (SimulatedDisk, Writer, Incarnation) {
    let disk = fresh(1);
    let recovered = start_unsynced(&disk, 2).unwrap();
    let incarnation = recovered.pump.metadata().incarnation;
    let mut writer = Writer::new(recovered.pump);
    writer.persist_all((1..=6).map(|position| put(position, 10)));
    (disk, writer, incarnation)
}

#[test]
fn without_syncs_the_incarnation_is_given_up_when_a_sync_fails_within_the_boot_and_only_then() {
    let lost = || Fault::FailedSync(AfterFailedSync::Dropped);
    let (disk, writer, incarnation) = unsynced();
    disk.inject(Trigger::next(OperationKind::SyncData), lost());
    writer.pump.stop().unwrap_err();
    disk.kill();
    let recovered = start_unsynced(&disk, 3).unwrap();
    assert_eq!(recovered.report.incarnation_given_up, Some(incarnation), "at a stop");

    let (disk, writer, incarnation) = unsynced();
    drop(writer);
    disk.kill();
    disk.inject(Trigger::next(OperationKind::SyncData), lost());
    assert!(start_unsynced(&disk, 3).is_err());
    disk.kill();
    let recovered = start_unsynced(&disk, 4).unwrap();
    assert_eq!(recovered.report.incarnation_given_up, Some(incarnation), "at a start");

    let (disk, writer, _) = unsynced();
    drop(writer);
    disk.kill();
    let recovered = start_unsynced(&disk, 3).unwrap();
    assert_eq!(recovered.report.incarnation_given_up, None, "a killed process loses nothing");
    assert_eq!(positions(&recovered.state), [1, 2, 3, 4, 5, 6]);
    recovered.pump.stop().unwrap();
    disk.inject(Trigger::next(OperationKind::SyncData), lost());
    assert!(start_unsynced(&disk, 4).is_err());
    disk.kill();
    let recovered = start_unsynced(&disk, 5).unwrap();
    assert_eq!(recovered.report.incarnation_given_up, None, "after a clean stop all of it is on the disk");
    assert_eq!(positions(&recovered.state), [1, 2, 3, 4, 5, 6]);
}
