//! `quorate perf clients`.

use super::{
    FAILED, INCONCLUSIVE, OK, PerfOutput, Stopped, bad_inputs, check_file, check_probe_folder, cluster_of, load_failed,
    print, stop_on_interrupt, stopped, tell, write_file,
};
use clap::Args;
use quorate_performance::clients::{self, ClientsInput, ClientsPlan, render};
use quorate_performance::plan::{LoadInput, output_folder};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// More and more clients.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quorate perf clients --cluster cluster.json --json clients.json\n  \
    quorate perf clients --cluster cluster.json --clients 1,256 --connections 8 --repeat 3\n\n\
    Closed loop: each client sends its next write when the one before is answered. The most clients run a second time over a single\n\
    connection, so that a plateau of the connection's shows. A running cluster is measured as it is: to compare wal_sync always and\n\
    never, make one of each (scripts/deploy/performance_local/raft_clients.sh does).\n\
    Exit codes: 0 ok, 1 failed, 2 bad input, 3 a result may not be quoted (it says why)")]
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
    /// Milliseconds after which a write is given up [default: 10000]
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    deadline_ms: Option<String>,
    /// Replicas that are meant to be down: their silence does not spoil the result
    #[arg(long, value_name = "ID,...", value_delimiter = ',', allow_hyphen_values = true)]
    expect_down: Vec<String>,
    /// Folder in which the device's sync time is probed when the replicas do not sync [default: that of --json, else of --cluster]
    #[arg(long, value_name = "DIR")]
    probe_dir: Option<PathBuf>,
    /// Write the result as JSON to this file: every row with its whole result
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    output: PerfOutput,
}

pub(super) fn run(arguments: ClientsArguments) -> Result<u8, Stopped> {
    let ClientsArguments { cluster: file, json, output, probe_dir, .. } = &arguments;
    let cluster = cluster_of(file)?;
    let probe_folder = probe_dir.clone().unwrap_or_else(|| output_folder(json.as_ref().unwrap_or(file)));
    let (json, output) = (json.clone(), *output);
    let input = ClientsInput {
        clients: arguments.clients,
        connections: arguments.connections,
        repeat: arguments.repeat,
        quick: arguments.quick,
        load: LoadInput {
            duration: arguments.duration,
            warm_up: arguments.warm_up,
            keys: arguments.keys,
            value_size: arguments.value_size,
            distribution: arguments.distribution,
            seed: arguments.seed,
            deadline_ms: arguments.deadline_ms,
            expect_down: arguments.expect_down,
            ..LoadInput::default()
        },
    };
    let plan = ClientsPlan::new(&cluster, &input, &probe_folder).map_err(|errors| bad_inputs(&errors))?;
    check_file("--json", json.as_deref())?;
    check_probe_folder(&probe_folder)?;
    tell(&format!("{} rows, about {:.0} s", plan.rows.len(), plan.seconds()));
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_interrupt(Arc::clone(&stop));
    let result = clients::run(&plan, &stop, tell).map_err(load_failed)?;
    let text =
        serde_json::to_string_pretty(&result).map_err(|error| error.to_string()).map_err(stopped(FAILED))? + "\n";
    write_file(&text, json.as_deref())?;
    print(&text, output, || render(&result));
    if result.valid {
        return Ok(OK);
    }
    result.invalid_because.iter().for_each(|reason| tell(&format!("not valid: {reason}")));
    Ok(INCONCLUSIVE)
}
