//! `quorate perf load`.

use super::cluster_run::{ClusterRunArguments, cluster_of, load_failed};
use super::result::verdict;
use super::stopped::{Stopped, failed, stop_on_interrupt, tell};
use super::workload::{WorkloadArguments, plan_of};
use clap::Args;
use quorate_performance::monitor::Progress;
use quorate_performance::plan::LoadInput;
use quorate_performance::run;
use quorate_performance::text::{render, to_json};
use std::path::PathBuf;

/// A load run.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quorate perf load --cluster cluster.json --json result.json\n  \
    quorate perf load --cluster cluster.json --batch 1 --window 256 --connections 4    (single operations)\n  \
    quorate perf load --cluster cluster.json --rate 100000                             (open loop)\n\n\
    Latency is that of a batch, from its first submit (with --rate: from the time it was meant to be sent) through all retries.\n\
    Exit codes: 0 ok, 1 failed, 2 bad input, 3 the result may not be quoted (it says why)")]
pub(crate) struct LoadArguments {
    /// The cluster file
    #[arg(long, value_name = "FILE")]
    cluster: PathBuf,
    /// Seconds measured [default: 10]
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    duration: Option<String>,
    /// Seconds of load before that, not measured [default: 2]
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    warm_up: Option<String>,
    /// Batches in flight at most [default: max_process_txn of the cluster file]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    window: Option<String>,
    /// Open loop: transactions a second, whatever becomes of those before
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    rate: Option<String>,
    /// What is asked for.
    #[command(flatten)]
    workload: WorkloadArguments,
    /// Connections to the leader, over all threads [default: one a thread]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    connections: Option<String>,
    /// Generator threads that share window, rate and connections [default: 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    threads: Option<String>,
    /// What every measurement of a running cluster takes.
    #[command(flatten)]
    run: ClusterRunArguments,
}

pub(super) fn run(arguments: LoadArguments) -> Result<u8, Stopped> {
    let cluster = cluster_of(&arguments.cluster)?;
    let probe_folder = arguments.run.probe_folder(&arguments.cluster);
    let input = arguments.run.complete(LoadInput {
        duration: arguments.duration,
        warm_up: arguments.warm_up,
        window: arguments.window,
        rate: arguments.rate,
        connections: arguments.connections,
        threads: arguments.threads,
        ..arguments.workload.into_input()
    });
    let plan = plan_of(cluster, &input, probe_folder)?;
    arguments.run.check(&plan.probe_folder)?;
    let progress: Progress = Box::new(tell);
    let result = run::run(&plan, &stop_on_interrupt(), progress).map_err(load_failed)?;
    arguments.run.result.give_json(to_json(&result).map_err(failed)?, || render(&result))?;
    Ok(verdict(result.valid, &result.invalid_because))
}
