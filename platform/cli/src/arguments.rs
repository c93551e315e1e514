//! The command line.

use crate::perf::PerfCommand;
use crate::simulate::SimulateArguments;
use crate::wal::WalCommand;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::sync::OnceLock;

/// A replicated database whose consensus protocol is a plug-in.
#[derive(Debug, Parser)]
#[command(
    name = "quorate",
    version = version(),
    after_help = "Example: a durable cluster of three on this machine\n  \
        quorate config new --replicas 3 --out cluster.json\n  \
        quorate init --bootstrap --config cluster.json --id 1   (and 2, and 3, once)\n  \
        quorate serve --config cluster.json --id 1   (and 2, and 3, each in a terminal of its own)\n  \
        quorate cluster wait --config cluster.json\n\n\
        Exit codes: 0 ok, 1 failed, 2 bad input, 3 inconclusive, 4 outcome unknown"
)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Version and commit, as `/status` says them too.
fn version() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| format!("{} (commit {})", quorate_node::status::VERSION, quorate_node::status::COMMIT))
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make, check and describe cluster files
    #[command(
        subcommand,
        after_help = "Examples:\n  quorate config new --replicas 3 --out cluster.json\n  quorate config check cluster.json"
    )]
    Config(ConfigCommand),
    /// Make the data directory of a replica, once
    Init(InitArguments),
    /// Run one replica in the foreground
    Serve(ReplicaArguments),
    /// Look at a running cluster
    #[command(
        subcommand,
        after_help = "Examples:\n  quorate cluster wait --config cluster.json\n  quorate cluster status --config cluster.json"
    )]
    Cluster(ClusterCommand),
    /// Look at a data directory without changing it
    #[command(
        subcommand,
        after_help = "Examples:\n  quorate wal check quorate-data/replica-1\n  quorate wal dump quorate-data/replica-1"
    )]
    Wal(WalCommand),
    /// Make load and measure
    #[command(
        subcommand,
        after_help = "Examples:\n  quorate perf load --cluster cluster.json\n  quorate perf limit   (needs no cluster)"
    )]
    Perf(PerfCommand),
    /// Run the shipped code under seeds, with faults, and look for broken promises
    Simulate(SimulateArguments),
}

/// Cluster files.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Make the file of a new cluster, with an identity of its own
    New(NewArguments),
    /// Check a file and say everything that is wrong with it
    Check(CheckArguments),
    /// Print the JSON schema of cluster files
    #[command(after_help = "Example:\n  quorate config schema >cluster.schema.json")]
    Schema,
}

/// How a new cluster gets its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ports {
    /// The first block of ports that is free on this machine
    Free,
    /// Exactly those from the base port on; a busy one is an error
    Base,
}

/// What a new cluster is made of.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: four replicas on this machine, on ports that are free\n  \
        quorate config new --template scripts/deploy/config/raft.config --replicas 4 --ports free --out cluster.json",
    group = ArgGroup::new("members").args(["replicas", "hosts"])
)]
pub(crate) struct NewArguments {
    /// Settings to start from: a JSON file, ResilientDB's raft.config included [default: the built-in defaults]
    #[arg(long, value_name = "FILE")]
    pub(crate) template: Option<PathBuf>,
    /// So many replicas, all on this machine
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) replicas: Option<usize>,
    /// One replica on each of these hosts, in this order; a host may be named again [default: the replicas of the template]
    #[arg(long, value_name = "HOST,...", value_delimiter = ',')]
    pub(crate) hosts: Option<Vec<String>>,
    /// Where the ports come from
    #[arg(long, value_enum, default_value = "base")]
    pub(crate) ports: Ports,
    /// Port of the first replica; HTTP ports are 1000 above, RESP ports 2000 above [default: 17000]
    #[arg(long, value_name = "PORT", allow_negative_numbers = true)]
    pub(crate) base_port: Option<u16>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Overwrite a file that is there
    #[arg(long)]
    pub(crate) force: bool,
}

/// What to check.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  quorate config check cluster.json")]
pub(crate) struct CheckArguments {
    /// The file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// It is a template: identity and replicas may be missing
    #[arg(long)]
    pub(crate) template: bool,
}

/// Which replica.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  quorate init --bootstrap --config cluster.json --id 1   (once, unless recovery_enabled is false)\n  \
    quorate serve --config cluster.json --id 1\n\n\
    SIGTERM stops it cleanly: all of the log is synced."
)]
pub(crate) struct ReplicaArguments {
    /// The cluster file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// The replica's id in that file
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) id: u64,
    /// Its data directory [default: what the cluster file says; relative to the working directory if given here]
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// Which data directory.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  quorate init --bootstrap --config cluster.json --id 1")]
pub(crate) struct InitArguments {
    /// The replica belongs to a cluster that has never run; required, so that no running member is made anew by mistake
    #[arg(long, required = true)]
    pub(crate) bootstrap: bool,
    /// Which replica.
    #[command(flatten)]
    pub(crate) replica: ReplicaArguments,
}

/// A running cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Wait until the cluster has a leader, all replicas are connected and a write succeeds
    Wait(WaitArguments),
    /// Show what each replica says of itself; exit code 1 unless all answer and follow one leader
    Status(StatusArguments),
}

/// How long to wait.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  quorate cluster wait --config cluster.json --timeout-s 30")]
pub(crate) struct WaitArguments {
    /// The cluster file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Give up after so many seconds
    #[arg(long, value_name = "S", default_value_t = 30, allow_negative_numbers = true,
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout_s: u64,
}

/// What to show.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  quorate cluster status --config cluster.json --output json")]
pub(crate) struct StatusArguments {
    /// The cluster file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) output: Output,
}

/// How something is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table for people
    Text,
    /// One JSON object for programs
    Json,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_does_not_contradict_itself() {
        Arguments::command().debug_assert();
    }
}
