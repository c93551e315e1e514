//! `quorate perf`: load, clients, ceilings, the transport, the log and the stores alone, merged results.

mod clients;
mod store;
mod transport;
mod wal;

use crate::exit::say_all;
use clap::{Args, Subcommand, ValueEnum};
use clients::ClientsArguments;
use quorate_config::{ClusterConfig, Hosts, PortChoice, TemplateConfig, load_cluster, new_cluster};
use quorate_framework::{ClusterId, limits};
use quorate_performance::limit::{self, LimitPlan};
use quorate_performance::merge::merge;
use quorate_performance::monitor::Progress;
use quorate_performance::plan::{InputError, LoadInput, LoadPlan, check_output, output_folder};
use quorate_performance::result::LoadResult;
use quorate_performance::run::{LoadError, run as run_load};
use quorate_performance::text::{render, to_json};
use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use store::StoreArguments;
use transport::TransportArguments;
use wal::WalArguments;

const OK: u8 = 0;
const FAILED: u8 = 1;
const BAD_INPUT: u8 = 2;
const INCONCLUSIVE: u8 = 3;
/// Replicas of ResilientDB's experiment.
const LIMIT_REPLICAS: usize = 4;

/// Load, measure, compare.
#[derive(Debug, Subcommand)]
pub(crate) enum PerfCommand {
    /// Put a running cluster under load and measure it
    Load(LoadArguments),
    /// Measure a running cluster with more and more clients, each with one write in flight
    Clients(ClientsArguments),
    /// Make one result of those of several clients that loaded one cluster at the same time
    Merge(MergeArguments),
    /// Measure this machine's ceiling for a workload: execution on every store, no network and no consensus
    Limit(LimitArguments),
    /// Measure the transport alone: frames there and back between two replicas' communicators
    Transport(TransportArguments),
    /// Measure the write-ahead log alone: the flush batch experiment, with the device beside it
    Wal(WalArguments),
    /// Measure the stores alone: reads, absent keys, batches of puts, write stalls
    Store(StoreArguments),
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PerfOutput {
    /// Lines for people
    Text,
    /// One JSON object for programs
    Json,
}

/// What is asked for.
#[derive(Debug, Args)]
pub(crate) struct WorkloadArguments {
    /// Transactions in a batch [default: client_batch_num of the cluster file]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    batch: Option<String>,
    /// Keys in use; a key is as many decimal digits as the highest one needs [default: 100]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    keys: Option<String>,
    /// Bytes of a value [default: 9]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    value_size: Option<String>,
    /// Share of gets among the transactions, from 0 to 1; they go through the log [default: 0]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    read_share: Option<String>,
    /// How keys are drawn: uniform or zipfian [default: uniform]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    distribution: Option<String>,
    /// Seed of keys and values [default: 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seed: Option<String>,
}

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
    /// Milliseconds after which a batch is given up [default: 10000]
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    deadline_ms: Option<String>,
    /// Replicas that are meant to be down: their silence does not spoil the result
    #[arg(long, value_name = "ID,...", value_delimiter = ',', allow_hyphen_values = true)]
    expect_down: Vec<String>,
    /// Folder in which the device's sync time is probed when recovery is off [default: that of --json, else of --cluster]
    #[arg(long, value_name = "DIR")]
    probe_dir: Option<PathBuf>,
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    output: PerfOutput,
}

/// Results to merge.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  quorate perf merge client-1.json client-2.json --json result.json")]
pub(crate) struct MergeArguments {
    /// The results
    #[arg(value_name = "FILE", required = true)]
    results: Vec<PathBuf>,
    /// Write the merged result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    output: PerfOutput,
}

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
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    output: PerfOutput,
}

/// Ends a command: a code and the lines for stderr.
struct Stopped {
    code: u8,
    text: String,
}

fn stopped(code: u8) -> impl Fn(String) -> Stopped {
    move |text| Stopped { code, text }
}

fn bad_input(error: impl Display) -> Stopped {
    Stopped { code: BAD_INPUT, text: error.to_string() }
}

