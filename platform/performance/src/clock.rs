//! The phases of a run: warm-up, measurement, the rest. All threads of a run share one clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When a run begins, is measured, and ends.
#[derive(Debug)]
pub struct RunClock {
    start: Instant,
    warm_up: Duration,
    /// End of the measurement since `start`, in nanoseconds; an early end makes it smaller.
    end_ns: AtomicU64,
    planned_ns: u64,
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl RunClock {
    /// A run that begins at `start`.
    #[must_use]
    pub fn new(start: Instant, warm_up: Duration, duration: Duration) -> RunClock {
        let planned_ns = nanoseconds(warm_up + duration);
        RunClock { start, warm_up, end_ns: AtomicU64::new(planned_ns), planned_ns }
    }

    /// When the load begins.
    #[must_use]
    pub fn start(&self) -> Instant {
        self.start
    }

    /// When the measurement begins.
    #[must_use]
    pub fn measure_from(&self) -> Instant {
        self.start + self.warm_up
    }

    /// When the measurement ends.
    #[must_use]
    pub fn end(&self) -> Instant {
        self.start + Duration::from_nanos(self.end_ns.load(Ordering::Relaxed))
    }

    /// Ends the run now, if it has not ended.
    pub fn end_early(&self, now: Instant) {
        self.end_ns.fetch_min(nanoseconds(now.saturating_duration_since(self.start)), Ordering::Relaxed);
    }

    /// Whether it was ended before its planned end.
    #[must_use]
    pub fn was_ended_early(&self) -> bool {
        self.end_ns.load(Ordering::Relaxed) < self.planned_ns
    }

    /// Milliseconds since the measurement began, if `now` lies in it.
    #[must_use]
    pub fn measured_ms(&self, now: Instant) -> Option<f64> {
        let from = self.measure_from();
        (now >= from && now < self.end()).then(|| (now - from).as_secs_f64() * 1_000.0)
    }

    /// Length of the measurement; zero if it was ended during the warm-up.
    #[must_use]
    pub fn measured(&self) -> Duration {
        self.end().saturating_duration_since(self.measure_from())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_and_what_follows_the_end_are_not_measured_and_an_early_end_shortens() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let clock = RunClock::new(start, Duration::from_millis(100), Duration::from_millis(400));
        assert_eq!((clock.measured_ms(at(99)), clock.measured_ms(at(100))), (None, Some(0.0)));
        assert_eq!((clock.measured_ms(at(499)), clock.measured_ms(at(500))), (Some(399.0), None));
        clock.end_early(at(900));
        assert!(!clock.was_ended_early());
        clock.end_early(at(300));
        assert_eq!((clock.measured(), clock.measured_ms(at(300))), (Duration::from_millis(200), None));
        assert!(clock.was_ended_early());
        clock.end_early(at(50));
        assert_eq!(clock.measured(), Duration::ZERO);
    }
}
