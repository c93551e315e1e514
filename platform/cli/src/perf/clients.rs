//! `quorate perf clients`.

use super::cluster_run::{ClusterRunArguments, cluster_of, load_failed};
use super::result::verdict;
use super::stopped::{Stopped, bad_inputs, stop_on_interrupt, tell};
use clap::Args;
use quorate_performance::clients::{self, ClientsInput, ClientsPlan, render};
use quorate_performance::plan::LoadInput;
use std::path::PathBuf;

/// The replicas of these runs may be told never to sync.
const PROBE_FOLDER: &str = "Folder in which the device's sync time is probed when the replicas do not sync \
    [default: that of --json, else of --cluster]";

/// More and more clients.
#[derive(Debug, Args)]
#[command(
    mut_arg("deadline_ms", |deadline| deadline.help("Milliseconds after which a write is given up [default: 10000]")),
    mut_arg("probe_dir", |folder| folder.help(PROBE_FOLDER)),
    mut_arg("json", |json| json.help("Write the result as JSON to this file: every row with its whole result")),
    after_help = "Examples:\n  \
    quorate perf clients --cluster cluster.json --json clients.json\n  \
    quorate perf clients --cluster cluster.json --clients 1,256 --connections 8 --repeat 3\n\n\
    Closed loop: each client sends its next write when the one before is answered. The most clients run a second time over a single\n\
    connection, so that a plateau of the connection's shows. A running cluster is measured as it is: to compare wal_sync always and\n\
    never, make one of each (scripts/deploy/performance_local/raft_clients.sh does).\n\
    Exit codes: 0 ok, 1 failed, 2 bad input, 3 a result may not be quoted (it says why)"
)]
pub(crate) struct ClientsArguments {
    /// The cluster file
    #[arg(long, value_name = "FILE")]
    cluster: PathBuf,
    /// Numbers of clients, one row each [default: 1,8,16,64,128,256]
    #[arg(long, value_name = "N,...", value_delimiter = ',', allow_hyphen_values = true)]
    clients: Vec<String>,
    /// Connections to the leader that the clients share, one a client at most [default: 4]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    connections: Option<String>,
    /// Seconds measured for each row [default: 10; with --quick 2]
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    duration: Option<String>,
    /// Seconds of load before that, not measured [default: 2; with --quick 1]
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    warm_up: Option<String>,
    /// Runs of each row, interleaved; a row shows the median [default: 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    repeat: Option<String>,
    /// A short run
    #[arg(long)]
    quick: bool,
    /// Keys in use [default: 10000]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    keys: Option<String>,
    /// Bytes of a value [default: 100]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    value_size: Option<String>,
    /// How keys are drawn: uniform or zipfian [default: uniform]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    distribution: Option<String>,
    /// Seed of keys and values [default: 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seed: Option<String>,
    /// What every measurement of a running cluster takes.
    #[command(flatten)]
    run: ClusterRunArguments,
}

pub(super) fn run(arguments: ClientsArguments) -> Result<u8, Stopped> {
    let cluster = cluster_of(&arguments.cluster)?;
    let probe_folder = arguments.run.probe_folder(&arguments.cluster);
    let load = arguments.run.complete(LoadInput {
        duration: arguments.duration,
        warm_up: arguments.warm_up,
        keys: arguments.keys,
        value_size: arguments.value_size,
        distribution: arguments.distribution,
        seed: arguments.seed,
        ..LoadInput::default()
    });
    let input = ClientsInput {
        clients: arguments.clients,
        connections: arguments.connections,
        repeat: arguments.repeat,
        quick: arguments.quick,
        load,
    };
    let plan = ClientsPlan::new(&cluster, &input, &probe_folder).map_err(|errors| bad_inputs(&errors))?;
    arguments.run.check(&probe_folder)?;
    tell(&format!("{} rows, about {:.0} s", plan.rows.len(), plan.seconds()));
    let result = clients::run(&plan, &stop_on_interrupt(), tell).map_err(load_failed)?;
    arguments.run.result.give(&result, || render(&result))?;
    Ok(verdict(result.valid, &result.invalid_because))
}
