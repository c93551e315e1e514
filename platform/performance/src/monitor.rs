//! Watches a run from a thread of its own: samples what is in flight, shows progress, reports gaps and changes of the leader as they
//! happen. Independent of the generators' own turns, so that a sample is taken whatever they are doing.

use crate::clock::RunClock;
use crate::gaps::GAP_MS_MIN;
use crate::recording::{Recording, latency_histogram};
use crate::schedule::Schedule;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between two samples, in the mean. Each is between half and one and a half of it, or load that comes at even times would always be
/// seen at the same moment of its own.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Takes lines of progress.
pub type Progress = Box<dyn FnMut(&str) + Send>;

/// One generator as it is watched.
#[derive(Clone, Debug)]
pub struct Watched {
    /// Its account.
    pub recording: Arc<Recording>,
    /// When its batches are due, in open loop.
    pub schedule: Option<Schedule>,
}

/// Samples of what is in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    sum: u64,
    sum_of_squares: u128,
    count: u64,
}

impl Samples {
    /// Adds one.
    pub fn add(&mut self, value: u64) {
        self.sum += value;
        self.sum_of_squares += u128::from(value) * u128::from(value);
        self.count += 1;
    }

    /// Their mean; none without a sample.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// How far their mean may be from the true one by chance: its standard error.
    #[must_use]
    pub fn standard_error(&self) -> f64 {
        let (Some(mean), count) = (self.mean(), self.count as f64) else { return 0.0 };
        let variance = (self.sum_of_squares as f64 / count - mean * mean).max(0.0);
        (variance / count).sqrt()
    }
}

/// Watches until `done`; gives the samples of the measurement. Blocks.
#[must_use]
pub fn watch(clock: &RunClock, watched: &[Watched], done: &AtomicBool, mut progress: Progress) -> Samples {
    let mut monitor = Monitor::new(clock, watched);
    let mut next_progress = clock.start() + PROGRESS_INTERVAL;
    while !done.load(Ordering::Relaxed) {
        sleep(SAMPLE_INTERVAL.mul_f64(rand::random_range(0.5..1.5)));
        let now = Instant::now();
        monitor.look(now, &mut progress);
        if now >= next_progress {
            monitor.show(now, &mut progress);
            next_progress += PROGRESS_INTERVAL;
        }
    }
    monitor.samples
}

struct Monitor<'a> {
    clock: &'a RunClock,
    watched: &'a [Watched],
    samples: Samples,
    shown: Instant,
    leader: u32,
    /// The last answer before the gap that is being reported.
    gap_since: Option<Duration>,
}

