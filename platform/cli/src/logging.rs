//! The log: to stderr, at the level that `RUST_LOG` says.

use std::io::{self, IsTerminal};
use tracing_subscriber::EnvFilter;

/// Starts it; without `RUST_LOG`, at `level`.
pub(crate) fn start(level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false);
    // A second start would be a mistake of ours and changes nothing for the user.
    let _ = subscriber.try_init();
}
