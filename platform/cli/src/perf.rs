//! `quorate perf`: load, clients, ceilings, the transport, the log and the stores alone, merged results.

mod clients;
mod cluster_run;
mod limit;
mod load;
mod merge;
mod result;
mod stopped;
mod store;
mod transport;
mod wal;
mod workload;

use clap::Subcommand;
use clients::ClientsArguments;
use limit::LimitArguments;
use load::LoadArguments;
use merge::MergeArguments;
use std::process::ExitCode;
use stopped::{Stopped, tell};
use store::StoreArguments;
use transport::TransportArguments;
use wal::WalArguments;

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

/// Runs a command to its end.
pub(crate) fn run(command: PerfCommand) -> ExitCode {
    let done = match command {
        PerfCommand::Load(arguments) => load::run(arguments),
        PerfCommand::Merge(arguments) => merge::run(&arguments),
        PerfCommand::Limit(arguments) => limit::run(arguments),
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
