//! Where a result goes.

use super::stopped::{FAILED, INCONCLUSIVE, OK, Stopped, bad_input, failed, tell};
use crate::exit::say_all;
use clap::{Args, ValueEnum};
use quorate_performance::plan::check_output;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PerfOutput {
    /// Lines for people
    Text,
    /// One JSON object for programs
    Json,
}

/// Where the result goes: the last options of every measurement.
#[derive(Debug, Args)]
pub(super) struct ResultArguments {
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    output: PerfOutput,
}

impl ResultArguments {
    /// Checks before anything is measured that the file can be written.
    pub(super) fn check(&self) -> Result<(), Stopped> {
        check_file("--json", self.json.as_deref())
    }

    /// Writes and prints a result; `text` is what people read.
    pub(super) fn give(&self, result: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Stopped> {
        self.give_json(serde_json::to_string_pretty(result).map_err(failed)? + "\n", text)
    }

    /// Like [`ResultArguments::give`], of a result that has its JSON already.
    pub(super) fn give_json(&self, json: String, text: impl FnOnce() -> String) -> Result<(), Stopped> {
        write_file(&json, self.json.as_deref())?;
        say_all(&match self.output {
            PerfOutput::Text => text(),
            PerfOutput::Json => json,
        });
        Ok(())
    }
}

/// Says by the code whether a result may be quoted, and on stderr why not.
pub(super) fn verdict(valid: bool, invalid_because: &[String]) -> u8 {
    if valid {
        return OK;
    }
    invalid_because.iter().for_each(|reason| tell(&format!("not valid: {reason}")));
    INCONCLUSIVE
}

/// Checks that the file of an option can be written.
pub(super) fn check_file(option: &'static str, file: Option<&Path>) -> Result<(), Stopped> {
    file.map_or(Ok(()), |path| check_output(option, path)).map_err(bad_input)
}

/// Writes a file whole or not at all.
pub(super) fn write_file(text: &str, path: Option<&Path>) -> Result<(), Stopped> {
    let Some(path) = path else { return Ok(()) };
    let partial = path.with_extension(format!("partial-{}", std::process::id()));
    let written = fs::write(&partial, text).and_then(|()| fs::rename(&partial, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&partial);
        Stopped { code: FAILED, text: format!("the result could not be written to {}: {error}", path.display()) }
    })
}
