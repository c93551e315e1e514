//! The flush batch experiment: how many operations a second the write-ahead log makes durable, by the size of its groups and by how
//! long a group waits for more; beside it what the device alone does, and what a queue and a future an operation cost.
//!
//! In one run, case after case of a batch size stand side by side: the device, the device behind a channel, and the log with each wait.
//! Each case has a log of its own, whose segments are prepared before; all operations are submitted, then all are awaited; then the log
//! is stopped and read back, and must hold them all.

mod device;
mod figures;
mod log_case;
mod render;
mod timed_vfs;

pub use figures::{BUCKETS_US, LatencyUs, MeanAndMaxUs, MedianAndRange, WalCase, Writer};
pub use render::{render_report, render_tables};

use crate::host::{HostFacts, load_average};
use crate::monitor::Progress;
use crate::options::{InputError, OptionReader};
use crate::result::LoadAverage;
use crate::scratch::ScratchFolder;
use bytes::Bytes;
use device::{Layout, PrewrittenFile};
use figures::{CaseName, Measured};
use log_case::Grouping;
use serde::Serialize;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// Bytes of all payloads of a case at most: they wait in memory together.
const CASE_BYTES_MAX: u64 = 256 << 20;
const BATCHES: [usize; 5] = [256, 512, 1_024, 2_048, 4_096];
const WAITS_MS: [u64; 3] = [1, 2, 5];

/// The options as they stand on the command line; absent ones have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalInput {
    /// Operations of a case.
    pub operations: Option<String>,
    /// Bytes of an operation.
    pub size: Option<String>,
    /// Runs of each case.
    pub repeat: Option<String>,
    /// A short run with a smaller grid.
    pub quick: bool,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct WalPlan {
    /// Operations of a case.
    pub operations: u64,
    /// Bytes of an operation.
    pub size_bytes: usize,
    /// Runs of each case.
    pub repeat: usize,
    /// Operations in a group at most, one after the other.
    pub batches: Vec<usize>,
    /// Waits for a group, beside none at all.
    pub waits: Vec<Duration>,
    /// Operations of the single appender.
    pub single_operations: u64,
    /// Where the files are made.
    pub folder: PathBuf,
}

impl WalPlan {
    /// Checks the options. Touches nothing.
    ///
    /// # Errors
    /// Every fault found.
    pub fn new(input: &WalInput, folder: PathBuf) -> Result<WalPlan, Vec<InputError>> {
        let mut reader = OptionReader::default();
        let (operations, repeat) = if input.quick { (2_048, 1) } else { (10_240, 3) };
        let operations = reader.whole("--operations", input.operations.as_ref(), operations, 1, 1_000_000);
        let size = reader.whole("--size", input.size.as_ref(), 256, 0, 1 << 20);
        let repeat = reader.whole("--repeat", input.repeat.as_ref(), repeat, 1, 100);
        if operations * size > CASE_BYTES_MAX {
            let problem =
                format!("{operations} operations of that size wait in memory together; lower it or --operations");
            reader.error("--size", size, problem);
        }
        if !folder.is_dir() {
            reader.error("--dir", folder.display(), "there is no such folder; make it first");
        }
        let (batches, waits) =
            if input.quick { (vec![256, 1_024], vec![1]) } else { (BATCHES.to_vec(), WAITS_MS.to_vec()) };
        reader.finish(WalPlan {
            operations,
            size_bytes: size as usize,
            repeat: repeat as usize,
            batches,
            waits: waits.into_iter().map(Duration::from_millis).collect(),
            single_operations: operations.min(if input.quick { 100 } else { 500 }),
            folder,
        })
    }
}

/// One operation at a time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SingleAppender {
    /// Operations of a run.
    pub operations: u64,
    /// Of the log, from the submit until the waiter goes on; the run with the median p50.
    pub log_us: LatencyUs,
    /// Of one thread that writes and syncs.
    pub device_us: LatencyUs,
    /// Median latencies of the log in all runs.
    pub log_p50_us: MedianAndRange,
    /// Median latencies of the device in all runs.
    pub device_p50_us: MedianAndRange,
}