/// Every fault in a line of its own.
fn bad_inputs(errors: &[InputError]) -> Stopped {
    bad_input(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// Runs a command to its end.
pub(crate) fn run(command: PerfCommand) -> ExitCode {
    let done = match command {
        PerfCommand::Load(arguments) => load(arguments),
        PerfCommand::Merge(arguments) => merge_results(&arguments),
        PerfCommand::Limit(arguments) => measure_limit(arguments),
        PerfCommand::Transport(arguments) => transport::run(arguments),
        PerfCommand::Wal(arguments) => wal::run(arguments),
        PerfCommand::Clients(arguments) => clients::run(arguments),
        PerfCommand::Store(arguments) => store::run(arguments),
    };
    let code = done.unwrap_or_else(|Stopped { code, text }| {
        text.lines().for_each(|line| tell(&format!("error: {line}")));
        code
    });
    ExitCode::from(code)
}

/// A line on stderr; nobody reading it is no error.
fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn cluster_of(path: &Path) -> Result<ClusterConfig, Stopped> {
    load_cluster(path).map(|accepted| accepted.config).map_err(bad_input)
}

impl WorkloadArguments {
    fn into_input(self) -> LoadInput {
        LoadInput {
            batch: self.batch,
            keys: self.keys,
            value_size: self.value_size,
            read_share: self.read_share,
            distribution: self.distribution,
            seed: self.seed,
            ..LoadInput::default()
        }
    }
}

fn plan_of(cluster: ClusterConfig, input: &LoadInput, probe_folder: PathBuf) -> Result<LoadPlan, Stopped> {
    LoadPlan::new(cluster, input, probe_folder).map_err(|errors| bad_inputs(&errors))
}

fn load(arguments: LoadArguments) -> Result<u8, Stopped> {
    let cluster = cluster_of(&arguments.cluster)?;
    let probe_folder =
        arguments.probe_dir.unwrap_or_else(|| output_folder(arguments.json.as_ref().unwrap_or(&arguments.cluster)));
    let input = LoadInput {
        duration: arguments.duration,
        warm_up: arguments.warm_up,
        window: arguments.window,
        rate: arguments.rate,
        connections: arguments.connections,
        threads: arguments.threads,
        deadline_ms: arguments.deadline_ms,
        expect_down: arguments.expect_down,
        ..arguments.workload.into_input()
    };
    let plan = plan_of(cluster, &input, probe_folder)?;
    check_json(arguments.json.as_deref())?;
    check_probe_folder(&plan.probe_folder)?;
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_interrupt(Arc::clone(&stop));
    let progress: Progress = Box::new(tell);
    let result = run_load(&plan, &stop, progress).map_err(load_failed)?;
    finish(&result, arguments.json.as_deref(), arguments.output)
}

/// What is wrong, and what to do where it is known.
fn load_failed(error: LoadError) -> Stopped {
    let text = match error {
        LoadError::Connect(error) => format!(
            "{error}\nstart the replicas (quorate serve) and wait for them (quorate cluster wait), then try again"
        ),
        other => other.to_string(),
    };
    Stopped { code: FAILED, text }
}

fn check_json(json: Option<&Path>) -> Result<(), Stopped> {
    check_file("--json", json)
}

fn check_file(option: &'static str, file: Option<&Path>) -> Result<(), Stopped> {
    file.map_or(Ok(()), |path| check_output(option, path)).map_err(bad_input)
}

/// Checks before the load that the device's sync time can be probed: a result without it is not valid.
fn check_probe_folder(folder: &Path) -> Result<(), Stopped> {
    check_output("--probe-dir", &folder.join("probe")).map_err(|error| {
        let is_elsewhere = "name another folder with --probe-dir";
        bad_input(format!("--probe-dir {}: {}; {is_elsewhere}", folder.display(), error.problem))
    })
}

/// Ctrl-C ends the run early with what it has; a second one ends the program.
fn stop_on_interrupt(stop: Arc<AtomicBool>) {
    let wait = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if stop.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
                tell("ending early; press Ctrl-C again to end at once");
            }
        });
    };
    // Without the thread Ctrl-C ends the program at once, as it would anyway.
    let _ = thread::Builder::new().name("interrupt".into()).spawn(wait);
}

/// Writes and prints a load result; says by the code whether it may be quoted.
fn finish(result: &LoadResult, json: Option<&Path>, output: PerfOutput) -> Result<u8, Stopped> {
    let text = to_json(result).map_err(|error| error.to_string()).map_err(stopped(FAILED))?;
    write_file(&text, json)?;
    print(&text, output, || render(result));
    if result.valid {
        return Ok(OK);
    }
    result.invalid_because.iter().for_each(|reason| tell(&format!("not valid: {reason}")));
    Ok(INCONCLUSIVE)
}

fn print(json: &str, output: PerfOutput, text: impl Fn() -> String) {
    let text = match output {
        PerfOutput::Text => text(),
        PerfOutput::Json => json.to_owned(),
    };
    say_all(&text);
}

/// Writes a file whole or not at all.
fn write_file(text: &str, path: Option<&Path>) -> Result<(), Stopped> {
    let Some(path) = path else { return Ok(()) };
    let partial = path.with_extension(format!("partial-{}", std::process::id()));
    let written = fs::write(&partial, text).and_then(|()| fs::rename(&partial, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&partial);
        Stopped { code: FAILED, text: format!("the result could not be written to {}: {error}", path.display()) }
    })
}

fn merge_results(arguments: &MergeArguments) -> Result<u8, Stopped> {
    check_json(arguments.json.as_deref())?;
    let mut parts = Vec::new();
    for path in &arguments.results {
        let name = path.display().to_string();
        let bytes = fs::read(path).map_err(|error| bad_input(format!("{name}: {error}")))?;
        let result = serde_json::from_slice(&bytes)
            .map_err(|error| bad_input(format!("{name}: no result of quorate perf load: {error}")))?;
        parts.push((name, result));
    }
    let merged = merge(&parts).map_err(|error| error.to_string()).map_err(stopped(FAILED))?;
    finish(&merged, arguments.json.as_deref(), arguments.output)
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

fn measure_limit(arguments: LimitArguments) -> Result<u8, Stopped> {
    let (cluster, replicas) = limit_cluster(arguments.cluster.as_deref(), arguments.replicas.as_deref())?;
    let threads_given = arguments.threads.is_some();
    let mut input =
        LoadInput { duration: arguments.duration, threads: arguments.threads, ..arguments.workload.into_input() };
    // Threads share a window in a load run; here there is none to share.
    input.window = Some("1000000".to_owned());
    let plan = plan_of(cluster, &input, PathBuf::new())?;
    check_json(arguments.json.as_deref())?;
    let processors = thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let threads = if threads_given { plan.threads } else { processors };
    let limit_plan = LimitPlan { workload: plan.workload, replicas, threads, duration: plan.duration, seed: plan.seed };
    tell(&format!("executing on {replicas} stores for {:.1} s", plan.duration.as_secs_f64()));
    let result = limit::run(&limit_plan).map_err(|error| error.to_string()).map_err(stopped(FAILED))?;
    let json =
        serde_json::to_string_pretty(&result).map_err(|error| error.to_string()).map_err(stopped(FAILED))? + "\n";
    write_file(&json, arguments.json.as_deref())?;
    print(&json, arguments.output, || {
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
    });
    Ok(OK)
}
