//! `quorate perf store`.

use super::result::ResultArguments;
use super::stopped::{OK, Stopped, bad_inputs, failed, stop_on_interrupt, tell};
use clap::Args;
use quorate_performance::monitor::Progress;
use quorate_performance::store::{self, StoreInput, StorePlan, render};
use std::path::PathBuf;

/// The stores alone.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quorate perf store --keys 1000000 --dir data\n  \
    quorate perf store --store lsm --quick\n\n\
    Each store is filled with keys of 24 bytes and values of 100; then batches of 100 puts of keys that are there, reads of keys that\n\
    are there, and reads of keys that are not, by one thread. Nothing is synced: the log is the authority. A batch that takes longer\n\
    than 10 ms has met a stall: the store on disk was behind with writing out or merging.")]
pub(crate) struct StoreArguments {
    /// Which stores: memory, lsm [default: both]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', allow_hyphen_values = true)]
    store: Vec<String>,
    /// Keys [default: 10000]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    keys: Option<String>,
    /// Bytes of a value [default: 100]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    value_size: Option<String>,
    /// Puts of a batch [default: 100]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    batch: Option<String>,
    /// Seconds of each phase [default: 1; with --quick 0.2]
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    duration: Option<String>,
    /// Runs of each store, interleaved; the table shows the median [default: 3; with --quick 1]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    repeat: Option<String>,
    /// A short run
    #[arg(long)]
    quick: bool,
    /// Where the files of the store on disk are made, in a folder of their own that is removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Where the result goes.
    #[command(flatten)]
    result: ResultArguments,
}

pub(super) fn run(arguments: StoreArguments) -> Result<u8, Stopped> {
    let StoreArguments { store, keys, value_size, batch, duration, repeat, quick, dir, result: place } = arguments;
    let input = StoreInput { stores: store, keys, value_size, batch, duration, repeat, quick };
    let plan = StorePlan::new(&input, dir).map_err(|errors| bad_inputs(&errors))?;
    place.check()?;
    let progress: Progress = Box::new(tell);
    let result = store::run(&plan, &stop_on_interrupt(), progress).map_err(failed)?;
    place.give(&result, || render(&result))?;
    Ok(OK)
}
