//! ResilientDB's experiment as a [`PerformanceManager`]: batches under a window, closed loop, or open loop with a rate.
//!
//! ResilientDB makes millions of requests ahead and bounds them with a semaphore. Here the window itself is the semaphore: a batch is
//! made when its slot is free, so none is ever ahead, and a batch that ends, however it ends, gives its slot back.

use crate::clock::RunClock;
use crate::recording::Recording;
use crate::schedule::{Schedule, Ticker};
use crate::workload::BatchMaker;
use async_trait::async_trait;
use quorate_framework::{LoadBatch, LoadFigures, PerformanceManager, ReplicaId, Status};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Commands made ahead of their submit at most, beyond a first batch: making them takes time in which their slots are taken already,
/// and which their latency, counted from the submit, does not hold.
const COMMANDS_AHEAD: usize = 64;

/// How a generator is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowedLoadOptions {
    /// Batches in flight at most.
    pub window: u64,
    /// Commands in a batch.
    pub batch: u32,
}

#[derive(Debug)]
struct OpenLoop {
    schedule: Schedule,
    ticker: Ticker,
}

/// One generator's load.
#[derive(Debug)]
pub struct WindowedLoad {
    options: WindowedLoadOptions,
    maker: BatchMaker,
    clock: Arc<RunClock>,
    recording: Arc<Recording>,
    open_loop: Option<OpenLoop>,
    next_number: u64,
    /// The lowest number that may be in flight.
    first_number: u64,
    /// For each number from there on, while it is in flight: when it was made, and how late that was.
    sent: VecDeque<Option<(Instant, Duration)>>,
    in_flight: u64,
    figures: LoadFigures,
}

impl WindowedLoad {
    /// A closed loop, or with a schedule an open one.
    #[must_use]
    pub fn new(
        options: WindowedLoadOptions,
        maker: BatchMaker,
        clock: Arc<RunClock>,
        recording: Arc<Recording>,
        schedule: Option<Schedule>,
    ) -> WindowedLoad {
        let open_loop = schedule.map(|schedule| OpenLoop { schedule, ticker: Ticker::new(schedule) });
        WindowedLoad {
            options,
            maker,
            clock,
            recording,
            open_loop,
            next_number: 0,
            first_number: 0,
            sent: VecDeque::new(),
            in_flight: 0,
            figures: LoadFigures::default(),
        }
    }

    /// Takes a number out of flight and gives when it was made and how late that was; none if it is not in flight, so that nothing
    /// counts twice.
    fn end(&mut self, number: u64) -> Option<(Instant, Duration)> {
        let place = usize::try_from(number.checked_sub(self.first_number)?).ok()?;
        let sent = self.sent.get_mut(place)?.take()?;
        self.in_flight -= 1;
        while let Some(None) = self.sent.front() {
            self.sent.pop_front();
            self.first_number += 1;
        }
        Some(sent)
    }

    /// Waits until a batch may go out and gives the time; none at the end of the run.
    async fn wait_for_slot(&mut self) -> Option<Instant> {
        let mut now = Instant::now();
        if now >= self.clock.end() {
            return None;
        }
        if self.in_flight >= self.options.window {
            // An answer needs this manager, so whoever brings it drops this wait first.
            tokio::time::sleep_until(self.clock.end().into()).await;
            return None;
        }
        if let Some(OpenLoop { schedule, ticker }) = &self.open_loop {
            let intended = schedule.intended(self.next_number);
            while now < intended {
                if now >= self.clock.end() {
                    return None;
                }
                ticker.tick().await;
                now = Instant::now();
            }
        }
        Some(now)
    }

    /// How late the next batch is at `now`; none if its time has not come.
    fn lateness(&self, now: Instant) -> Option<Duration> {
        match &self.open_loop {
            None => Some(Duration::ZERO),
            Some(OpenLoop { schedule, .. }) => now.checked_duration_since(schedule.intended(self.next_number)),
        }
    }
}

#[async_trait]
impl PerformanceManager for WindowedLoad {
    async fn next_batches(&mut self, most: usize, batches: &mut Vec<LoadBatch>) -> bool {
        let Some(now) = self.wait_for_slot().await else { return false };
        let room = usize::try_from(self.options.window - self.in_flight).unwrap_or(usize::MAX);
        let ahead = (COMMANDS_AHEAD / (self.options.batch as usize).max(1)).max(1);
        for _ in 0..most.min(room).min(ahead) {
            let Some(late) = self.lateness(now) else { break };
            let number = self.next_number;
            self.next_number += 1;
            self.sent.push_back(Some((now, late)));
            self.in_flight += 1;
            self.recording.issued();
            batches.push(LoadBatch { number, count: self.options.batch, body: self.maker.next_body() });
        }
        true
    }

    fn on_reply(&mut self, number: u64, status: Status, latency: Duration) {
        let Some((made, late)) = self.end(number) else { return };
        if status == Status::Ok {
            self.figures.accepted += u64::from(self.options.batch);
            // From the time it was meant to be sent: a stall is not hidden by sending less during it.
            self.recording.answered(made + latency, late + latency, u64::from(self.options.batch));
        } else {
            self.figures.errors += 1;
            self.recording.failed();
        }
    }

