//! The monotonic clock of a replica.

use quorate_framework::Time;
use std::time::Duration;
use tokio::time::Instant;

/// Gives the time since it was made; all times of one replica come from one clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    /// The time now: never zero, which means "at once" where a deadline is given.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed().max(Duration::from_nanos(1))
    }

    /// The moment of a time, for a timer.
    #[must_use]
    pub fn instant(&self, time: Time) -> Instant {
        self.origin + time.since(Time::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_only_grow_and_come_back_from_their_moment() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(first > Time::ZERO && clock.now() >= first);
        let later = first + Duration::from_millis(7);
        assert_eq!(clock.instant(later) - clock.instant(first), Duration::from_millis(7));
    }
}
