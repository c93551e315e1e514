//! How latency and throughput grow with the number of clients: each sends its next write when the one before is answered.
//!
//! One row a number of clients, and at the end the most of them again over a single connection: a plateau that such a run shows and the
//! others do not is the benchmark's, not the cluster's. Beside each measurement stands what the model of commit rounds makes of it:
//! rounds a second times the leader's average batch.

mod render;
mod row;

pub use render::render;
pub use row::{ClientsRow, RoundModel};

use crate::monitor::Progress;
use crate::options::{InputError, OptionReader};
use crate::plan::{LoadInput, LoadPlan};
use crate::result::LoadResult;
use crate::run::{LoadError, run as run_load};
use quorate_config::ClusterConfig;
use quorate_framework::limits;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const CLIENTS: [u64; 6] = [1, 8, 16, 64, 128, 256];
const CLIENTS_MAX: u64 = 100_000;
const CONNECTIONS: u64 = 4;
const KEYS: &str = "10000";
const VALUE_BYTES: &str = "100";

/// The options as they stand on the command line; absent ones have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientsInput {
    /// Numbers of clients.
    pub clients: Vec<String>,
    /// Connections that the clients share.
    pub connections: Option<String>,
    /// Runs of each row.
    pub repeat: Option<String>,
    /// A short run.
    pub quick: bool,
    /// What is the same as in a load run. Window, batch, rate and connections are not read.
    pub load: LoadInput,
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct ClientsPlan {
    /// One load for each row: its window is the number of clients.
    pub rows: Vec<LoadPlan>,
    /// Runs of each row.
    pub repeat: usize,
}

impl ClientsPlan {
    /// Checks the options. Contacts nobody.
    ///
    /// # Errors
    /// Every fault found.
    pub fn new(
        cluster: &ClusterConfig,
        input: &ClientsInput,
        probe_folder: &Path,
    ) -> Result<ClientsPlan, Vec<InputError>> {
        let mut reader = OptionReader::default();
        let numbers = input.clients.iter().map(|text| reader.whole("--clients", Some(text), 1, 1, CLIENTS_MAX));
        let mut clients: Vec<u64> = numbers.collect();
        if clients.is_empty() {
            clients = CLIENTS.to_vec();
        }
        let connections = reader.whole("--connections", input.connections.as_ref(), CONNECTIONS, 1, 65_536);
        let repeat = reader.whole("--repeat", input.repeat.as_ref(), 1, 1, 100);
        reader.finish(())?;
        let mut shapes: Vec<(u64, u64)> = clients.iter().map(|count| (*count, connections.min(*count))).collect();
        if let Some(most) = clients.iter().max()
            && !shapes.contains(&(*most, 1))
        {
            shapes.push((*most, 1));
        }
        let plan = |(clients, connections): (u64, u64)| {
            let load = load_input(input, clients, connections);
            LoadPlan::new(cluster.clone(), &load, PathBuf::from(probe_folder)).map_err(|errors| named(errors, clients))
        };
        let rows = shapes.into_iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        Ok(ClientsPlan { rows, repeat: repeat as usize })
    }

    /// Seconds that it takes at least.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let of = |row: &LoadPlan| (row.warm_up + row.duration).as_secs_f64();
        self.rows.iter().map(of).sum::<f64>() * self.repeat as f64
    }
}

fn load_input(input: &ClientsInput, clients: u64, connections: u64) -> LoadInput {
    let or = |given: &Option<String>, default: &str| given.clone().or_else(|| Some(default.to_owned()));
    let quick = |given: &Option<String>, seconds: u64| match given {
        None if input.quick => Some(seconds.to_string()),
        given => given.clone(),
    };
    LoadInput {
        batch: Some("1".to_owned()),
        window: Some(clients.to_string()),
        connections: Some(connections.to_string()),
        rate: None,
        keys: or(&input.load.keys, KEYS),
        value_size: or(&input.load.value_size, VALUE_BYTES),
        duration: quick(&input.load.duration, limits::PERFORMANCE_RUN_S.min(2)),
        warm_up: quick(&input.load.warm_up, 1),
        ..input.load.clone()
    }
}

