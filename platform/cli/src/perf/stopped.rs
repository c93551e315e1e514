//! How a measurement ends, and what is said on stderr meanwhile.

use quorate_performance::plan::InputError;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

pub(super) const OK: u8 = 0;
pub(super) const FAILED: u8 = 1;
pub(super) const BAD_INPUT: u8 = 2;
pub(super) const INCONCLUSIVE: u8 = 3;

/// Ends a command: a code and the lines for stderr.
pub(super) struct Stopped {
    pub(super) code: u8,
    pub(super) text: String,
}

pub(super) fn failed(error: impl Display) -> Stopped {
    Stopped { code: FAILED, text: error.to_string() }
}

pub(super) fn bad_input(error: impl Display) -> Stopped {
    Stopped { code: BAD_INPUT, text: error.to_string() }
}

/// Every fault in a line of its own.
pub(super) fn bad_inputs(errors: &[InputError]) -> Stopped {
    bad_input(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// A line on stderr; nobody reading it is no error.
pub(super) fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// What a run looks at: Ctrl-C ends it early with what it has; a second one ends the program.
pub(super) fn stop_on_interrupt() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let interrupted = Arc::clone(&stop);
    let wait = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if interrupted.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
                tell("ending early; press Ctrl-C again to end at once");
            }
        });
    };
    // Without the thread Ctrl-C ends the program at once, as it would anyway.
    let _ = thread::Builder::new().name("interrupt".into()).spawn(wait);
    stop
}
