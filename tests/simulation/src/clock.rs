//! A replica's clock.

use quorate_framework::Time;
use std::time::Duration;

/// Monotonic, but fast or slow, and now and then it jumps ahead.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Speed, in parts per thousand of true time.
    rate: u64,
    /// How far it has jumped.
    jumped: Duration,
}

impl Clock {
    /// A clock of this speed, in parts per thousand of true time.
    #[must_use]
    pub fn new(rate: u64) -> Clock {
        Clock { rate, jumped: Duration::ZERO }
    }

    /// What it shows at a true time.
    #[must_use]
    pub fn local(&self, now: Time) -> Time {
        Time(now.0 / 1_000 * self.rate) + self.jumped
    }

    /// The true time at which it shows at least `local`.
    #[must_use]
    pub fn when(&self, local: Time) -> Time {
        Time(((local - self.jumped).0 / self.rate + 1) * 1_000)
    }

    /// Jumps ahead.
    pub fn jump(&mut self, by: Duration) {
        self.jumped += by;
    }
}
