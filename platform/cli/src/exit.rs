//! How the command ends.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit codes of the command. Where a start or a look at a data directory is refused, the errors themselves say which of 1 and 2 it
/// is, by `is_bad_input`: damaged or lost data, a disk, or a port or directory in use is a failure; the wrong directory, id, settings or
/// program is bad input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Ok = 0,
    /// What was asked for is right, and it did not work.
    Failed = 1,
    /// What the user typed or configured must change first.
    BadInput = 2,
    /// Tried, and it may have worked.
    OutcomeUnknown = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// A message for the user and the exit code that goes with it.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    text: String,
}

impl Failure {
    /// Bad input, or something that did not work.
    pub(crate) fn new(is_bad_input: bool, text: impl Display) -> Failure {
        if is_bad_input { Failure::bad_input(text) } else { Failure::failed(text) }
    }

    /// Something was tried and did not work.
    pub(crate) fn failed(text: impl Display) -> Failure {
        Failure { exit: Exit::Failed, text: text.to_string() }
    }

    /// Nothing was tried.
    pub(crate) fn bad_input(text: impl Display) -> Failure {
        Failure { exit: Exit::BadInput, text: text.to_string() }
    }

    /// It was tried, and nobody knows.
    pub(crate) fn unknown(text: impl Display) -> Failure {
        Failure { exit: Exit::OutcomeUnknown, text: text.to_string() }
    }

    /// Writes each line of the message to stderr as an error of its own.
    pub(crate) fn report(&self) -> ExitCode {
        for line in self.text.lines() {
            // If nobody reads stderr the exit code still says it.
            let _ = writeln!(io::stderr(), "error: {line}");
        }
        self.exit.into()
    }
}

/// Whether something could not be written to stdout although somebody was there to read it.
static OUTPUT_FAILED: AtomicBool = AtomicBool::new(false);

/// Writes a line to stdout.
pub(crate) fn say(text: impl Display) {
    say_all(&format!("{text}\n"));
}

/// Writes text to stdout. A reader that has gone, as in `quorate … | head`, is no error worth a message; anything else, such as a full
/// disk, is told once, and `output_is_whole` then says no.
pub(crate) fn say_all(text: &str) {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe && !OUTPUT_FAILED.swap(true, Ordering::Relaxed) => {
            let _ = writeln!(io::stderr(), "error: the output could not be written: {error}");
        }
        _ => {}
    }
}

/// Whether all that was said could be written, or nobody was there to read it.
pub(crate) fn output_is_whole() -> bool {
    !OUTPUT_FAILED.load(Ordering::Relaxed)
}
