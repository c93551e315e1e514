//! `quorate simulate`: the shipped code under seeds.

use crate::exit::{Exit, Failure};
use clap::{Args, ValueEnum};
use quorate_simulation::CrashMode;
use quorate_simulation::command::{SimulateOptions, simulate};
use std::io::{IsTerminal, Write};

/// Protocols that the simulator knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimulatedProtocol {
    /// Raft
    Raft,
}

/// Whether simulated processes keep their data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Recovery is on: log, metadata and snapshots lie on a simulated disk, which loses power, tears writes, fails, fills up, hangs and rots
    #[value(alias = "on")]
    Durable,
    /// Recovery is off: a restarted process is another incarnation
    #[value(alias = "off")]
    InMemory,
    /// Seeds take turns
    Both,
}

/// Which seeds, and how.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  quorate simulate --seed 1 --seeds 1000\n  \
        quorate simulate --protocol raft --replicas 5 --seed 7 --steps 200 --trace\n  \
        quorate simulate --recovery on --seed 1 --seeds 1000          only replicas that keep their data\n\n\
        A seed fixes everything: faults, delays, losses, clocks, and what disks lose. A failing one prints the violated oracle, the last events, and the\n\
        command that repeats it. Exit codes: 0 no violation, 1 a violation, 2 bad input")]
pub(crate) struct SimulateArguments {
    /// The protocol
    #[arg(long, value_enum, default_value = "raft")]
    protocol: SimulatedProtocol,
    /// Replicas, from 1 to 9 [default: seeds take turns with 3 and 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=9), allow_negative_numbers = true)]
    replicas: Option<u32>,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    seed: u64,
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), allow_negative_numbers = true)]
    seeds: u64,
    /// Faults in the worst weather, from 1 to 10000
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true)]
    steps: u32,
    /// With or without recovery; `on` and `off` are understood, too
    #[arg(long, visible_alias = "recovery", value_enum, default_value = "both")]
    mode: Mode,
    /// The store keeps its state beside checkpoints, as one on disk does: a start may find it further than the log
    #[arg(long)]
    store_on_disk: bool,
    /// Print every event of every seed
    #[arg(long)]
    trace: bool,
    /// Leave faults out of a failing run as long as it still fails
    #[arg(long)]
    shrink: bool,
    /// Threads [default: one a processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), allow_negative_numbers = true)]
    threads: Option<u16>,
}

/// Runs the seeds.
pub(crate) fn run(arguments: &SimulateArguments) -> Result<Exit, Failure> {
    let SimulatedProtocol::Raft = arguments.protocol;
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let options = SimulateOptions {
        replicas: arguments.replicas,
        first_seed: arguments.seed,
        seeds: arguments.seeds,
        steps: arguments.steps,
        crash_mode: match arguments.mode {
            Mode::Durable => Some(CrashMode::Durable),
            Mode::InMemory => Some(CrashMode::InMemory),
            Mode::Both => None,
        },
        keeps_store: arguments.store_on_disk,
        trace: arguments.trace,
        validate: true,
        shrink: arguments.shrink,
        threads: arguments.threads.map_or_else(processors, usize::from),
    };
    let error = std::io::stderr();
    let mut progress: Box<dyn Write> = if error.is_terminal() { Box::new(error) } else { Box::new(std::io::sink()) };
    let summary = simulate(&options, &mut std::io::stdout().lock(), &mut progress)
        .map_err(|error| Failure::failed(format!("the report could not be written: {error}")))?;
    Ok(if summary.failures.is_empty() { Exit::Ok } else { Exit::Failed })
}