impl<'a> Monitor<'a> {
    fn new(clock: &'a RunClock, watched: &'a [Watched]) -> Monitor<'a> {
        let shown = clock.start();
        Monitor { clock, watched, samples: Samples::default(), shown, leader: 0, gap_since: None }
    }

    /// In flight now; in open loop also what is due and was not sent.
    fn in_flight(&self, now: Instant) -> u64 {
        let of = |watched: &Watched| {
            let unsent = watched
                .schedule
                .map_or(0, |schedule| schedule.due(now).saturating_sub(watched.recording.issued_in_all()));
            watched.recording.in_flight() + unsent
        };
        self.watched.iter().map(of).sum()
    }

    fn look(&mut self, now: Instant, progress: &mut Progress) {
        let in_flight = self.in_flight(now);
        if self.clock.measured_ms(now).is_some() {
            self.samples.add(in_flight);
        }
        let leader = self.watched.iter().map(|watched| watched.recording.leader()).find(|leader| *leader != 0);
        if let Some(leader) = leader
            && leader != self.leader
        {
            if self.leader != 0 {
                progress(&format!("replica {leader} leads now, after replica {}", self.leader));
            }
            self.leader = leader;
        }
        self.look_for_gap(now, in_flight, progress);
    }

    fn look_for_gap(&mut self, now: Instant, in_flight: u64, progress: &mut Progress) {
        let Some(last) = self.watched.iter().map(|watched| watched.recording.last_answer()).max() else { return };
        let since_start = now.saturating_duration_since(self.clock.start());
        match self.gap_since {
            None if in_flight > 0 && (since_start.saturating_sub(last)).as_secs_f64() * 1_000.0 > GAP_MS_MIN => {
                progress(&format!("no answer since {:.1} s, with {in_flight} batches in flight", last.as_secs_f64()));
                self.gap_since = Some(last);
            }
            Some(since) if last > since => {
                let length = (last - since).as_secs_f64();
                progress(&format!("answers again after a gap of {length:.2} s"));
                self.gap_since = None;
            }
            _ => {}
        }
    }

    fn show(&mut self, now: Instant, progress: &mut Progress) {
        let mut histogram = latency_histogram();
        let mut transactions = 0;
        for watched in self.watched {
            let interval = watched.recording.take_interval();
            transactions += interval.transactions;
            // Both have the same bounds.
            let _ = histogram.add(&interval.histogram);
        }
        let seconds = now.saturating_duration_since(self.shown).as_secs_f64().max(1e-9);
        self.shown = now;
        let refused: u64 = self.watched.iter().map(|watched| watched.recording.refused_in_all()).sum();
        let errors: u64 = self.watched.iter().map(|watched| watched.recording.errors()).sum();
        let median = if histogram.is_empty() {
            "-".to_owned()
        } else {
            format!("{:.3} ms", histogram.value_at_quantile(0.5) as f64 / 1_000.0)
        };
        let phase = if now < self.clock.measure_from() {
            "warm-up"
        } else if now < self.clock.end() {
            "run"
        } else {
            "drain"
        };
        progress(&format!(
            "{:>5.0} s {phase:<7} {:>10.0} txn/s  in flight {:>6}  p50 {median}  refused {refused}  errors {errors}",
            now.saturating_duration_since(self.clock.start()).as_secs_f64(),
            transactions as f64 / seconds,
            self.in_flight(now),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[test]
    fn gaps_and_leader_changes_are_reported_as_they_happen_and_samples_cover_the_measurement_only() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let clock = Arc::new(RunClock::new(start, Duration::from_millis(100), Duration::from_secs(10)));
        let recording = Arc::new(Recording::new(Arc::clone(&clock)));
        let watched = [Watched { recording: Arc::clone(&recording), schedule: None }];
        let mut monitor = Monitor::new(&clock, &watched);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let mut progress: Progress = Box::new({
            let lines = Arc::clone(&lines);
            move |line| lines.lock().push(line.to_owned())
        });
        (0..3).for_each(|_| recording.issued());
        recording.leads(1);
        monitor.look(at(50), &mut progress);
        recording.answered(at(150), Duration::from_millis(1), 1);
        monitor.look(at(160), &mut progress);
        monitor.look(at(350), &mut progress);
        assert_eq!(lines.lock().len(), 0);
        monitor.look(at(351), &mut progress);
        monitor.look(at(400), &mut progress);
        recording.leads(2);
        recording.answered(at(700), Duration::from_millis(1), 1);
        monitor.look(at(710), &mut progress);
        let expected = [
            "no answer since 0.1 s, with 2 batches in flight",
            "replica 2 leads now, after replica 1",
            "answers again after a gap of 0.55 s",
        ];
        assert_eq!(lines.lock()[..], expected);
        assert_eq!(monitor.samples, Samples { sum: 2 + 2 + 2 + 2 + 1, sum_of_squares: 17, count: 5 });
        monitor.show(at(1_000), &mut progress);
        let shown = lines.lock().last().cloned().unwrap();
        assert!(shown.contains("run") && shown.contains("2 txn/s") && shown.contains("p50 1.0"), "{shown}");
    }

    #[test]
    fn with_a_rate_what_is_due_and_was_not_sent_is_in_flight() {
        let start = Instant::now();
        let clock = Arc::new(RunClock::new(start, Duration::ZERO, Duration::from_secs(10)));
        let recording = Arc::new(Recording::new(Arc::clone(&clock)));
        recording.issued();
        let schedule = Some(Schedule::new(start, 1, 10.0));
        let watched = [Watched { recording, schedule }];
        assert_eq!(Monitor::new(&clock, &watched).in_flight(start + Duration::from_millis(350)), 4);
        assert_eq!(Samples::default().mean(), None, "no sample is no zero");
    }

    #[test]
    fn the_standard_error_shrinks_with_the_samples() {
        let mut samples = Samples::default();
        (0..100).for_each(|number| samples.add(number % 2));
        assert_eq!((samples.mean(), samples.standard_error()), (Some(0.5), 0.05));
        let mut steady = Samples::default();
        (0..100).for_each(|_| steady.add(7));
        assert_eq!(steady.standard_error(), 0.0);
    }
}
