//! The account of one generator, shared with whoever shows progress.

use crate::clock::RunClock;
use crate::gaps::{Gap, GapFinder};
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest latency told apart, in microseconds: one hour.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// A histogram of latencies in microseconds, with three significant digits.
///
/// # Panics
/// Never: the bounds are constants.
#[must_use]
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("constant bounds are valid")
}

/// Latency in whole microseconds, rounded; at least one.
pub(crate) fn microseconds(latency: Duration) -> u64 {
    u64::try_from((latency.as_nanos() + 500) / 1_000).unwrap_or(u64::MAX).max(1)
}

/// What one generator has measured.
#[derive(Debug)]
pub struct Measured {
    /// Latency of each batch answered in the measurement, in microseconds.
    pub histogram: Histogram<u64>,
    /// The exact sum of these latencies.
    pub latency_sum: Duration,
    /// Batches answered `Ok` in the measurement.
    pub batches: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Transactions answered `Ok` since the start, warm-up included.
    pub transactions_in_all: u64,
    /// Latencies since progress was last shown.
    interval: Histogram<u64>,
    interval_transactions: u64,
    gaps: GapFinder,
}

impl Measured {
    fn empty() -> Measured {
        Measured {
            histogram: latency_histogram(),
            latency_sum: Duration::ZERO,
            batches: 0,
            transactions: 0,
            transactions_in_all: 0,
            interval: latency_histogram(),
            interval_transactions: 0,
            gaps: GapFinder::default(),
        }
    }
}

/// Shared between a generator and those who watch it.
#[derive(Debug)]
pub struct Recording {
    clock: Arc<RunClock>,
    measured: Mutex<Measured>,
    in_flight: AtomicU64,
    issued: AtomicU64,
    /// Nanoseconds from the start of the run to the last answer.
    last_answer_ns: AtomicU64,
    refused: AtomicU64,
    errors: AtomicU64,
    leader: AtomicU64,
    retried: AtomicU64,
    leader_changes: AtomicU64,
}

/// What happened since progress was last shown.
#[derive(Debug)]
pub struct Interval {
    /// Latencies in microseconds.
    pub histogram: Histogram<u64>,
    /// Transactions answered.
    pub transactions: u64,
}

impl Recording {
    /// An empty account.
    #[must_use]
    pub fn new(clock: Arc<RunClock>) -> Recording {
        Recording {
            clock,
            measured: Mutex::new(Measured::empty()),
            in_flight: AtomicU64::new(0),
            issued: AtomicU64::new(0),
            last_answer_ns: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            leader: AtomicU64::new(0),
            retried: AtomicU64::new(0),
            leader_changes: AtomicU64::new(0),
        }
    }

    /// A batch goes out.
    pub fn issued(&self) {
        self.issued.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// A batch was answered `Ok`.
    pub fn answered(&self, now: Instant, latency: Duration, transactions: u64) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        let since_start = now.saturating_duration_since(self.clock.start());
        self.last_answer_ns.store(u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let mut measured = self.measured.lock();
        let value = microseconds(latency);
        measured.transactions_in_all += transactions;
        measured.interval.saturating_record(value);
        measured.interval_transactions += transactions;
        if let Some(now_ms) = self.clock.measured_ms(now) {
            measured.histogram.saturating_record(value);
            measured.latency_sum += latency;
            measured.batches += 1;
            measured.transactions += transactions;
            measured.gaps.answered(now_ms);
        }
    }

    /// A batch ended otherwise.
    pub fn failed(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// An attempt was refused.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A replica has proven to lead.
    pub fn leads(&self, replica: u32) {
        self.leader.store(u64::from(replica), Ordering::Relaxed);
    }

    /// What the client has counted: attempts beyond the first, changes of the leader.
    pub fn counted(&self, retried: u64, leader_changes: u64) {
        self.retried.store(retried, Ordering::Relaxed);
        self.leader_changes.store(leader_changes, Ordering::Relaxed);
    }

    /// Attempts beyond the first since the start.
    #[must_use]
    pub fn retried_in_all(&self) -> u64 {
        self.retried.load(Ordering::Relaxed)
    }

    /// Changes of the leader since the start.
    #[must_use]
    pub fn leader_changes(&self) -> u64 {
        self.leader_changes.load(Ordering::Relaxed)
    }

    /// Batches in flight.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Batches that went out since the start.
    #[must_use]
    pub fn issued_in_all(&self) -> u64 {
        self.issued.load(Ordering::Relaxed)
    }

    /// Attempts refused since the start.
    #[must_use]
    pub fn refused_in_all(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Batches that ended otherwise than `Ok` since the start.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Transactions answered `Ok` since the start.
    #[must_use]
    pub fn transactions_in_all(&self) -> u64 {
        self.measured.lock().transactions_in_all
    }

    /// The replica that has last proven to lead; 0 if none has.
    #[must_use]
    pub fn leader(&self) -> u32 {
        self.leader.load(Ordering::Relaxed) as u32
    }

    /// Time of the last answer since the start of the run.
    #[must_use]
    pub fn last_answer(&self) -> Duration {
        Duration::from_nanos(self.last_answer_ns.load(Ordering::Relaxed))
    }

    /// What happened since this was last called.
    #[must_use]
    pub fn take_interval(&self) -> Interval {
        let mut measured = self.measured.lock();
        let histogram = measured.interval.clone();
        measured.interval.reset();
        Interval { histogram, transactions: std::mem::take(&mut measured.interval_transactions) }
    }

    /// The final figures and gaps, once the generator is done.
    #[must_use]
    pub fn finish(&self) -> (Measured, Vec<Gap>) {
        let measured = std::mem::replace(&mut *self.measured.lock(), Measured::empty());
        let gaps = measured.gaps.clone().finish(self.clock.measured().as_secs_f64() * 1_000.0);
        (measured, gaps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_measurement_counts_but_progress_sees_all() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let clock = Arc::new(RunClock::new(start, Duration::from_millis(100), Duration::from_millis(1_000)));
        let recording = Recording::new(clock);
        for (ms, latency_us) in [(50, 7), (100, 1_000), (600, 3_000), (1_100, 9_000)] {
            recording.issued();
            recording.answered(at(ms), Duration::from_micros(latency_us), 100);
        }
        recording.issued();
        recording.failed();
        assert_eq!((recording.in_flight(), recording.errors(), recording.issued_in_all()), (0, 1, 5));
        let interval = recording.take_interval();
        assert_eq!((interval.transactions, interval.histogram.len()), (400, 4));
        assert_eq!(recording.take_interval().transactions, 0);
        assert_eq!(recording.last_answer(), Duration::from_millis(1_100));
        let (measured, gaps) = recording.finish();
        assert_eq!((measured.batches, measured.transactions, measured.transactions_in_all), (2, 200, 400));
        assert_eq!(measured.latency_sum, Duration::from_millis(4));
        assert_eq!((measured.histogram.len(), measured.histogram.max()), (2, 3_001.min(measured.histogram.max())));
        let gaps: Vec<_> = gaps.iter().map(|gap| (gap.start_ms, gap.length_ms)).collect();
        assert_eq!(gaps, [(0.0, 500.0), (500.0, 500.0)]);
    }

    #[test]
    fn latencies_are_rounded_to_microseconds_and_never_zero() {
        assert_eq!(microseconds(Duration::from_nanos(1_499)), 1);
        assert_eq!(microseconds(Duration::from_nanos(1_500)), 2);
        assert_eq!(microseconds(Duration::ZERO), 1);
    }
}
