//! What the store did and how long it was held up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A batch that takes longer than this to commit was held up by the tree, not by its own size, in milliseconds.
const STALL_MS: u64 = 10;

/// Counters of one store since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LsmFigures {
    /// Batches committed.
    pub commits: u64,
    /// Keys written and removed by them, the store's own records among them.
    pub writes: u64,
    /// Bytes of those.
    pub write_bytes: u64,
    /// Time that committing took, in microseconds.
    pub commit_us: u64,
    /// The longest commit, in microseconds.
    pub commit_us_max: u64,
    /// Commits that took longer than 10 ms: the tree was behind with flushing or merging.
    pub stalls: u64,
    /// Time that those took, in microseconds.
    pub stall_us: u64,
    /// Checkpoints: memory tables written out, before the log was cut.
    pub persists: u64,
    /// Time that those took, in microseconds.
    pub persist_us: u64,
    /// Bytes of memory tables that are not yet files.
    pub write_buffer_bytes: u64,
    /// Bytes of blocks in the cache.
    pub cache_bytes: u64,
    /// Bytes on disk, journals included.
    pub disk_bytes: u64,
    /// Journals on disk.
    pub journals: u64,
    /// Files of the tree.
    pub tables: u64,
    /// Merges done.
    pub merges: u64,
    /// Time that merging took, in microseconds.
    pub merge_us: u64,
}

impl LsmFigures {
    pub(super) fn committed(&mut self, began: Instant, writes: u64, bytes: u64) {
        let took = began.elapsed();
        let took_us = microseconds(took);
        self.commits += 1;
        self.writes += writes;
        self.write_bytes += bytes;
        self.commit_us += took_us;
        self.commit_us_max = self.commit_us_max.max(took_us);
        if took > Duration::from_millis(STALL_MS) {
            self.stalls += 1;
            self.stall_us += took_us;
        }
    }
}

/// Checkpoints of one store, whichever threads carry them out.
#[derive(Debug, Default)]
pub(super) struct PersistFigures {
    count: AtomicU64,
    took_us: AtomicU64,
}

impl PersistFigures {
    pub(super) fn persisted(&self, began: Instant) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.took_us.fetch_add(microseconds(began.elapsed()), Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn took_us(&self) -> u64 {
        self.took_us.load(Ordering::Relaxed)
    }
}

pub(super) fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