/// What the experiment gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WalResult {
    /// Always `wal`.
    pub experiment: &'static str,
    /// Operations of a case.
    pub operations: u64,
    /// Bytes of an operation.
    pub size_bytes: usize,
    /// Runs of each case.
    pub repeat: usize,
    /// The log, without a wait first, then by wait; each by batch size.
    pub cases: Vec<WalCase>,
    /// The device, by batch size.
    pub raw: Vec<WalCase>,
    /// The device behind a channel, by batch size.
    pub fair_raw: Vec<WalCase>,
    /// One operation at a time.
    pub single: SingleAppender,
    /// Rate of the log without a wait divided by that of the device, by batch size: medians.
    pub share_of_raw: Vec<(usize, f64)>,
    /// The same, divided by that of the device behind a channel.
    pub share_of_fair_raw: Vec<(usize, f64)>,
    /// Where the files were.
    pub folder: String,
    /// When it began, in seconds of Unix time.
    pub started_unix_s: u64,
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

/// The log could not be measured.
#[derive(Debug, Error)]
pub enum WalError {
    /// Something did not work.
    #[error("{doing}: {reason}")]
    Failed {
        /// What was tried.
        doing: &'static str,
        /// Why it did not work.
        reason: String,
    },
    /// A fault of the log: what it told as durable is not in it.
    #[error("{operations} operations were told as durable, and the log holds {records}")]
    Lost {
        /// Operations told as durable.
        operations: u64,
        /// Records in the log.
        records: u64,
    },
    /// The user has ended it.
    #[error("stopped before the end: a part of the grid is no result")]
    Stopped,
}

