//! `quorate perf transport`.

use super::result::ResultArguments;
use super::stopped::{OK, Stopped, bad_inputs, failed, tell};
use clap::Args;
use quorate_performance::transport::{self, TransportInput, TransportPlan, render};

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
    /// Where the result goes.
    #[command(flatten)]
    result: ResultArguments,
}

pub(super) fn run(arguments: TransportArguments) -> Result<u8, Stopped> {
    let TransportArguments { size, outstanding, duration, warm_up, result: place } = arguments;
    let input = TransportInput { duration, warm_up, size, outstanding };
    let plan = TransportPlan::new(&input).map_err(|errors| bad_inputs(&errors))?;
    place.check()?;
    let seconds = (plan.warm_up + plan.duration).as_secs_f64();
    tell(&format!("frames of {} bytes, {} on their way, for {seconds:.1} s", plan.size_bytes, plan.outstanding));
    let result = transport::run(&plan).map_err(failed)?;
    place.give(&result, || render(&result))?;
    Ok(OK)
}
