//! What `quorate simulate` does.

use crate::coverage::Coverage;
use crate::plan::{CrashMode, Plan};
use crate::run::{Report, run};
use crate::shrink::shrink;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Which seeds are run, and how.
#[derive(Clone, Debug)]
pub struct SimulateOptions {
    /// Replicas; without it seeds take turns with 3 and 5.
    pub replicas: Option<u32>,
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds.
    pub seeds: u64,
    /// Faults in the worst weather.
    pub steps: u32,
    /// With or without recovery; without it seeds take turns.
    pub crash_mode: Option<CrashMode>,
    /// Whether stores keep their state beside checkpoints, as one on disk does.
    pub keeps_store: bool,
    /// Print the whole event log of each seed.
    pub trace: bool,
    /// Make a failing plan smaller before it is shown.
    pub shrink: bool,
    /// Threads.
    pub threads: usize,
    /// Whether each core checks its own invariants, too.
    pub validate: bool,
}

impl SimulateOptions {
    /// The plan of a seed under these options.
    #[must_use]
    pub fn plan(&self, seed: u64) -> Plan {
        let replicas = self.replicas.unwrap_or(if seed.is_multiple_of(2) { 3 } else { 5 });
        let turn = if (seed / 2).is_multiple_of(2) { CrashMode::Durable } else { CrashMode::InMemory };
        let crash_mode = self.crash_mode.unwrap_or(turn);
        let keeps_store = self.keeps_store && crash_mode == CrashMode::Durable;
        Plan { validate: self.validate, keeps_store, ..Plan::draw(seed, replicas, self.steps, crash_mode) }
    }

    /// The command that repeats one seed.
    #[must_use]
    pub fn repeat_command(&self, plan: &Plan) -> String {
        let mode = match plan.crash_mode {
            CrashMode::Durable => "durable",
            CrashMode::InMemory => "in-memory",
        };
        format!(
            "quorate simulate --protocol raft --replicas {} --mode {mode} --steps {} --seed {}{} --trace",
            plan.replicas,
            self.steps,
            plan.seed,
            if plan.keeps_store { " --store-on-disk" } else { "" }
        )
    }
}

/// What came of all seeds.
#[derive(Debug, Default)]
pub struct Summary {
    /// Seeds run.
    pub seeds: u64,
    /// Failing ones, with their reports.
    pub failures: Vec<Report>,
    /// What was counted.
    pub coverage: Coverage,
    /// Virtual time of all runs.
    pub virtual_time: Duration,
    /// Frames that clients were answered.
    pub frames_answered: u64,
}

/// Runs the seeds and reports to `output`; progress goes to `progress` about once a second. Stops at the first failing seed.
///
/// # Errors
/// Those of writing.
pub fn simulate(options: &SimulateOptions, output: &mut dyn Write, progress: &mut dyn Write) -> io::Result<Summary> {
    let start = Instant::now();
    let next = AtomicU64::new(options.first_seed);
    let end = options.first_seed.saturating_add(options.seeds);
    let mut summary = Summary::default();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| -> io::Result<()> {
        for _ in 0..options.threads.max(1) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || sender.send(run(options.plan(seed), options.trace)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut shown = Instant::now();
        for report in receiver {
            take(options, &mut summary, report, &next, end, output)?;
            if shown.elapsed() > Duration::from_secs(1) {
                shown = Instant::now();
                write!(progress, "\r{} seeds, {} failures", summary.seeds, summary.failures.len())?;
                progress.flush()?;
            }
        }
        Ok(())
    })?;
    let elapsed = start.elapsed();
    writeln!(output, "{}", summary.coverage)?;
    writeln!(
        output,
        "{} seeds in {:.1} s ({:.0} a second), {:.0} hours of virtual time, {} frames answered, {} failing seeds",
        summary.seeds,
        elapsed.as_secs_f64(),
        summary.seeds as f64 / elapsed.as_secs_f64().max(1e-9),
        summary.virtual_time.as_secs_f64() / 3_600.0,
        summary.frames_answered,
        summary.failures.len()
    )?;
    Ok(summary)
}

fn take(
    options: &SimulateOptions,
    summary: &mut Summary,
    report: Report,
    next: &AtomicU64,
    end: u64,
    output: &mut dyn Write,
) -> io::Result<()> {
    summary.seeds += 1;
    summary.coverage.merge(&report.coverage);
    summary.virtual_time += report.virtual_time;
    summary.frames_answered += report.frames_answered;
    if options.trace {
        write!(output, "{}{}", report.plan, report.event_log)?;
    }
    let Some(violation) = report.violation.clone() else { return Ok(()) };
    next.store(end, Ordering::Relaxed);
    let repeat = options.repeat_command(&report.plan);
    let report = if options.shrink { shrink(report) } else { report };
    if !options.trace {
        write!(output, "{}last events:\n{}", report.plan, report.event_log)?;
    }
    writeln!(output, "VIOLATION seed {}: {violation}", report.plan.seed)?;
    if let Some(shrunk) = report.violation.as_ref().filter(|shrunk| **shrunk != violation) {
        writeln!(output, "after leaving faults out: {shrunk}")?;
    }
    writeln!(output, "repeat with: {repeat}")?;
    summary.failures.push(report);
    Ok(())
}