/// Says what was tried when something fails.
trait Failed<T> {
    fn failed(self, doing: &'static str) -> Result<T, WalError>;
}

impl<T, E: Display> Failed<T> for Result<T, E> {
    fn failed(self, doing: &'static str) -> Result<T, WalError> {
        self.map_err(|error| WalError::Failed { doing, reason: error.to_string() })
    }
}

/// All runs of a case.
struct Case {
    name: CaseName,
    runs: Vec<Measured>,
}

/// The cases of a batch size, in the order in which they run.
fn names(plan: &WalPlan, batch: usize) -> Vec<CaseName> {
    let name = |writer, wait| CaseName { writer, wait, batch };
    let mut names = vec![name(Writer::Raw, None), name(Writer::FairRaw, None), name(Writer::Log, None)];
    names.extend(plan.waits.iter().map(|wait| name(Writer::Log, Some(*wait))));
    names
}

/// Measures. Blocks. Lines of progress go to `progress`; `stop` ends it early.
///
/// # Errors
/// [`WalError`]; nothing is left behind.
pub fn run(plan: &WalPlan, stop: &AtomicBool, mut progress: Progress) -> Result<WalResult, WalError> {
    let before = load_average();
    let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let scratch = ScratchFolder::new(&plan.folder, "quorate-perf-wal").failed("making a folder")?;
    let payload = Bytes::from(vec![b'x'; plan.size_bytes]);
    let mut cases: Vec<Case> = Vec::new();
    let (mut log_singles, mut device_singles) = (Vec::new(), Vec::new());
    for number in 0..plan.repeat {
        for batch in &plan.batches {
            progress(&format!("run {} of {}: groups of up to {batch}", number + 1, plan.repeat));
            for name in names(plan, *batch) {
                if stop.load(Ordering::Relaxed) {
                    return Err(WalError::Stopped);
                }
                let measured = measure(plan, name, scratch.path(), &payload)?;
                match cases.iter_mut().find(|case| case.name == name) {
                    Some(case) => case.runs.push(measured),
                    None => cases.push(Case { name, runs: vec![measured] }),
                }
            }
        }
        let layout = Layout { batch: 1, record_bytes: log_case::record_bytes(&payload) };
        let file = PrewrittenFile::new(scratch.path(), plan.single_operations, layout)?;
        device_singles.push(device::one_at_a_time(&file, layout, plan.single_operations, &payload)?);
        let single = |folder: &Path| log_case::one_at_a_time(folder, plan.single_operations, &payload);
        log_singles.push(in_fresh_folder(scratch.path(), single)?);
    }
    let mut result = gather(plan, cases, single(plan, log_singles, device_singles), started);
    result.load_average = LoadAverage { before, after: load_average() };
    Ok(result)
}

fn measure(plan: &WalPlan, name: CaseName, folder: &Path, payload: &Bytes) -> Result<Measured, WalError> {
    let layout = Layout { batch: name.batch, record_bytes: log_case::record_bytes(payload) };
    let device = || PrewrittenFile::new(folder, plan.operations, layout);
    match name.writer {
        Writer::Raw => device::raw(&device()?, layout, plan.operations, payload),
        Writer::FairRaw => device::fair_raw(&device()?, layout, plan.operations, payload),
        Writer::Log => in_fresh_folder(folder, |folder| {
            let grouping = Grouping { wait: name.wait, batch: name.batch };
            log_case::all_at_once(folder, grouping, plan.operations, payload)
        }),
    }
}

fn in_fresh_folder<T>(parent: &Path, work: impl FnOnce(&Path) -> Result<T, WalError>) -> Result<T, WalError> {
    let folder = parent.join("log");
    fs::create_dir(&folder).failed("making a folder")?;
    let done = work(&folder);
    fs::remove_dir_all(&folder).failed("removing a folder")?;
    done
}

fn single(plan: &WalPlan, log: Vec<Vec<Duration>>, device: Vec<Vec<Duration>>) -> SingleAppender {
    let latencies = |runs: Vec<Vec<Duration>>| {
        let mut all: Vec<LatencyUs> = runs.into_iter().map(|mut run| LatencyUs::of(&mut run)).collect();
        all.sort_unstable_by(|one, other| one.p50.total_cmp(&other.p50));
        let medians = MedianAndRange::of(all.iter().map(|one| one.p50).collect());
        (all[(all.len() - 1) / 2], medians)
    };
    let ((log_us, log_p50_us), (device_us, device_p50_us)) = (latencies(log), latencies(device));
    SingleAppender { operations: plan.single_operations, log_us, device_us, log_p50_us, device_p50_us }
}

fn gather(plan: &WalPlan, cases: Vec<Case>, single: SingleAppender, started_unix_s: u64) -> WalResult {
    let (mut log, mut raw, mut fair_raw) = (Vec::new(), Vec::new(), Vec::new());
    for Case { name, runs } in cases {
        let list = match name.writer {
            Writer::Log => &mut log,
            Writer::Raw => &mut raw,
            Writer::FairRaw => &mut fair_raw,
        };
        list.push(WalCase::new(name, runs));
    }
    log.sort_by_key(|case| (case.wait_us.is_some(), case.batch, case.wait_us));
    let share_of = |device: &[WalCase]| -> Vec<(usize, f64)> {
        let plain = log.iter().filter(|case| case.wait_us.is_none());
        plain.zip(device).map(|(log, device)| (log.batch, log.qps.median / device.qps.median)).collect()
    };
    WalResult {
        experiment: "wal",
        operations: plan.operations,
        size_bytes: plan.size_bytes,
        repeat: plan.repeat,
        share_of_raw: share_of(&raw),
        share_of_fair_raw: share_of(&fair_raw),
        cases: log,
        raw,
        fair_raw,
        single,
        folder: plan.folder.display().to_string(),
        started_unix_s,
        is_optimised: !cfg!(debug_assertions),
        load_average: LoadAverage::default(),
        host: HostFacts::read(),
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("QUORATE_COMMIT"),
    }
}

#[cfg(test)]
#[path = "wal_tests.rs"]
mod tests;
