//! `quorate cluster`: what the replicas of a running cluster say of themselves.

mod poll;
mod status;
mod wait;

use crate::arguments::ClusterCommand;
use crate::exit::{Exit, Failure};
use crate::logging;
use quorate_config::{ClusterConfig, load_cluster};
use std::path::Path;

pub(crate) fn run(command: ClusterCommand) -> Result<Exit, Failure> {
    logging::start("error")?;
    match command {
        ClusterCommand::Wait(arguments) => wait::run(&arguments),
        ClusterCommand::Status(arguments) => status::run(&arguments),
    }
}

fn load(path: &Path) -> Result<ClusterConfig, Failure> {
    load_cluster(path).map(|accepted| accepted.config).map_err(Failure::bad_input)
}
