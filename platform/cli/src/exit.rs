//! How the command ends.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit codes of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Ok = 0,
    /// Tried, and it did not work.
    Failed = 1,
    /// Not tried: the user must change something first.
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

/// Writes a line to stdout. A reader that has gone, as in `quorate … | head`, is no error worth a message.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(io::stdout(), "{text}");
}
