//! What the transfer service takes of the process, and gives back. One test: it counts the threads and descriptors of its process.
#![cfg(target_os = "linux")]

mod common;
mod transfer_support;

use common::until;
use std::sync::Arc;
use transfer_support::{MemorySource, Pull, Written, order, pair, state};

fn transfer_threads() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").expect("the threads of this process");
    let name = |path: std::path::PathBuf| std::fs::read_to_string(path.join("comm")).unwrap_or_default();
    threads.flatten().filter(|thread| name(thread.path()).trim() == "transfer").count()
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("the descriptors of this process").count()
}

#[tokio::test]
async fn one_thread_per_communicator_begins_with_the_first_transfer_and_ends_with_the_communicator() {
    let before = open_descriptors();
    let source = Arc::new(MemorySource::new(7, &state(64 << 20)));
    let (one, two, _) = pair(&source, None, |configuration| {
        configuration.options.snapshot_bytes_per_second = 16 << 20;
    })
    .await;
    assert_eq!(transfer_threads(), 0, "none before there is anything to do");
    for _ in 0..3 {
        let written = Written::default();
        let pull = Pull::start(&two, order(1, source.snapshot), &written);
        until("the first part", || pull.handle.written() > 0).await;
        assert_eq!(transfer_threads(), 2, "one at each end, however often it is used");
    }
    let written = Written::default();
    let pull = Pull::start(&two, order(1, source.snapshot), &written);
    until("the first part", || pull.handle.written() > 0).await;
    drop((one, two));
    pull.end().await.result.expect_err("broken off");
    until("the threads to end", || transfer_threads() == 0).await;
    until("the descriptors to be closed", || open_descriptors() <= before).await;
}
