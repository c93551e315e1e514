//! The rate at which snapshots leave, over all connections together.

use quorate_framework::limits;
use std::time::{Duration, Instant};

/// How far the throttle may be behind and catch up: timers are late by a millisecond or more.
const CREDIT: Duration = Duration::from_millis(20);
/// Every connection is given a part at least this many times a second, however slow the rate.
const PARTS_PER_SECOND_AND_CONNECTION: u64 = 1;
/// Bytes of a part at least, however slow the rate.
const PART_BYTES_MIN: usize = 4 << 10;

// At the slowest rate with all connections at work, each is given a part a second.
const _: () = assert!(
    limits::SNAPSHOT_CONNECTIONS as u64 * PARTS_PER_SECOND_AND_CONNECTION * PART_BYTES_MIN as u64
        <= limits::SNAPSHOT_BYTES_PER_SECOND_MIN
);

/// Gives each part its time to leave.
#[derive(Debug)]
pub(crate) struct Throttle {
    bytes_per_second: u64,
    free_at: Option<Instant>,
}

impl Throttle {
    pub(crate) fn new(bytes_per_second: u64) -> Throttle {
        Throttle { bytes_per_second: bytes_per_second.max(limits::SNAPSHOT_BYTES_PER_SECOND_MIN), free_at: None }
    }

    /// Bytes of a part at most when so many connections share the rate: at a slow rate parts are small, so that none waits long for
    /// its turn.
    pub(crate) fn part_bytes(&self, connections: usize) -> usize {
        let share = self.bytes_per_second / (connections.max(1) as u64 * PARTS_PER_SECOND_AND_CONNECTION);
        usize::try_from(share).unwrap_or(usize::MAX).clamp(PART_BYTES_MIN, limits::SNAPSHOT_CHUNK_BYTES)
    }

    /// Takes the turn of a part; it may leave after this pause.
    pub(crate) fn take(&mut self, now: Instant, bytes: usize) -> Duration {
        let earliest = now.checked_sub(CREDIT).unwrap_or(now);
        let turn = self.free_at.map_or(now, |free_at| free_at.max(earliest));
        let nanos = (bytes as u64).saturating_mul(1_000_000_000) / self.bytes_per_second;
        self.free_at = Some(turn + Duration::from_nanos(nanos));
        turn.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1 << 20;
    const PART: usize = 64 << 10;

    #[test]
    fn parts_leave_at_the_rate_and_late_timers_are_caught_up() {
        let mut throttle = Throttle::new(RATE);
        let start = Instant::now();
        let mut now = start;
        for _ in 0..160 {
            // Every pause lasts two milliseconds longer than it should.
            let pause = throttle.take(now, PART);
            now += if pause.is_zero() { pause } else { pause + Duration::from_millis(2) };
        }
        let seconds = (now - start).as_secs_f64();
        assert!((9.9..10.1).contains(&seconds), "ten MiB at one MiB a second: {seconds}");
    }

    #[test]
    fn an_idle_time_is_not_saved_up() {
        let mut throttle = Throttle::new(RATE);
        let start = Instant::now();
        assert_eq!(throttle.take(start, PART), Duration::ZERO);
        let later = start + Duration::from_secs(60);
        let pauses: Duration = (0..4).map(|_| throttle.take(later, PART)).max().expect("four");
        let part = Duration::from_secs_f64(PART as f64 / RATE as f64);
        assert!(pauses >= 3 * part - CREDIT - Duration::from_micros(1), "{pauses:?}");
    }

    #[test]
    fn a_slow_rate_makes_small_parts_and_none_slower_than_the_least_counts() {
        let throttle = Throttle::new(1);
        assert_eq!(throttle.bytes_per_second, limits::SNAPSHOT_BYTES_PER_SECOND_MIN);
        assert_eq!(throttle.part_bytes(8), 8 << 10);
        assert_eq!(Throttle::new(u64::MAX).part_bytes(8), limits::SNAPSHOT_CHUNK_BYTES);
        assert_eq!(throttle.part_bytes(1_000), PART_BYTES_MIN);
    }
}
