//! What a load run is asked to do, and every reason why it cannot be done, before anything is started.

use crate::options::{OptionReader, SECONDS_MAX};
use crate::workload::{Distribution, Workload};
use quorate_client::{ClientOptions, FRAME_BYTES_MAX};
use quorate_config::ClusterConfig;
use quorate_framework::request::REQUEST_HEADER_BYTES;
use quorate_framework::{ReplicaId, limits};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use crate::options::InputError;

/// The options as they stand on the command line; absent ones have their defaults. Text, so that every fault is told in one form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadInput {
    /// Seconds measured.
    pub duration: Option<String>,
    /// Seconds of warm-up.
    pub warm_up: Option<String>,
    /// Batches in flight.
    pub window: Option<String>,
    /// Transactions in a batch.
    pub batch: Option<String>,
    /// Keys.
    pub keys: Option<String>,
    /// Bytes of a value.
    pub value_size: Option<String>,
    /// Share of gets.
    pub read_share: Option<String>,
    /// How keys are drawn.
    pub distribution: Option<String>,
    /// Transactions a second.
    pub rate: Option<String>,
    /// Connections to the leader.
    pub connections: Option<String>,
    /// Generator threads.
    pub threads: Option<String>,
    /// Seed of keys and values.
    pub seed: Option<String>,
    /// Milliseconds for a batch.
    pub deadline_ms: Option<String>,
    /// Ids of replicas that are meant to be down.
    pub expect_down: Vec<String>,
}

/// A checked load run.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The cluster.
    pub cluster: ClusterConfig,
    /// Length of the measurement.
    pub duration: Duration,
    /// Length of the warm-up.
    pub warm_up: Duration,
    /// Batches in flight over all threads.
    pub window: u64,
    /// What is asked for.
    pub workload: Workload,
    /// Transactions a second over all threads; none for a closed loop.
    pub rate_per_s: Option<f64>,
    /// Connections to the leader over all threads.
    pub connections: usize,
    /// Generator threads.
    pub threads: usize,
    /// Seed of keys and values.
    pub seed: u64,
    /// Time for a batch.
    pub deadline: Duration,
    /// Replicas that are meant to be down.
    pub expect_down: Vec<ReplicaId>,
    /// Where the device's sync time is probed when recovery is off.
    pub probe_folder: PathBuf,
}

/// Most keys: a generator by Zipf's law takes time for each when it starts.
const KEYS_MAX: u64 = 100_000_000;
/// Descriptors that a process needs beside its connections.
const SPARE_DESCRIPTORS: u64 = 32;

impl LoadPlan {
    /// Checks the options against each other and against the cluster.
    ///
    /// # Errors
    /// Every fault found.
    pub fn new(cluster: ClusterConfig, input: &LoadInput, probe_folder: PathBuf) -> Result<LoadPlan, Vec<InputError>> {
        let mut reader = OptionReader::default();
        let settings = cluster.settings().clone();
        let seconds = "a number of seconds";
        let run_s = limits::PERFORMANCE_RUN_S as f64;
        let duration = reader.real("--duration", input.duration.as_ref(), run_s, (0.1, SECONDS_MAX), seconds);
        let warm_up_s = limits::PERFORMANCE_WARM_UP_S as f64;
        let warm_up = reader.real("--warm-up", input.warm_up.as_ref(), warm_up_s, (0.0, SECONDS_MAX), seconds);
        let commands = limits::COMMANDS_PER_FRAME as u64;
        let batch = reader.whole("--batch", input.batch.as_ref(), settings.client_batch_num, 1, commands);
        let window = reader.whole("--window", input.window.as_ref(), settings.max_process_txn, 1, 1_000_000);
        let keys = reader.whole("--keys", input.keys.as_ref(), 100, 1, KEYS_MAX);
        let value_limit = settings.value_size_limit_bytes;
        let value_size = reader.whole("--value-size", input.value_size.as_ref(), 9, 0, value_limit);
        let share = "a share";
        let read_share = reader.real("--read-share", input.read_share.as_ref(), 0.0, (0.0, 1.0), share);
        let rate_unit = "a number of transactions a second";
        let rate = input.rate.as_ref().map(|text| reader.real("--rate", Some(text), 1.0, (0.001, 1e9), rate_unit));
        let threads = reader.whole("--threads", input.threads.as_ref(), 1, 1, 256);
        let connections = reader.whole("--connections", input.connections.as_ref(), threads, 1, 65_536);
        let seed = reader.whole("--seed", input.seed.as_ref(), 1, 0, u64::MAX);
        let deadline_ms = reader.whole("--deadline-ms", input.deadline_ms.as_ref(), 10_000, 1, 3_600_000);
        let distribution = match input.distribution.as_deref().map_or(Ok(Distribution::Uniform), str::parse) {
            Ok(distribution) => distribution,
            Err(_) => {
                let value = input.distribution.clone().unwrap_or_default();
                reader.error("--distribution", value, "must be uniform or zipfian");
                Distribution::Uniform
            }
        };
        let expect_down = read_replicas(&mut reader, &cluster, &input.expect_down);
        let plan = LoadPlan {
            workload: Workload {
                keys,
                value_size_bytes: value_size as usize,
                read_share,
                distribution,
                batch: batch as u32,
            },
            cluster,
            duration: Duration::from_secs_f64(duration),
            warm_up: Duration::from_secs_f64(warm_up),
            window,
            rate_per_s: rate,
            connections: connections as usize,
            threads: threads as usize,
            seed,
            deadline: Duration::from_millis(deadline_ms),
            expect_down,
            probe_folder,
        };
        plan.check_together(&mut reader);
        reader.finish(plan)
    }

