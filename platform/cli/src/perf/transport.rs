//! `quorate perf transport`.

use super::{FAILED, OK, PerfOutput, Stopped, bad_inputs, check_json, print, stopped, tell, write_file};
use clap::Args;
use quorate_performance::transport::{self, TransportInput, TransportPlan, render};
use std::path::PathBuf;

/// The transport alone.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quorate perf transport\n  \
    quorate perf transport --size 100 --outstanding 1     (one frame at a time: the round trip itself)\n  \
    quorate perf transport --size 1048576 --outstanding 8 (throughput in bytes)\n\n\
    Two replicas' communicators as they are shipped, on loopback TCP, each on a thread and a runtime of its own in this process:\n\
    one sends frames, the other sends each of them back. Processor time and system calls are those of both ends.")]
pub(crate) struct TransportArguments {
    /// Bytes of a frame's body [default: 1024]
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    size: Option<String>,
    /// Frames sent and not yet come back, at most [default: 64]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    outstanding: Option<String>,
    /// Seconds measured [default: 10]
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    duration: Option<String>,
    /// Seconds before that, not measured [default: 1]
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    warm_up: Option<String>,
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value = "text")]
    output: PerfOutput,
}

pub(super) fn run(arguments: TransportArguments) -> Result<u8, Stopped> {
    let TransportArguments { size, outstanding, duration, warm_up, json, output } = arguments;
    let input = TransportInput { duration, warm_up, size, outstanding };
    let plan = TransportPlan::new(&input).map_err(|errors| bad_inputs(&errors))?;
    check_json(json.as_deref())?;
    let seconds = (plan.warm_up + plan.duration).as_secs_f64();
    tell(&format!("frames of {} bytes, {} on their way, for {seconds:.1} s", plan.size_bytes, plan.outstanding));
    let result = transport::run(&plan).map_err(|error| error.to_string()).map_err(stopped(FAILED))?;
    let text =
        serde_json::to_string_pretty(&result).map_err(|error| error.to_string()).map_err(stopped(FAILED))? + "\n";
    write_file(&text, json.as_deref())?;
    print(&text, output, || render(&result));
    Ok(OK)
}
