//! The `quorate` command: a thin command line over the crates that do the work.
//!
//! Exit codes: 0 ok, 1 failed, 2 bad input, 3 inconclusive, 4 outcome unknown.

mod arguments;
mod cluster;
mod config;
mod exit;
mod logging;
mod one_line;
mod perf;
mod replica;
mod simulate;
mod wal;

use arguments::{Arguments, Command};
use clap::Parser;
use exit::{Exit, Failure};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return one_line::report(&error),
    };
    let code = match run(arguments.command) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    };
    if exit::output_is_whole() { code } else { Exit::Failed.into() }
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    let exit = match command {
        Command::Config(command) => config::run(command)?,
        Command::Init(command) => replica::initialize(&command)?,
        Command::Serve(command) => replica::serve(&command)?,
        Command::Cluster(command) => cluster::run(command)?,
        Command::Simulate(command) => simulate::run(&command)?,
        Command::Wal(command) => wal::run(&command)?,
        Command::Perf(command) => {
            logging::start("warn")?;
            return Ok(perf::run(command));
        }
    };
    Ok(exit.into())
}
