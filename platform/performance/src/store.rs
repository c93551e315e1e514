//! The stores alone: batches of puts, reads of keys that are there and of keys that are not, by one thread and without a sync. The
//! log is the authority, so nothing waits for the device here; what the store on disk costs beyond processor time shows as stalls.

mod measure;

use crate::host::{HostFacts, load_average};
use crate::monitor::Progress;
use crate::options::{InputError, OptionReader, SECONDS_MAX};
use crate::result::LoadAverage;
use crate::scratch::ScratchFolder;
use crate::wal::MedianAndRange;
use measure::{Measured, measure};
use quorate_executor::lsm::{LsmOpenError, LsmOptions, LsmStore};
use quorate_executor::{MemoryStore, ReplicatedLimits, StoreError};
use serde::Serialize;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;

/// Bytes of a key.
pub const KEY_BYTES: usize = 24;
const KEYS_MAX: u64 = 100_000_000;

/// The options as they stand on the command line; absent ones have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreInput {
    /// Names of stores.
    pub stores: Vec<String>,
    /// Keys.
    pub keys: Option<String>,
    /// Bytes of a value.
    pub value_size: Option<String>,
    /// Puts of a batch.
    pub batch: Option<String>,
    /// Seconds of each phase.
    pub duration: Option<String>,
    /// Runs of each store.
    pub repeat: Option<String>,
    /// A short run.
    pub quick: bool,
}

/// A store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreName {
    /// The one in memory.
    Memory,
    /// The one on disk.
    Lsm,
}

impl StoreName {
    const ALL: [StoreName; 2] = [StoreName::Memory, StoreName::Lsm];

    /// As a cluster file has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StoreName::Memory => "memory",
            StoreName::Lsm => "lsm",
        }
    }
}

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct StorePlan {
    /// Stores.
    pub stores: Vec<StoreName>,
    /// Keys.
    pub keys: u64,
    /// Bytes of a value.
    pub value_size_bytes: usize,
    /// Puts of a batch.
    pub batch: usize,
    /// Length of each phase.
    pub duration: Duration,
    /// Runs of each store.
    pub repeat: usize,
    /// Where files are made.
    pub folder: PathBuf,
}

impl StorePlan {
    /// Checks the options. Touches nothing.
    ///
    /// # Errors
    /// Every fault found.
    pub fn new(input: &StoreInput, folder: PathBuf) -> Result<StorePlan, Vec<InputError>> {
        let mut reader = OptionReader::default();
        let mut stores = Vec::new();
        for text in &input.stores {
            match StoreName::ALL.into_iter().find(|store| store.name() == text) {
                Some(store) if !stores.contains(&store) => stores.push(store),
                Some(_) => reader.error("--store", text, "is given twice"),
                None => reader.error("--store", text, "must be memory or lsm"),
            }
        }
        if input.stores.is_empty() {
            stores = StoreName::ALL.to_vec();
        }
        let keys = reader.whole("--keys", input.keys.as_ref(), 10_000, 1, KEYS_MAX);
        let value_size = reader.whole("--value-size", input.value_size.as_ref(), 100, 0, 1 << 20);
        let batch = reader.whole("--batch", input.batch.as_ref(), 100, 1, 100_000);
        let (duration_s, repeat) = if input.quick { (0.2, 1) } else { (1.0, 3) };
        let unit = "a number of seconds";
        let duration = reader.real("--duration", input.duration.as_ref(), duration_s, (0.01, SECONDS_MAX), unit);
        let repeat = reader.whole("--repeat", input.repeat.as_ref(), repeat, 1, 100);
        if !folder.is_dir() {
            reader.error("--dir", folder.display(), "there is no such folder; make it first");
        }
        reader.finish(StorePlan {
            stores,
            keys,
            value_size_bytes: value_size as usize,
            batch: batch as usize,
            duration: Duration::from_secs_f64(duration),
            repeat: repeat as usize,
            folder,
        })
    }
}

/// The figures of one store: medians with the least and the greatest of all runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreRow {
    /// The store.
    pub store: StoreName,
    /// Puts a second, in batches.
    pub puts_per_s: MedianAndRange,
    /// Median time of a batch and its commit, in microseconds.
    pub batch_p50_us: MedianAndRange,
    /// 99th percentile.
    pub batch_p99_us: MedianAndRange,
    /// Longest.
    pub batch_max_us: MedianAndRange,
    /// Reads a second of keys that are there.
    pub hits_per_s: MedianAndRange,
    /// Reads a second of keys that are not there and lie between such as are.
    pub misses_per_s: MedianAndRange,
    /// Batches that took longer than 10 ms, while the store was filled and after.
    pub stalls: MedianAndRange,
    /// Time in those, in milliseconds.
    pub stall_ms: MedianAndRange,
    /// Seconds that filling the store took.
    pub fill_s: MedianAndRange,
    /// Memory that the store says it holds at the end, in MiB.
    pub memory_mib: MedianAndRange,
    /// Disk that it holds at the end, in MiB; zero for the one in memory.
    pub disk_mib: MedianAndRange,
}

impl StoreRow {
    fn new(store: StoreName, runs: &[Measured]) -> StoreRow {
        let of = |figure: fn(&Measured) -> f64| MedianAndRange::of(runs.iter().map(figure).collect());
        StoreRow {
            store,
            puts_per_s: of(|run| run.puts_per_s),
            batch_p50_us: of(|run| run.batch_p50_us),
            batch_p99_us: of(|run| run.batch_p99_us),
            batch_max_us: of(|run| run.batch_max_us),
            hits_per_s: of(|run| run.hits_per_s),
            misses_per_s: of(|run| run.misses_per_s),
            stalls: of(|run| run.stalls as f64),
            stall_ms: of(|run| run.stalled.as_secs_f64() * 1e3),
            fill_s: of(|run| run.fill.as_secs_f64()),
            memory_mib: of(|run| run.memory_bytes as f64 / f64::from(1 << 20)),
            disk_mib: of(|run| run.disk_bytes as f64 / f64::from(1 << 20)),
        }
    }
}

