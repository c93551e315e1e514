//! The transport alone: two replicas' communicators as they are shipped, on loopback TCP, each on a runtime and a thread of its own.
//! One sends frames, the other sends each of them back. No consensus, no log, no execution.
//!
//! Both live in this process: the kernel's part of the way is that between two processes, and the processor time of the process is
//! that of both ends and of nothing else.

mod endpoint;

use crate::host::{HostFacts, load_average};
use crate::judge::latencies;
use crate::options::{InputError, OptionReader, SECONDS_MAX};
use crate::result::{LatencyMs, LoadAverage};
use endpoint::{Endpoint, echo, exchange};
use quorate_communicator::bounds::PEER_LANES;
use quorate_framework::{Lane, ReplicaId, limits};
use serde::Serialize;
use std::io;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// Bytes of a message on the wire and in the lanes beside its body, at most.
const BESIDE_BODY_BYTES: u64 = 64;
const NEAR: ReplicaId = ReplicaId(1);
const FAR: ReplicaId = ReplicaId(2);

/// The options as they stand on the command line; absent ones have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransportInput {
    /// Seconds measured.
    pub duration: Option<String>,
    /// Seconds of warm-up.
    pub warm_up: Option<String>,
    /// Bytes of a body.
    pub size: Option<String>,
    /// Frames on their way.
    pub outstanding: Option<String>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransportPlan {
    /// Length of the measurement.
    pub duration: Duration,
    /// Length of the warm-up.
    pub warm_up: Duration,
    /// Bytes of each message's body.
    pub size_bytes: usize,
    /// Messages sent and not yet come back, at most.
    pub outstanding: usize,
}

impl TransportPlan {
    /// Checks the options.
    ///
    /// # Errors
    /// Every fault found.
    pub fn new(input: &TransportInput) -> Result<TransportPlan, Vec<InputError>> {
        let mut reader = OptionReader::default();
        let seconds = "a number of seconds";
        let run_s = limits::PERFORMANCE_RUN_S as f64;
        let duration = reader.real("--duration", input.duration.as_ref(), run_s, (0.1, SECONDS_MAX), seconds);
        let warm_up = reader.real("--warm-up", input.warm_up.as_ref(), 1.0, (0.0, SECONDS_MAX), seconds);
        let size = reader.whole("--size", input.size.as_ref(), 1_024, 0, limits::PAYLOAD_BYTES as u64);
        let lane = PEER_LANES[Lane::Replication as usize];
        let outstanding = reader.whole("--outstanding", input.outstanding.as_ref(), 64, 1, lane.messages as u64);
        let room = lane.bytes as u64 / (size + BESIDE_BODY_BYTES);
        if outstanding > room.max(1) {
            let problem = format!("of messages of {size} bytes a connection between replicas takes {room}");
            reader.error("--outstanding", outstanding, problem);
        }
        reader.finish(TransportPlan {
            duration: Duration::from_secs_f64(duration),
            warm_up: Duration::from_secs_f64(warm_up),
            size_bytes: size as usize,
            outstanding: outstanding as usize,
        })
    }
}

/// What the transport does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransportResult {
    /// Always `transport`.
    pub experiment: &'static str,
    /// Messages sent and come back a second.
    pub round_trips_per_s: f64,
    /// From handing a message to the communicator to having it back.
    pub latency_ms: LatencyMs,
    /// Processor time of both ends for a frame, in microseconds; a round trip is two frames, or twice as many as a long message has
    /// parts.
    pub cpu_us_per_frame: f64,
    /// System calls that read or write the connection, of both ends, per 1,000 frames.
    pub socket_calls_per_1000_frames: f64,
    /// Bodies in both directions, in MiB a second.
    pub mib_per_s: f64,
    /// Round trips measured.
    pub round_trips: u64,
    /// Bytes of a body.
    pub size_bytes: usize,
    /// Messages on their way at most.
    pub outstanding: usize,
    /// Length of the measurement, in seconds.
    pub duration_s: f64,
    /// Length of the warm-up before it, in seconds.
    pub warm_up_s: f64,
    /// Load average.
    pub load_average: LoadAverage,
    /// This machine.
    pub host: HostFacts,
    /// Version of this program.
    pub version: &'static str,
    /// Commit it was built from, if the build was told.
    pub commit: Option<&'static str>,
}