    fn check_together(&self, reader: &mut OptionReader) {
        let (threads, connections) = (self.threads as u64, self.connections as u64);
        if self.window < threads {
            reader.error("--window", self.window, format!("{threads} generator threads need at least one batch each"));
        }
        if connections < threads {
            reader.error("--connections", connections, format!("{threads} generator threads need one each"));
        }
        if connections > self.window {
            reader.error("--connections", connections, format!("more than the window of {}", self.window));
        }
        let descriptors = descriptor_limit().unwrap_or(u64::MAX);
        if connections.saturating_add(SPARE_DESCRIPTORS) > descriptors {
            let problem = format!("this process may open {descriptors} files and connections (ulimit -n)");
            reader.error("--connections", connections, problem);
        }
        let frame = REQUEST_HEADER_BYTES + self.workload.body_bytes_max();
        if frame > FRAME_BYTES_MAX {
            let problem = format!(
                "a batch of {} such commands has {frame} bytes, {FRAME_BYTES_MAX} are the most: lower it or --batch",
                self.workload.batch
            );
            reader.error("--value-size", self.workload.value_size_bytes, problem);
        }
    }

    /// The share of thread `number` (from 0) of a total; the first threads get the remainder.
    #[must_use]
    pub fn share(&self, total: u64, number: usize) -> u64 {
        let threads = self.threads as u64;
        total / threads + u64::from((number as u64) < total % threads)
    }

    /// How the client of thread `number` is started.
    #[must_use]
    pub fn client_options(&self, number: usize) -> ClientOptions {
        let mut options = ClientOptions::of_cluster(&self.cluster);
        options.window_frames = self.share(self.window, number) as usize;
        options.connections = self.share(self.connections as u64, number) as usize;
        options.request_deadline = self.deadline;
        options
    }

    /// All effective settings of the load client.
    #[must_use]
    pub fn client_settings(&self) -> Value {
        let options = self.client_options(0);
        let sessions: usize = (0..self.threads).map(|number| self.client_options(number).sessions()).sum();
        json!({
            "duration_s": self.duration.as_secs_f64(),
            "warm_up_s": self.warm_up.as_secs_f64(),
            "window": self.window,
            "batch": self.workload.batch,
            "keys": self.workload.keys,
            "key_size_bytes": self.workload.key_bytes(),
            "value_size_bytes": self.workload.value_size_bytes,
            "read_share": self.workload.read_share,
            "distribution": self.workload.distribution,
            "rate_per_s": self.rate_per_s,
            "connections": self.connections,
            "threads": self.threads,
            "sessions": sessions,
            "seed": self.seed,
            "deadline_ms": self.deadline.as_millis() as u64,
            "attempt_timeout_ms": options.attempt_timeout.as_millis() as u64,
            "busy_pause_ms_min": options.pauses.busy_min.as_secs_f64() * 1_000.0,
            "busy_pause_ms_max": options.pauses.busy_max.as_secs_f64() * 1_000.0,
            "expect_down": self.expect_down.iter().map(|id| id.0).collect::<Vec<_>>(),
        })
    }
}

fn read_replicas(reader: &mut OptionReader, cluster: &ClusterConfig, given: &[String]) -> Vec<ReplicaId> {
    let mut ids = Vec::new();
    for text in given {
        let found = text.parse::<u64>().ok().and_then(|id| cluster.replica(id).ok());
        match found {
            Some(replica) => ids.push(replica.id),
            None => {
                let known: Vec<String> = cluster.replicas().iter().map(|replica| replica.id.to_string()).collect();
                reader.error("--expect-down", text, format!("must be the id of a replica: {}", known.join(", ")));
            }
        }
    }
    ids
}

/// Descriptors that this process may have open, if the system tells.
fn descriptor_limit() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find(|line| line.starts_with("Max open files"))?;
    line.split_ascii_whitespace().nth(3)?.parse().ok()
}

/// Checks that a result can be written to `path`: its folder is there and takes files. Leaves nothing behind.
///
/// # Errors
/// What is wrong with it.
pub fn check_output(option: &'static str, path: &Path) -> Result<(), InputError> {
    let error = |problem: String| InputError { option, value: path.display().to_string(), problem };
    if path.is_dir() {
        return Err(error("is a folder; a file's name is wanted".to_owned()));
    }
    let folder = output_folder(path);
    if !folder.is_dir() {
        return Err(error(format!("there is no folder {}; make it first", folder.display())));
    }
    let trial = folder.join(format!(".quorate-trial-{}", std::process::id()));
    let made = fs::File::create_new(&trial).and_then(|_| fs::remove_file(&trial));
    made.map_err(|problem| error(format!("nothing can be written in {}: {problem}", folder.display())))
}

/// The folder a file is to be in.
#[must_use]
pub fn output_folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
