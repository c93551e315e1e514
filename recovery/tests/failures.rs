//! A failed operation is final, and what the next start finds is as after a power cut.
#![allow(clippy::unwrap_used)]

mod support;

use quorate_simulated_disk::{AfterFailedSync, CrashPolicy, Fault, OperationKind, Torn, Trigger};
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
