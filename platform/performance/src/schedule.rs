//! Open loop: when each batch is meant to be sent, whatever became of those before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Shortest sleep of a ticker: batches due within it are sent together.
const TICK_MIN: Duration = Duration::from_micros(100);

/// Evenly spaced times of sending.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    start: Instant,
    interval: Duration,
}

impl Schedule {
    /// Batches of `batch` transactions from `start` on, `rate_per_s` transactions a second in all.
    #[must_use]
    pub fn new(start: Instant, batch: u32, rate_per_s: f64) -> Schedule {
        Schedule { start, interval: Duration::from_secs_f64(f64::from(batch) / rate_per_s) }
    }

    /// When the batch of this number, from 0, is meant to be sent.
    #[must_use]
    pub fn intended(&self, number: u64) -> Instant {
        self.start + Duration::from_secs_f64(self.interval.as_secs_f64() * number as f64)
    }

    /// Batches meant to be sent until `now`.
    #[must_use]
    pub fn due(&self, now: Instant) -> u64 {
        if now < self.start {
            return 0;
        }
        ((now - self.start).as_secs_f64() / self.interval.as_secs_f64()) as u64 + 1
    }
}

/// A thread that wakes a generator when its next batch is due: finer than a runtime's timers, without spinning.
#[derive(Debug)]
pub struct Ticker {
    stop: Arc<AtomicBool>,
    wake: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// A ticker for a schedule.
    #[must_use]
    pub fn new(schedule: Schedule) -> Ticker {
        let (stop, wake) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let (stopped, waker) = (Arc::clone(&stop), Arc::clone(&wake));
        let thread = spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let now = Instant::now();
                let next = schedule.intended(schedule.due(now));
                sleep(next.saturating_duration_since(now).clamp(TICK_MIN, Duration::from_millis(100)));
                if Instant::now() >= next {
                    waker.notify_one();
                }
            }
        });
        Ticker { stop, wake, thread: Some(thread) }
    }

    /// Waits for the next tick. A tick that came before is not lost. Cancelling loses at most one tick.
    pub async fn tick(&self) {
        self.wake.notified().await;
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It neither panics nor sleeps longer than 100 ms.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_even_and_do_not_depend_on_what_was_sent() {
        let start = Instant::now();
        let schedule = Schedule::new(start, 100, 10_000.0);
        assert_eq!(schedule.intended(0), start);
        assert_eq!(schedule.intended(250), start + Duration::from_millis(2_500));
        assert_eq!(schedule.due(start), 1);
        assert_eq!(schedule.due(start + Duration::from_millis(2_505)), 251);
        assert_eq!(schedule.due(start - Duration::from_millis(1)), 0);
    }

    #[tokio::test]
    async fn a_ticker_wakes_for_each_time_or_several_together() {
        let start = Instant::now();
        let schedule = Schedule::new(start, 1, 2_000.0);
        let ticker = Ticker::new(schedule);
        while schedule.due(Instant::now()) < 20 {
            tokio::time::timeout(Duration::from_secs(5), ticker.tick()).await.unwrap();
        }
        assert!(start.elapsed() >= Duration::from_micros(9_500));
    }
}
