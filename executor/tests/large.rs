//! A state of 1 GiB is written down and restored in little memory, while execution goes on. Takes minutes; run by name.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use quorate_executor::lsm::{LsmLoader, LsmOptions, LsmStore};
use quorate_executor::{KeyValue, KvExecutor, OrderedStore, ReplicatedLimits, Restore};
use quorate_framework::vfs::Vfs;
use quorate_framework::{ClusterId, Position, SnapshotBase};
use quorate_recovery::DirectoryVfs;
use std::fs;
use std::path::Path;
use std::time::Instant;
use support::{Replica, range, workload::Workload};

const CLUSTER: ClusterId = ClusterId([7; 16]);
const VALUE_BYTES: usize = 1_000;
const MEMORY_MIB: u64 = 64;

/// A line of the process's memory figures, in MiB.
fn memory_mib(line: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let found = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    found.trim_matches(|letter: char| !letter.is_ascii_digit()).parse::<u64>().unwrap() >> 10
}

/// How far the memory in use rises above what it was, in MiB, while something is done.
fn rise_mib<R>(act: impl FnOnce() -> R) -> (R, u64) {
    let before = memory_mib("VmRSS:");
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let done = act();
    (done, memory_mib("VmHWM:").saturating_sub(before))
}

fn base(position: u64) -> SnapshotBase {
    SnapshotBase { position: Position(position), protocol: vec![1], membership: vec![2] }
}

/// A gibibyte of keys and values, committed up to position 1,000.
fn fill(store: &mut LsmStore, content_bytes: usize) {
    let count = (content_bytes / VALUE_BYTES) as u64;
    let mut value = vec![0; VALUE_BYTES];
    for number in 0..count {
        // Spread over the key space, as a load would.
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        value[..8].copy_from_slice(&number.to_le_bytes());
        store.put(&key.to_be_bytes(), &value).unwrap();
        if number % (count / 999) == 0 {
            let next = store.applied().next();
            store.commit(next).unwrap();
        }
    }
    store.commit(Position(1_001)).unwrap();
}

#[test]
#[ignore = "takes minutes and 4 GiB of disk"]
fn a_gibibyte_is_snapshotted_while_execution_goes_on_and_restored_in_64_mib_of_memory() {
    let directory = tempfile::tempdir().unwrap();
    let vfs = DirectoryVfs::open_unlocked(directory.path()).unwrap();
    let name = Path::new("snapshot");
    let options = LsmOptions::default();
    let limits = ReplicatedLimits::default();
    let mut store = LsmStore::create(directory.path(), 1, options, limits).unwrap().into_store();
    let ((), rise) = rise_mib(|| fill(&mut store, 1 << 30));
    println!("filled with {rise} MiB: {:?}", store.figures());
    assert!(rise < 2 * MEMORY_MIB, "filling took {rise} MiB");
    let mut replica = Replica::over(KvExecutor::new(store, limits));
    let mut workload = Workload::new(1);

    let began = Instant::now();
    let ((summary, executed), rise) = rise_mib(|| {
        let mut writer = replica.executor.snapshot(CLUSTER, base(1_001)).unwrap();
        let (mut target, mut bytes, mut offset) = (vfs.create(name).unwrap(), Vec::new(), 0);
        loop {
            bytes.clear();
            let done = writer.step(replica.executor.store(), 256 << 10, &mut bytes).unwrap();
            target.write_all_at(&bytes, offset).unwrap();
            offset += bytes.len() as u64;
            if let Some(summary) = done {
                return (summary, replica.executor.executed().0 - 1_001);
            }
            let frames = workload.frames(4);
            replica.execute_range(range(replica.next(), &frames));
        }
    });
    println!("written in {:?}: {summary:?}, {executed} frames executed meanwhile, {rise} MiB", began.elapsed());
    assert!(executed > 10_000 && summary.content_bytes > (1 << 30) - (1 << 20));
    assert!(rise < MEMORY_MIB, "writing took {rise} MiB");

    let began = Instant::now();
    let ((restored, report), rise) = rise_mib(|| {
        let loader = LsmLoader::create(directory.path(), 2, options, limits).unwrap();
        Restore::begin(vfs.open(name).unwrap(), CLUSTER, &base(1_001), loader).unwrap().finish().unwrap()
    });
    println!("restored in {:?}: {report:?}, {rise} MiB", began.elapsed());
    assert_eq!((report.position, report.entries), (Position(1_001), summary.entries));
    assert!(rise < MEMORY_MIB, "restoring took {rise} MiB");
    let key = 77_u64.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    assert_eq!(&restored.store().get(&key).unwrap().unwrap()[..8], 77_u64.to_le_bytes());
}