/// The transport could not be measured.
#[derive(Debug, Error)]
pub enum TransportError {
    /// This machine did not give what it needs.
    #[error("this machine cannot run the experiment: {0}")]
    Machine(#[from] io::Error),
    /// The two ends did not connect.
    #[error("the two ends did not connect within {0:?}")]
    NotConnected(Duration),
    /// The connection ended.
    #[error("the connection ended: {0}")]
    Ended(String),
    /// Nothing came back.
    #[error("nothing came back for {0:?}")]
    Stalled(Duration),
    /// What came back is not what was sent; a fault of the transport.
    #[error("message {expected} was expected back, and came otherwise: {what}")]
    Wrong {
        /// Its number.
        expected: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// No time to measure anything.
    #[error("no samples: nothing came back in the time given")]
    NoSamples,
    /// A thread ended unexpectedly; a fault of this program.
    #[error("a thread ended unexpectedly")]
    Thread,
}

/// Measures. Blocks for the plan's warm-up and duration.
///
/// # Errors
/// [`TransportError`].
pub fn run(plan: &TransportPlan) -> Result<TransportResult, TransportError> {
    let before = load_average();
    let listeners = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    let addresses = [listeners[0].local_addr()?.to_string(), listeners[1].local_addr()?.to_string()];
    let [near, far] = listeners;
    let [near_address, far_address] = addresses;
    let near = Endpoint { replica: NEAR, peer: FAR, listener: near, peer_address: far_address };
    let far = Endpoint { replica: FAR, peer: NEAR, listener: far, peer_address: near_address };
    let (traffic, far_traffic) = std::sync::mpsc::channel();
    let far = thread::Builder::new().name("far end".into()).spawn(move || echo(far, &traffic))?;
    let measured = exchange(near, plan, &far_traffic);
    // The far end ends with the connection.
    let far = far.join().map_err(|_| TransportError::Thread)?;
    let measured = match (measured, far) {
        (Err(TransportError::Thread), Err(error)) => return Err(error),
        (measured, _) => measured?,
    };
    let seconds = measured.length.as_secs_f64();
    let round_trips = measured.histogram.len();
    let latency_ms = latencies(&measured.histogram, measured.latency_sum.as_secs_f64() * 1e6);
    let frames = measured.frames as f64;
    let Some(latency_ms) = latency_ms.filter(|_| seconds > 0.0 && frames > 0.0) else {
        return Err(TransportError::NoSamples);
    };
    Ok(TransportResult {
        experiment: "transport",
        round_trips_per_s: round_trips as f64 / seconds,
        latency_ms,
        cpu_us_per_frame: measured.cpu.as_secs_f64() * 1e6 / frames,
        socket_calls_per_1000_frames: measured.socket_calls as f64 * 1_000.0 / frames,
        mib_per_s: (round_trips * 2) as f64 * plan.size_bytes as f64 / f64::from(1 << 20) / seconds,
        round_trips,
        size_bytes: plan.size_bytes,
        outstanding: plan.outstanding,
        duration_s: seconds,
        warm_up_s: plan.warm_up.as_secs_f64(),
        load_average: LoadAverage { before, after: load_average() },
        host: HostFacts::read(),
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("QUORATE_COMMIT"),
    })
}

/// The result as lines of text.
#[must_use]
pub fn render(result: &TransportResult) -> String {
    let latency = &result.latency_ms;
    format!(
        "round trips          {:.0} a second, {} bytes, {} on their way\n\
         latency, ms          mean {:.4}  p50 {:.4}  p99 {:.4}  p99.9 {:.4}  max {:.3}\n\
         bodies               {:.1} MiB/s, both directions\n\
         processor time       {:.3} µs a frame, both ends\n\
         socket calls         {:.1} per 1,000 frames, both ends\n\
         measured             {:.1} s after {:.1} s of warm-up\n",
        result.round_trips_per_s,
        result.size_bytes,
        result.outstanding,
        latency.mean,
        latency.p50,
        latency.p99,
        latency.p99_9,
        latency.max,
        result.mib_per_s,
        result.cpu_us_per_frame,
        result.socket_calls_per_1000_frames,
        result.duration_s,
        result.warm_up_s,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(size_bytes: usize, outstanding: usize) -> TransportResult {
        let (duration, warm_up) = (Duration::from_millis(400), Duration::from_millis(50));
        run(&TransportPlan { duration, warm_up, size_bytes, outstanding }).unwrap()
    }

    #[test]
    fn frames_really_go_there_and_back_and_the_figures_agree_with_each_other() {
        let result = measured(100, 16);
        assert!(result.round_trips > 100 && (result.duration_s - 0.4).abs() < 0.2, "{result:?}");
        assert!((result.round_trips_per_s * result.duration_s - result.round_trips as f64).abs() < 1.0);
        // Little's law: nothing else is on its way.
        let on_their_way = result.round_trips_per_s * result.latency_ms.mean / 1_000.0;
        assert!((on_their_way / 16.0 - 1.0).abs() < 0.15, "{on_their_way} of 16");
        let bytes = result.mib_per_s * result.duration_s * f64::from(1 << 20);
        assert!((bytes - (result.round_trips * 200) as f64).abs() < 1.0);
        // Sixteen that travel together need a write and a read together, and no more than four calls each on their own.
        let calls = result.socket_calls_per_1000_frames;
        assert!(calls > 2_000.0 / 16.0 * 0.9 && calls < 4_000.0, "{calls}");
        assert!(result.cpu_us_per_frame > 0.0);
        assert!(render(&result).contains("100 bytes, 16 on their way"));
    }

    #[test]
    fn one_frame_on_its_way_takes_a_write_and_a_read_each() {
        let result = measured(0, 1);
        let calls = result.socket_calls_per_1000_frames;
        assert!((calls - 2_000.0).abs() < 20.0, "{calls}");
        assert_eq!(result.mib_per_s, 0.0);
    }

    #[test]
    fn a_message_longer_than_a_frame_comes_back_whole() {
        let size = limits::FRAME_BYTES * 2;
        let result = measured(size, 2);
        assert!(result.round_trips > 0 && result.mib_per_s > 1.0, "{result:?}");
    }

    #[test]
    fn what_a_connection_does_not_take_is_refused_by_name() {
        let given = |size: &str, outstanding: &str| {
            let (size, outstanding) = (Some(size.to_owned()), Some(outstanding.to_owned()));
            TransportPlan::new(&TransportInput { size, outstanding, ..TransportInput::default() })
        };
        let named = |result: Result<TransportPlan, Vec<InputError>>| {
            result.unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let expected = ["--outstanding 0: must be a whole number from 1 to 1024, without a unit"];
        assert_eq!(named(given("1", "0")), expected);
        assert!(
            named(given("16777217", "1"))[0].starts_with("--size 16777217: must be a whole number from 0 to 16777216")
        );
        let refused = named(given("1048576", "64"));
        assert_eq!(refused, ["--outstanding 64: of messages of 1048576 bytes a connection between replicas takes 32"]);
        assert!(given("1048576", "32").is_ok() && given("16777216", "1").is_ok());
        assert_eq!(TransportPlan::new(&TransportInput::default()).unwrap().outstanding, 64);
    }
}
