//! A timer that is seldom set: deadlines mostly move away, and an alarm that rings too early costs less than setting it again and
//! again.

use std::pin::Pin;
use tokio::time::{Instant, Sleep, sleep_until};

/// Rings at or before the wanted moment, never later than the timer's millisecond.
#[derive(Debug)]
pub(super) struct Alarm {
    sleep: Pin<Box<Sleep>>,
    set_to: Option<Instant>,
}

impl Alarm {
    pub(super) fn new() -> Alarm {
        Alarm { sleep: Box::pin(sleep_until(Instant::now())), set_to: None }
    }

    /// The same if there is a moment, otherwise for ever.
    pub(super) async fn ring_at_if(&mut self, at: Option<Instant>) {
        match at {
            Some(at) => self.ring_at(at).await,
            None => std::future::pending().await,
        }
    }

    /// Waits until `at`, or a shorter time. Cancelling loses nothing.
    pub(super) async fn ring_at(&mut self, at: Instant) {
        if self.set_to.is_none_or(|earlier| earlier > at) {
            self.sleep.as_mut().reset(at);
            self.set_to = Some(at);
        }
        self.sleep.as_mut().await;
        self.set_to = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn it_rings_early_once_and_then_at_the_moment_that_moved_away() {
        let mut alarm = Alarm::new();
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let cancelled = timeout(Duration::from_millis(5), alarm.ring_at(after(20))).await;
        assert!(cancelled.is_err());
        alarm.ring_at(after(90)).await;
        assert_eq!(Instant::now(), after(20), "the moment set before");
        alarm.ring_at(after(90)).await;
        assert_eq!(Instant::now(), after(90));
    }

    #[tokio::test(start_paused = true)]
    async fn a_moment_that_came_nearer_is_kept() {
        let mut alarm = Alarm::new();
        let start = Instant::now();
        let cancelled = timeout(Duration::from_millis(1), alarm.ring_at(start + Duration::from_millis(500))).await;
        assert!(cancelled.is_err());
        alarm.ring_at(start + Duration::from_millis(30)).await;
        assert_eq!(start.elapsed(), Duration::from_millis(30));
    }
}
