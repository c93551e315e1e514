//! The log: to stderr, at the level that `RUST_LOG` says.

use crate::exit::Failure;
use std::io::{self, IsTerminal};
use tracing_subscriber::EnvFilter;

/// Starts it; without `RUST_LOG`, at `level`.
///
/// # Errors
/// `RUST_LOG` is set and cannot be understood.
pub(crate) fn start(level: &str) -> Result<(), Failure> {
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter(std::env::var_os("RUST_LOG"), level)?)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        // A line that cannot be written is lost. To complain of it on the same stderr would end the process: a full disk under
        // the log, or a reader of it that has gone, must not take a replica down.
        .log_internal_errors(false);
    // A second start would be a mistake of ours and changes nothing for the user.
    let _ = subscriber.try_init();
    Ok(())
}

fn filter(given: Option<std::ffi::OsString>, level: &str) -> Result<EnvFilter, Failure> {
    match given {
        Some(given) if !given.is_empty() => {
            let text = given.to_string_lossy();
            EnvFilter::try_new(text.as_ref()).map_err(|error| {
                let allowed = "for example: info, debug, or warn,quorate_raft=debug";
                Failure::bad_input(format_args!("RUST_LOG '{text}': {error}; {allowed}"))
            })
        }
        // The crates of the store on disk have a lot to say of what goes well.
        _ => Ok(EnvFilter::new(format!("{level},fjall=warn,lsm_tree=warn"))),
    }
}
