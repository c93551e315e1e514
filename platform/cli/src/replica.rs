//! `quorate init` and `quorate serve`.

use crate::arguments::{InitArguments, ReplicaArguments};
use crate::exit::{Exit, Failure, say};
use crate::logging;
use quorate_node::ServeOptions;
use quorate_node::serve::{self as node, Initialized, ServeError};

pub(crate) fn initialize(arguments: &InitArguments) -> Result<Exit, Failure> {
    debug_assert!(arguments.bootstrap, "the command line requires it");
    logging::start("error")?;
    match node::initialize(&options(&arguments.replica)).map_err(failure)? {
        Initialized::NothingToMake(directory) => say(format_args!(
            "recovery is off (recovery_enabled is false): nothing to make, and nothing was written in {}",
            directory.display()
        )),
        Initialized::Made { directory, incarnation } => say(format_args!(
            "made the data of replica {} as incarnation {incarnation} in {}",
            arguments.replica.id,
            directory.display()
        )),
    }
    Ok(Exit::Ok)
}

pub(crate) fn serve(arguments: &ReplicaArguments) -> Result<Exit, Failure> {
    logging::start("info")?;
    node::serve(&options(arguments)).map_err(failure)?;
    Ok(Exit::Ok)
}

fn options(arguments: &ReplicaArguments) -> ServeOptions {
    ServeOptions { config: arguments.config.clone(), id: arguments.id, data_directory: arguments.data_dir.clone() }
}

fn failure(error: ServeError) -> Failure {
    Failure::new(error.exit_code() == 2, error)
}
