//! `quorate perf merge`.

use super::result::{ResultArguments, verdict};
use super::stopped::{Stopped, bad_input, failed};
use clap::Args;
use quorate_performance::merge::merge;
use quorate_performance::text::{render, to_json};
use std::fs;
use std::path::PathBuf;

/// Results to merge.
#[derive(Debug, Args)]
#[command(
    mut_arg("json", |json| json.help("Write the merged result as JSON to this file")),
    after_help = "Example:\n  quorate perf merge client-1.json client-2.json --json result.json"
)]
pub(crate) struct MergeArguments {
    /// The results
    #[arg(value_name = "FILE", required = true)]
    results: Vec<PathBuf>,
    /// Where the merged one goes.
    #[command(flatten)]
    result: ResultArguments,
}

pub(super) fn run(arguments: &MergeArguments) -> Result<u8, Stopped> {
    arguments.result.check()?;
    let mut parts = Vec::new();
    for path in &arguments.results {
        let name = path.display().to_string();
        let bytes = fs::read(path).map_err(|error| bad_input(format!("{name}: {error}")))?;
        let result = serde_json::from_slice(&bytes)
            .map_err(|error| bad_input(format!("{name}: no result of quorate perf load: {error}")))?;
        parts.push((name, result));
    }
    let merged = merge(&parts).map_err(failed)?;
    arguments.result.give_json(to_json(&merged).map_err(failed)?, || render(&merged))?;
    Ok(verdict(merged.valid, &merged.invalid_because))
}