    fn on_redirect(&mut self, _number: u64, to: Option<ReplicaId>) {
        let _ = to;
        self.figures.refused += 1;
        self.figures.retried += 1;
        self.recording.refused();
    }

    fn on_lost(&mut self, number: u64) {
        if self.end(number).is_some() {
            self.figures.errors += 1;
            self.recording.failed();
        }
    }

    fn figures(&self) -> LoadFigures {
        LoadFigures { in_flight: self.in_flight, ..self.figures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Distribution, Workload};
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn load(window: u64, rate: Option<f64>) -> (WindowedLoad, Arc<Recording>) {
        load_of(2, window, rate)
    }

    fn load_of(batch: u32, window: u64, rate: Option<f64>) -> (WindowedLoad, Arc<Recording>) {
        let workload =
            Workload { keys: 10, value_size_bytes: 1, read_share: 0.0, distribution: Distribution::Uniform, batch };
        let clock = Arc::new(RunClock::new(Instant::now(), Duration::ZERO, Duration::from_secs(3_600)));
        let recording = Arc::new(Recording::new(Arc::clone(&clock)));
        let schedule = rate.map(|rate| Schedule::new(clock.start(), batch, rate));
        let options = WindowedLoadOptions { window, batch };
        let maker = BatchMaker::new(workload, 1);
        (WindowedLoad::new(options, maker, clock, Arc::clone(&recording), schedule), recording)
    }

    fn now_or_never<F: Future>(future: F) -> Option<F::Output> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// Takes batches two at a time until none may go out.
    fn numbers(load: &mut WindowedLoad) -> Vec<u64> {
        let mut batches = Vec::new();
        while now_or_never(load.next_batches(2, &mut batches)) == Some(true) {}
        batches.iter().map(|batch| batch.number).collect()
    }

    async fn next_number(load: &mut WindowedLoad) -> Option<u64> {
        let mut batches = Vec::new();
        let goes_on = load.next_batches(1, &mut batches).await;
        assert_eq!(batches.len(), usize::from(goes_on));
        batches.pop().map(|batch| batch.number)
    }

    #[tokio::test]
    async fn the_window_bounds_what_is_in_flight_and_every_end_gives_one_slot_back() {
        let (mut load, recording) = load(3, None);
        assert_eq!(numbers(&mut load), [0, 1, 2]);
        load.on_redirect(1, None);
        assert_eq!(numbers(&mut load), Vec::<u64>::new(), "a refused batch keeps its slot");
        load.on_lost(1);
        assert_eq!(numbers(&mut load), [3], "a lost one gives it back");
        load.on_reply(0, Status::Ok, Duration::from_millis(1));
        load.on_reply(2, Status::Invalid, Duration::from_millis(1));
        assert_eq!(numbers(&mut load), [4, 5]);
        load.on_lost(0);
        load.on_reply(2, Status::Ok, Duration::from_millis(1));
        load.on_reply(99, Status::Ok, Duration::from_millis(1));
        assert_eq!(numbers(&mut load), Vec::<u64>::new(), "what has ended cannot end again");
        let figures = LoadFigures { accepted: 2, refused: 1, retried: 1, errors: 2, in_flight: 3 };
        assert_eq!(load.figures(), figures);
        assert_eq!((recording.in_flight(), recording.errors(), recording.refused_in_all()), (3, 2, 1));
    }

    #[tokio::test]
    async fn small_batches_come_in_groups_and_large_ones_one_by_one() {
        for (batch, group) in [(1, 64), (2, 32), (33, 1), (100, 1)] {
            let (mut load, _) = load_of(batch, 1_000, None);
            let mut batches = Vec::new();
            assert!(load.next_batches(500, &mut batches).await);
            assert_eq!((batches.len(), load.figures().in_flight), (group, group as u64), "batches of {batch}");
        }
    }

    #[tokio::test]
    async fn the_end_of_the_run_ends_the_batches_also_for_one_who_waits_for_a_slot() {
        let (mut load, _) = load(1, None);
        assert_eq!(numbers(&mut load), [0]);
        load.clock.end_early(Instant::now() + Duration::from_millis(20));
        assert_eq!(next_number(&mut load).await, None);
        load.on_lost(0);
        assert_eq!(next_number(&mut load).await, None);
    }

    #[tokio::test]
    async fn with_a_rate_latency_runs_from_the_intended_time_however_late_the_window_let_it_go() {
        let (mut load, recording) = load(1, Some(200.0));
        assert_eq!(next_number(&mut load).await, Some(0));
        let start = load.clock.start();
        while start.elapsed() < Duration::from_millis(60) {
            tokio::task::yield_now().await;
        }
        load.on_reply(0, Status::Ok, Duration::from_millis(60));
        // The batch of 10 ms goes out now, 50 ms late, and is answered at once.
        assert_eq!(next_number(&mut load).await, Some(1));
        load.on_reply(1, Status::Ok, Duration::from_millis(1));
        let (measured, _) = recording.finish();
        assert!(measured.histogram.min() >= 51_000, "{} µs", measured.histogram.min());
    }
}