/// What the experiment gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreResult {
    /// Always `store`.
    pub experiment: &'static str,
    /// Keys.
    pub keys: u64,
    /// Bytes of a key.
    pub key_size_bytes: usize,
    /// Bytes of a value.
    pub value_size_bytes: usize,
    /// Puts of a batch.
    pub batch: usize,
    /// Seconds of each phase.
    pub phase_s: f64,
    /// Runs of each store.
    pub repeat: usize,
    /// One row a store.
    pub rows: Vec<StoreRow>,
    /// Whether the program was built with optimisation; without it the figures are those of the compiler.
    pub is_optimised: bool,
    /// Load average.
    pub load_average: LoadAverage,
    /// This machine.
    pub host: HostFacts,
    /// Version of this program.
    pub version: &'static str,
    /// Commit it was built from, if the build was told.
    pub commit: Option<&'static str>,
}

/// A store could not be measured.
#[derive(Debug, Error)]
pub enum StoreRunError {
    /// The file system failed.
    #[error("the folder of the store on disk: {0}")]
    Folder(#[from] io::Error),
    /// The store on disk could not be made.
    #[error("the store on disk could not be made: {0}")]
    Open(#[from] LsmOpenError),
    /// A store failed.
    #[error("the {store} store failed: {error}")]
    Store {
        /// Which.
        store: &'static str,
        /// How.
        error: StoreError,
    },
    /// A fault of the store: what it was asked for is not what it was given.
    #[error("the {store} store gave {found} keys of {expected}")]
    Wrong {
        /// Which.
        store: &'static str,
        /// Keys found.
        found: u64,
        /// Keys that should be found.
        expected: u64,
    },
    /// The user has ended it.
    #[error("stopped before the end: a part is no result")]
    Stopped,
}

/// Measures. Blocks. Lines of progress go to `progress`; `stop` ends it early.
///
/// # Errors
/// [`StoreRunError`]; nothing is left behind.
pub fn run(plan: &StorePlan, stop: &AtomicBool, mut progress: Progress) -> Result<StoreResult, StoreRunError> {
    let before = load_average();
    let scratch = ScratchFolder::new(&plan.folder, "quorate-perf-store")?;
    let mut runs: Vec<Vec<Measured>> = plan.stores.iter().map(|_| Vec::new()).collect();
    for number in 0..plan.repeat {
        for (store, runs) in plan.stores.iter().zip(&mut runs) {
            if stop.load(Ordering::Relaxed) {
                return Err(StoreRunError::Stopped);
            }
            progress(&format!("run {} of {}: {}, {} keys", number + 1, plan.repeat, store.name(), plan.keys));
            runs.push(measure_store(plan, *store, scratch.path(), number as u64)?);
        }
    }
    Ok(StoreResult {
        experiment: "store",
        keys: plan.keys,
        key_size_bytes: KEY_BYTES,
        value_size_bytes: plan.value_size_bytes,
        batch: plan.batch,
        phase_s: plan.duration.as_secs_f64(),
        repeat: plan.repeat,
        rows: plan.stores.iter().zip(&runs).map(|(store, runs)| StoreRow::new(*store, runs)).collect(),
        is_optimised: !cfg!(debug_assertions),
        load_average: LoadAverage { before, after: load_average() },
        host: HostFacts::read(),
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("QUORATE_COMMIT"),
    })
}

fn measure_store(plan: &StorePlan, store: StoreName, folder: &Path, number: u64) -> Result<Measured, StoreRunError> {
    match store {
        StoreName::Memory => measure(plan, store.name(), &mut MemoryStore::new()),
        StoreName::Lsm => {
            let executor = LsmStore::create(folder, number + 1, LsmOptions::default(), ReplicatedLimits::default())?;
            let mut lsm = executor.into_store();
            let mut measured = measure(plan, store.name(), &mut lsm)?;
            measured.disk_bytes = lsm.figures().disk_bytes;
            Ok(measured)
        }
    }
}

/// The result as a table in Markdown.
#[must_use]
pub fn render(result: &StoreResult) -> String {
    let mut text = String::new();
    if !result.is_optimised {
        text.push_str("NOT an optimised build: these figures say nothing of a release.\n\n");
    }
    let _ = write!(
        text,
        "{} keys of {} bytes, values of {} bytes, batches of {}; median [min-max] of {} runs\n\n\
         | store | puts/s | batch p50 us | batch p99 us | batch max us | hits/s | misses/s | stalls | stalled ms | fill s | memory MiB | disk MiB |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        result.keys, result.key_size_bytes, result.value_size_bytes, result.batch, result.repeat
    );
    let range = |figure: MedianAndRange| format!("{:.0} [{:.0}-{:.0}]", figure.median, figure.min, figure.max);
    for row in &result.rows {
        let _ = writeln!(
            text,
            "| {} | {} | {:.1} | {:.1} | {:.0} | {} | {} | {} | {:.1} | {:.2} | {:.1} | {:.1} |",
            row.store.name(),
            range(row.puts_per_s),
            row.batch_p50_us.median,
            row.batch_p99_us.median,
            row.batch_max_us.median,
            range(row.hits_per_s),
            range(row.misses_per_s),
            range(row.stalls),
            row.stall_ms.median,
            row.fill_s.median,
            row.memory_mib.median,
            row.disk_mib.median,
        );
    }
    text
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
