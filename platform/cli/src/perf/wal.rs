//! `quorate perf wal`.

use super::result::{ResultArguments, check_file, write_file};
use super::stopped::{OK, Stopped, bad_inputs, failed, stop_on_interrupt, tell};
use clap::Args;
use quorate_performance::monitor::Progress;
use quorate_performance::wal::{self, WalInput, WalPlan, render_report, render_tables};
use std::path::PathBuf;

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
    /// Where the result goes.
    #[command(flatten)]
    result: ResultArguments,
}

pub(super) fn run(arguments: WalArguments) -> Result<u8, Stopped> {
    let WalArguments { dir, operations, size, repeat, quick, markdown, result: place } = arguments;
    let input = WalInput { operations, size, repeat, quick };
    let plan = WalPlan::new(&input, dir).map_err(|errors| bad_inputs(&errors))?;
    check_file("--markdown", markdown.as_deref())?;
    place.check()?;
    let progress: Progress = Box::new(tell);
    let result = wal::run(&plan, &stop_on_interrupt(), progress).map_err(failed)?;
    write_file(&render_report(&result), markdown.as_deref())?;
    place.give(&result, || render_tables(&result))?;
    Ok(OK)
}