/// A row's window is its clients, and its batch is not an option here: faults are told of what was given.
fn named(mut errors: Vec<InputError>, clients: u64) -> Vec<InputError> {
    for error in &mut errors {
        if error.option == "--window" {
            (error.option, error.value) = ("--clients", clients.to_string());
        }
    }
    errors
}

/// What the experiment gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientsResult {
    /// Always `clients`.
    pub experiment: &'static str,
    /// Whether all rows may be quoted.
    pub valid: bool,
    /// Why not, by row.
    pub invalid_because: Vec<String>,
    /// Whether what was acknowledged survives the processes.
    pub durable: Option<bool>,
    /// When the replicas' logs are synced.
    pub wal_sync: Option<String>,
    /// Bytes of a value.
    pub value_size_bytes: u64,
    /// Keys.
    pub keys: u64,
    /// Runs of each row.
    pub repeat: usize,
    /// Syncs per write over all replicas with the fewest clients, divided by those with the most; null where nothing is synced.
    pub fsyncs_fall: Option<f64>,
    /// Throughput of the most clients over one connection, divided by that over all of them; null if there was one only.
    pub one_connection_ratio: Option<f64>,
    /// One row for each number of clients, the one over a single connection last.
    pub rows: Vec<ClientsRow>,
}

/// Measures a running cluster. Blocks. Lines of progress go to `progress`; `stop` ends it early.
///
/// # Errors
/// [`LoadError`] of the first run without a result.
pub fn run(
    plan: &ClientsPlan,
    stop: &Arc<AtomicBool>,
    progress: impl Fn(&str) + Clone + Send + 'static,
) -> Result<ClientsResult, LoadError> {
    let mut runs: Vec<Vec<LoadResult>> = plan.rows.iter().map(|_| Vec::new()).collect();
    for _ in 0..plan.repeat {
        for (row, results) in plan.rows.iter().zip(&mut runs) {
            if stop.load(Ordering::Relaxed) {
                return Err(LoadError::Stopped);
            }
            progress(&format!("{} clients over {} connections", row.window, row.connections));
            let progress: Progress = Box::new(progress.clone());
            results.push(run_load(row, stop, progress)?);
        }
    }
    let rows = plan.rows.iter().zip(runs).map(|(row, runs)| ClientsRow::new(row.window, row.connections, runs));
    Ok(gather(rows.collect(), plan))
}

fn gather(rows: Vec<ClientsRow>, plan: &ClientsPlan) -> ClientsResult {
    let invalid_because: Vec<String> = rows
        .iter()
        .flat_map(|row| {
            let name = format!("{} clients over {} connections", row.clients, row.connections);
            row.result.invalid_because.iter().map(move |reason| format!("{name}: {reason}"))
        })
        .collect();
    let most = rows.iter().map(|row| row.clients).max().unwrap_or(0);
    let widest = rows.iter().filter(|row| row.clients == most).max_by_key(|row| row.connections);
    let one_connection = rows.iter().find(|row| row.clients == most && row.connections == 1);
    let fewest = rows.iter().min_by_key(|row| row.clients);
    let ratio = |over: Option<f64>, under: Option<f64>| {
        Some(over? / under.filter(|under| *under > 0.0)?).filter(|ratio| *ratio > 0.0)
    };
    let one_connection_ratio = widest
        .filter(|row| row.connections > 1)
        .and_then(|row| ratio(one_connection.map(|one| one.writes_per_s.median), Some(row.writes_per_s.median)));
    let syncs = |row: Option<&ClientsRow>| row.and_then(|row| row.fsyncs_per_write);
    let first = rows.first().map(|row| &row.result);
    let workload = plan.rows.first().map(|row| row.workload);
    ClientsResult {
        experiment: "clients",
        valid: invalid_because.is_empty(),
        invalid_because,
        durable: first.and_then(|result| result.durable),
        wal_sync: first.and_then(|result| result.wal_sync.clone()),
        value_size_bytes: workload.map_or(0, |workload| workload.value_size_bytes as u64),
        keys: workload.map_or(0, |workload| workload.keys),
        repeat: plan.repeat,
        fsyncs_fall: ratio(syncs(fewest), syncs(widest)),
        one_connection_ratio,
        rows,
    }
}

#[cfg(test)]
#[path = "clients_tests.rs"]
mod tests;
