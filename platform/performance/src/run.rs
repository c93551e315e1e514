//! One load run from beginning to end: looks at the replicas, starts the generators, watches, measures, drains, judges. Blocks.

mod finished;

use crate::clock::RunClock;
use crate::fsync_probe;
use crate::generator::{Failure, Watcher, drive};
use crate::host::{load_average, process_cpu};
use crate::memory::MemoryWatch;
use crate::monitor::{Progress, Watched, watch};
use crate::plan::LoadPlan;
use crate::recording::Recording;
use crate::replicas::{ReplicaStatus, Statuses, read_statuses};
use crate::result::{FailureCounts, LoadAverage, LoadResult, MedianAndTailMs};
use crate::schedule::Schedule;
use crate::windowed_load::{WindowedLoad, WindowedLoadOptions};
use crate::workload::BatchMaker;
use finished::{Finished, Moment};
use quorate_client::{ClientCounters, ConnectError, SessionClient};
use quorate_communicator::client_traffic;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thiserror::Error;
use tokio::sync::oneshot;

/// Time to find a leader and open the sessions.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// A wait for the cluster that is longer than this is told.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a wait looks whether it was stopped.
const STOP_INTERVAL: Duration = Duration::from_millis(20);

/// Why a run has no result.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The cluster did not take the clients.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The run was stopped before anything was measured.
    #[error("stopped before the measurement began")]
    Stopped,
    /// Nothing was answered in the measurement.
    #[error(
        "no samples: not one batch was answered in the {seconds:.1} s measured ({errors} failed{examples}); is there a majority of replicas?"
    )]
    NoSamples {
        /// Length of the measurement, in seconds.
        seconds: f64,
        /// Batches that failed.
        errors: u64,
        /// The first of them in words.
        examples: String,
    },
    /// This machine did not give what a run needs.
    #[error("this machine cannot run the load: {0}")]
    Machine(#[from] io::Error),
    /// A generator ended unexpectedly; a fault of this program.
    #[error("a generator thread ended unexpectedly")]
    Generator,
}

struct Generator {
    recording: Arc<Recording>,
    schedule: Option<Schedule>,
    thread: JoinHandle<FailureCounts>,
}

/// Runs a plan. `stop` ends it early; lines of progress go to `progress`.
///
/// # Errors
/// [`LoadError`] if there is no result; a result that may not be quoted is none of them.
pub fn run(plan: &LoadPlan, stop: &Arc<AtomicBool>, mut progress: Progress) -> Result<LoadResult, LoadError> {
    let load_before = load_average();
    let replicas = plan.cluster.replicas();
    let before = read_statuses(replicas);
    warn_of_missing(plan, &before, &mut progress);
    let durable = agreed(&before, |status| status.durable);
    let wal_sync = agreed(&before, |status| status.wal_sync.clone());
    let mut nulls = BTreeMap::new();
    // Only a synced log tells what a sync takes; that is asked for at the end of the measurement.
    let probed = (wal_sync.as_deref() != Some("always")).then(|| probe(plan, &mut nulls)).flatten();
    let (clock, generators) = start(plan, &mut progress)?;
    let watched: Vec<Watched> = generators
        .iter()
        .map(|one| Watched { recording: Arc::clone(&one.recording), schedule: one.schedule })
        .collect();
    let done = Arc::new(AtomicBool::new(false));
    let monitor = {
        let (clock, watched, done) = (Arc::clone(&clock), watched.clone(), Arc::clone(&done));
        thread::Builder::new().name("monitor".into()).spawn(move || watch(&clock, &watched, &done, progress))?
    };
    wait_until(&clock, || clock.measure_from(), stop);
    let started_unix_ms = unix_ms();
    let at_start = moment(plan, &watched);
    let memory = MemoryWatch::start(replicas.to_vec())?;
    wait_until(&clock, || clock.end(), stop);
    let at_end = moment(plan, &watched);
    let peaks = memory.end();
    let mut failures = FailureCounts::default();
    let mut sound = true;
    for generator in generators {
        match generator.thread.join() {
            Ok(counts) => failures.add(&counts),
            Err(_) => sound = false,
        }
    }
    done.store(true, Ordering::Relaxed);
    let samples = monitor.join().map_err(|_| LoadError::Generator)?;
    if !sound {
        return Err(LoadError::Generator);
    }
    let fsync = match wal_sync.as_deref() {
        Some("always") => slowest_sync(&at_end.statuses, &mut nulls),
        _ => probed,
    };
    let after = read_statuses(replicas);
    let finished = Finished {
        clock,
        watched,
        samples,
        failures,
        before,
        at_start,
        at_end,
        peaks,
        after,
        started_unix_ms,
        fsync,
        durable,
        wal_sync,
    };
    finished.result(plan, nulls, LoadAverage { before: load_before, after: load_average() })
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn warn_of_missing(plan: &LoadPlan, statuses: &Statuses, progress: &mut Progress) {
    for (id, status) in statuses {
        if let Err(error) = status
            && !plan.expect_down.contains(id)
        {
            progress(&format!("replica {id}: {error}"));
        }
    }
}

/// What all replicas that answer say, if they say the same.
fn agreed<T: PartialEq>(statuses: &Statuses, what: impl Fn(&ReplicaStatus) -> Option<T>) -> Option<T> {
    let mut answers = statuses.values().flatten().map(what);
    let first = answers.next()??;
    answers.all(|answer| answer.as_ref() == Some(&first)).then_some(first)
}

/// The times of the replica whose syncs take longest.
fn slowest_sync(statuses: &Statuses, nulls: &mut BTreeMap<String, String>) -> Option<MedianAndTailMs> {
    let times = statuses.values().flatten().filter_map(|status| status.fsync_ms);
    let slowest = times.max_by(|one, other| one.p50.total_cmp(&other.p50));
    if slowest.is_none() {
        let reason = "the replicas sync their logs, but none says how long that takes";
        nulls.insert("fsync_ms".to_owned(), reason.to_owned());
    }
    slowest.map(|times| MedianAndTailMs { p50: times.p50, p99: times.p99 })
}

fn probe(plan: &LoadPlan, nulls: &mut BTreeMap<String, String>) -> Option<MedianAndTailMs> {
    let folder = &plan.probe_folder;
    let probed = fsync_probe::probe(folder);
    let reason = |error| format!("the probe in {} failed: {error}", folder.display());
    probed.map_err(|error| nulls.insert("fsync_ms".to_owned(), reason(error))).ok()
}

/// Starts all generators together once all are connected.
fn start(plan: &LoadPlan, progress: &mut Progress) -> Result<(Arc<RunClock>, Vec<Generator>), LoadError> {
    let mut connecting = Vec::new();
    for number in 0..plan.threads {
        let (ready, is_ready) = mpsc::channel();
        let (go, gone) = oneshot::channel();
        let options = plan.client_options(number);
        let thread = thread::Builder::new().name(format!("generator-{number}")).spawn(move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = ready.send(Err(LoadError::Machine(error)));
                    return FailureCounts::default();
                }
            };
            runtime.block_on(async move {
                match SessionClient::connect(options, CONNECT_TIME).await {
                    Ok(client) => {
                        let _ = ready.send(Ok(()));
                        match gone.await {
                            Ok((load, recording)) => generate(client, load, recording).await,
                            Err(_) => FailureCounts::default(),
                        }
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error.into()));
                        FailureCounts::default()
                    }
                }
            })
        })?;
        connecting.push((is_ready, go, thread));
    }
    let mut first_error = None;
    for (is_ready, _, _) in &connecting {
        let connected = is_ready.recv_timeout(PATIENCE).or_else(|_| {
            progress("no leader has taken the load client yet; still looking");
            is_ready.recv()
        });
        if let Err(error) = connected.unwrap_or(Err(LoadError::Generator)) {
            first_error.get_or_insert(error);
        }
    }
    if let Some(error) = first_error {
        return Err(error);
    }
    let clock = Arc::new(RunClock::new(Instant::now(), plan.warm_up, plan.duration));
    let mut generators = Vec::new();
    for (number, (_, go, thread)) in connecting.into_iter().enumerate() {
        let recording = Arc::new(Recording::new(Arc::clone(&clock)));
        let schedule = schedule(plan, &clock, number);
        let options = WindowedLoadOptions { window: plan.share(plan.window, number), batch: plan.workload.batch };
        let maker = BatchMaker::new(plan.workload, plan.seed.wrapping_add(number as u64));
        let load = WindowedLoad::new(options, maker, Arc::clone(&clock), Arc::clone(&recording), schedule);
        go.send((load, Arc::clone(&recording))).map_err(|_| LoadError::Generator)?;
        generators.push(Generator { recording, schedule, thread });
    }
    Ok((clock, generators))
}

