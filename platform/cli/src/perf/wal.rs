//! `quorate perf wal`.

use super::{
    FAILED, OK, PerfOutput, Stopped, bad_inputs, check_file, print, stop_on_interrupt, stopped, tell, write_file,
};
use clap::Args;
use quorate_performance::monitor::Progress;
use quorate_performance::wal::{self, WalInput, WalPlan, render_report, render_tables};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The write-ahead log alone.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quorate perf wal --dir data --markdown wal.md --json wal.json\n  \
    quorate perf wal --quick\n\n\
    The flush batch experiment: 10,240 operations of 256 bytes are submitted to the log, then all are awaited, without a wait for a\n\
    group and with 1, 2 and 5 ms, in groups of up to 256 to 4,096; beside it the device alone, the device behind one channel and one\n\
    future an operation, and one operation at a time. What is printed are the tables in Markdown; --markdown has the histograms too.")]
pub(crate) struct WalArguments {
    /// Where the files are made, in a folder of their own that is removed at the end: the device is what is measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Operations of a case [default: 10240; with --quick 2048]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    operations: Option<String>,
    /// Bytes of an operation [default: 256]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    size: Option<String>,
    /// Runs of each case, interleaved; tables show the median [default: 3; with --quick 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    repeat: Option<String>,
    /// A short run with a smaller grid
    #[arg(long)]
    quick: bool,
    /// Write the whole report with its histograms to this file
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    output: PerfOutput,
}

pub(super) fn run(arguments: WalArguments) -> Result<u8, Stopped> {
    let WalArguments { dir, operations, size, repeat, quick, markdown, json, output } = arguments;
    let input = WalInput { operations, size, repeat, quick };
    let plan = WalPlan::new(&input, dir).map_err(|errors| bad_inputs(&errors))?;
    check_file("--markdown", markdown.as_deref())?;
    check_file("--json", json.as_deref())?;
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_interrupt(Arc::clone(&stop));
    let progress: Progress = Box::new(tell);
    let result = wal::run(&plan, &stop, progress).map_err(|error| error.to_string()).map_err(stopped(FAILED))?;
    let text =
        serde_json::to_string_pretty(&result).map_err(|error| error.to_string()).map_err(stopped(FAILED))? + "\n";
    write_file(&render_report(&result), markdown.as_deref())?;
    write_file(&text, json.as_deref())?;
    print(&text, output, || render_tables(&result));
    Ok(OK)
}
