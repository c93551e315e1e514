//! `quorate perf limit`.

use super::cluster_run::cluster_of;
use super::result::ResultArguments;
use super::stopped::{OK, Stopped, bad_input, failed, tell};
use super::workload::{WorkloadArguments, plan_of};
use clap::Args;
use quorate_config::{ClusterConfig, Hosts, PortChoice, TemplateConfig, new_cluster};
use quorate_framework::{ClusterId, limits};
use quorate_performance::limit::{self, LimitPlan};
use quorate_performance::plan::LoadInput;
use std::path::{Path, PathBuf};
use std::thread;

/// Replicas of ResilientDB's experiment.
const LIMIT_REPLICAS: usize = 4;

/// A ceiling.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  quorate perf limit\n  quorate perf limit --cluster cluster.json --batch 1")]
pub(crate) struct LimitArguments {
    /// The cluster file, for its number of replicas and its batch size; nothing of it is contacted [default: the built-in settings]
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// Stores on which everything is executed, as many as the cluster would have replicas [default: those of the cluster file, else 4]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    replicas: Option<String>,
    /// Seconds [default: 10]
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    duration: Option<String>,
    /// What is executed.
    #[command(flatten)]
    workload: WorkloadArguments,
    /// Threads that share the stores [default: one a processor]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    threads: Option<String>,
    /// Where the result goes.
    #[command(flatten)]
    result: ResultArguments,
}

/// The settings of a ceiling and its number of stores.
fn limit_cluster(file: Option<&Path>, replicas: Option<&str>) -> Result<(ClusterConfig, usize), Stopped> {
    let of_file = file.map(cluster_of).transpose()?;
    let replicas = match (replicas, &of_file) {
        (None, None) => LIMIT_REPLICAS,
        (None, Some(cluster)) => cluster.replicas().len(),
        (Some(text), _) => match text.parse() {
            Ok(count) if (1..=limits::REPLICAS).contains(&count) => count,
            _ => {
                let allowed = format!("must be a whole number from 1 to {}", limits::REPLICAS);
                return Err(bad_input(format!("--replicas {text}: {allowed}")));
            }
        },
    };
    let cluster = match of_file {
        Some(cluster) => cluster,
        None => {
            // Nobody is contacted: the host is there because a cluster has one.
            let host = Hosts::List(vec!["nowhere".to_owned()]);
            new_cluster(&TemplateConfig::defaults(), ClusterId([0; 16]), &host, PortChoice::default())
                .map_err(bad_input)?
        }
    };
    Ok((cluster, replicas))
}

pub(super) fn run(arguments: LimitArguments) -> Result<u8, Stopped> {
    let (cluster, replicas) = limit_cluster(arguments.cluster.as_deref(), arguments.replicas.as_deref())?;
    let threads_given = arguments.threads.is_some();
    let mut input =
        LoadInput { duration: arguments.duration, threads: arguments.threads, ..arguments.workload.into_input() };
    // Threads share a window in a load run; here there is none to share.
    input.window = Some("1000000".to_owned());
    let plan = plan_of(cluster, &input, PathBuf::new())?;
    arguments.result.check()?;
    let processors = thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let threads = if threads_given { plan.threads } else { processors };
    let limit_plan = LimitPlan { workload: plan.workload, replicas, threads, duration: plan.duration, seed: plan.seed };
    tell(&format!("executing on {replicas} stores for {:.1} s", plan.duration.as_secs_f64()));
    let result = limit::run(&limit_plan).map_err(failed)?;
    arguments.result.give(&result, || {
        format!(
            "ceiling              {:.0} transactions/s, each on {} stores with {} threads\n\
             execution            {:.1} ns\n\
             of                   batches of {}, {} keys, {} bytes a value, {} % gets, {}\n",
            result.throughput_per_s,
            result.replicas,
            result.threads,
            result.execution_ns,
            result.workload.batch,
            result.workload.keys,
            result.workload.value_size_bytes,
            result.workload.read_share * 100.0,
            result.workload.distribution,
        )
    })?;
    Ok(OK)
}