/// The generator's part of the rate, its batches between those of the others.
fn schedule(plan: &LoadPlan, clock: &RunClock, number: usize) -> Option<Schedule> {
    let rate = plan.rate_per_s? / plan.threads as f64;
    let offset = f64::from(plan.workload.batch) / plan.rate_per_s? * number as f64;
    Some(Schedule::new(clock.start() + Duration::from_secs_f64(offset), plan.workload.batch, rate))
}

async fn generate(mut client: SessionClient, mut load: WindowedLoad, recording: Arc<Recording>) -> FailureCounts {
    let mut watcher = RecordingWatcher { recording, failures: FailureCounts::default() };
    drive(&mut client, &mut load, &mut watcher).await;
    watcher.failures
}

struct RecordingWatcher {
    recording: Arc<Recording>,
    failures: FailureCounts,
}

impl Watcher for RecordingWatcher {
    fn leads(&mut self, replica: u32) {
        self.recording.leads(replica);
    }

    fn counted(&mut self, counters: ClientCounters) {
        self.recording.counted(counters.retried, counters.leader_changes);
    }

    fn failed(&mut self, failure: Failure) {
        let example = failure.to_string();
        let count = match failure {
            Failure::NotDone(_) => &mut self.failures.not_done,
            Failure::Unknown => &mut self.failures.unknown,
            Failure::Expired => &mut self.failures.expired,
            Failure::Command(_) | Failure::Unreadable(_) => &mut self.failures.bad_answers,
        };
        *count += 1;
        if self.failures.examples.len() < FailureCounts::EXAMPLES && !self.failures.examples.contains(&example) {
            self.failures.examples.push(example);
        }
    }
}

/// Waits until a time of the clock, which an early end moves.
fn wait_until(clock: &RunClock, until: impl Fn() -> Instant, stop: &AtomicBool) {
    loop {
        let now = Instant::now();
        if stop.load(Ordering::Relaxed) {
            clock.end_early(now);
        }
        let left = until().min(clock.end()).saturating_duration_since(now);
        if left.is_zero() {
            return;
        }
        sleep(left.min(STOP_INTERVAL));
    }
}

fn moment(plan: &LoadPlan, watched: &[Watched]) -> Moment {
    let sum = |count: fn(&Recording) -> u64| watched.iter().map(|watched| count(&watched.recording)).sum();
    let (cpu, refused, retried) = (process_cpu(), sum(Recording::refused_in_all), sum(Recording::retried_in_all));
    let socket_calls = client_traffic().socket_calls();
    Moment { statuses: read_statuses(plan.cluster.replicas()), cpu, socket_calls, refused, retried }
}
