//! What one case of the experiment gives.

use serde::Serialize;
use std::time::{Duration, Instant};

/// Upper bounds of the histogram's buckets, in microseconds; the last bucket has none.
pub const BUCKETS_US: [u64; 13] =
    [100, 250, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 250_000, 500_000, 1_000_000];

/// A group of operations that one sync made durable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    /// Operations in it.
    pub(super) operations: u64,
    /// When gathering it began: the end of the group before.
    pub(super) gathered_from: Instant,
    /// When writing it began.
    pub(super) write_began: Instant,
    pub(super) write: Duration,
    /// Bytes written, padding included.
    pub(super) bytes: u64,
    /// None if nothing was synced.
    pub(super) sync: Option<Duration>,
    pub(super) ended: Instant,
}

/// An operation's way: when it was submitted, and when its waiter was told.
pub(super) type Way = (Instant, Instant);

/// What a case has left.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) elapsed: Duration,
    /// In the order of submission.
    pub(super) ways: Vec<Way>,
    pub(super) groups: Vec<Group>,
}

/// Mean and maximum, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MeanAndMaxUs {
    /// Arithmetic mean.
    pub mean: f64,
    /// Largest.
    pub max: f64,
}

impl MeanAndMaxUs {
    fn of(times: impl Iterator<Item = Duration>) -> MeanAndMaxUs {
        let (mut sum, mut max, mut count) = (0.0, 0.0_f64, 0_u32);
        for time in times {
            let time_us = microseconds(time);
            sum += time_us;
            max = max.max(time_us);
            count += 1;
        }
        MeanAndMaxUs { mean: sum / f64::from(count.max(1)), max }
    }
}

/// Latencies, exact, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencyUs {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl LatencyUs {
    /// Of at least one time; sorts them.
    pub(super) fn of(times: &mut [Duration]) -> LatencyUs {
        times.sort_unstable();
        let at = |per_cent: usize| microseconds(times[(times.len() * per_cent).div_ceil(100).max(1) - 1]);
        let sum: f64 = times.iter().copied().map(microseconds).sum();
        LatencyUs { mean: sum / times.len() as f64, p50: at(50), p90: at(90), p99: at(99), max: at(100) }
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Median with the least and the greatest of several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MedianAndRange {
    /// Median; of an even number the lower of the middle two.
    pub median: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
}

impl MedianAndRange {
    /// Of at least one value.
    pub(crate) fn of(mut values: Vec<f64>) -> MedianAndRange {
        values.sort_unstable_by(f64::total_cmp);
        MedianAndRange { median: values[(values.len() - 1) / 2], min: values[0], max: values[values.len() - 1] }
    }
}

/// Who wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// The write-ahead log as it is shipped.
    Log,
    /// One thread that builds groups, writes and syncs them: no queue, nobody waits. A limit.
    Raw,
    /// The same with one channel and one future an operation: like for like.
    FairRaw,
}

/// One row of the report: the figures of the run with the median rate, and the rates of all runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WalCase {
    /// Its name, as in the report.
    pub case: String,
    /// Who wrote.
    pub writer: Writer,
    /// How long a group's first operation waits for others, in microseconds; null without such a wait.
    pub wait_us: Option<u64>,
    /// Operations in a group at most.
    pub batch: usize,
    /// Operations.
    pub operations: u64,
    /// From the first submit until all were told, in milliseconds.
    pub elapsed_ms: f64,
    /// Operations a second.
    pub qps: MedianAndRange,
    /// From an operation's submit until its waiter is told.
    pub latency_us: LatencyUs,
    /// Groups.
    pub batches: u64,
    /// Groups that were synced.
    pub sync_batches: u64,
    /// Operations of a group, the mean.
    pub writes_per_batch: f64,
    /// Operations of the largest group.
    pub max_batch: u64,
    /// Time of a sync.
    pub sync_us: MeanAndMaxUs,
    /// Time in which a group was gathered: from the end of the one before until writing it began.
    pub group_us: MeanAndMaxUs,
    /// Bytes written, padding included.
    pub write_bytes: u64,
    /// The longest time from an operation's submit until writing its group began, in microseconds.
    pub queued_wait_us_max: f64,
    /// The longest write, in microseconds.
    pub write_us_max: f64,
    /// The longest write with its sync, in microseconds.
    pub batch_us_max: f64,
    /// Operations by latency: upper bound of the bucket in microseconds (null for the last) and how many.
    pub histogram: Vec<(Option<u64>, u64)>,
}

/// Names a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CaseName {
    pub(super) writer: Writer,
    pub(super) wait: Option<Duration>,
    pub(super) batch: usize,
}

impl CaseName {
    fn text(self) -> String {
        let batch = self.batch;
        match (self.writer, self.wait) {
            (Writer::Raw, _) => format!("raw_batch_{batch}"),
            (Writer::FairRaw, _) => format!("fair_raw_batch_{batch}"),
            (Writer::Log, None) => format!("no_wait_batch_{batch}"),
            (Writer::Log, Some(wait)) => format!("wait_{}us_batch_{batch}", wait.as_micros()),
        }
    }
}

impl WalCase {
    /// Of at least one run; each has at least one operation.
    pub(super) fn new(name: CaseName, mut runs: Vec<Measured>) -> WalCase {
        let rate = |run: &Measured| run.ways.len() as f64 / run.elapsed.as_secs_f64();
        runs.sort_unstable_by(|one, other| rate(one).total_cmp(&rate(other)));
        let qps = MedianAndRange::of(runs.iter().map(rate).collect());
        let run = runs.swap_remove((runs.len() - 1) / 2);
        let mut latencies: Vec<Duration> = run.ways.iter().map(|(submitted, told)| *told - *submitted).collect();
        let histogram = histogram(&latencies);
        let groups = &run.groups;
        let operations = run.ways.len() as u64;
        let longest = |time: &dyn Fn(&Group) -> Duration| {
            groups.iter().map(|group| microseconds(time(group))).fold(0.0, f64::max)
        };
        WalCase {
            case: name.text(),
            writer: name.writer,
            wait_us: name.wait.map(|wait| wait.as_micros() as u64),
            batch: name.batch,
            operations,
            elapsed_ms: run.elapsed.as_secs_f64() * 1e3,
            qps,
            latency_us: LatencyUs::of(&mut latencies),
            batches: groups.len() as u64,
            sync_batches: groups.iter().filter(|group| group.sync.is_some()).count() as u64,
            writes_per_batch: operations as f64 / groups.len().max(1) as f64,
            max_batch: groups.iter().map(|group| group.operations).max().unwrap_or(0),
            sync_us: MeanAndMaxUs::of(groups.iter().filter_map(|group| group.sync)),
            group_us: MeanAndMaxUs::of(
                groups.iter().map(|group| group.write_began.saturating_duration_since(group.gathered_from)),
            ),
            write_bytes: groups.iter().map(|group| group.bytes).sum(),
            queued_wait_us_max: queued_wait_us_max(&run),
            write_us_max: longest(&|group| group.write),
            batch_us_max: longest(&|group| group.ended - group.write_began),
            histogram,
        }
    }
}

fn queued_wait_us_max(run: &Measured) -> f64 {
    let mut ways = run.ways.iter();
    let mut longest = Duration::ZERO;
    for group in &run.groups {
        // The first operation of a group has waited longest.
        let mut of_group = ways.by_ref().take(group.operations as usize);
        if let Some((submitted, _)) = of_group.next() {
            longest = longest.max(group.write_began.saturating_duration_since(*submitted));
        }
        of_group.for_each(drop);
    }
    microseconds(longest)
}

fn histogram(latencies: &[Duration]) -> Vec<(Option<u64>, u64)> {
    let mut counts = [0; BUCKETS_US.len() + 1];
    for latency in latencies {
        // In whole microseconds, rounded up, as the bounds are inclusive.
        let time_us = latency.as_nanos().div_ceil(1_000);
        let bucket = BUCKETS_US.iter().position(|bound| time_us <= u128::from(*bound)).unwrap_or(BUCKETS_US.len());
        counts[bucket] += 1;
    }
    BUCKETS_US.iter().map(|bound| Some(*bound)).chain([None]).zip(counts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six operations at once in groups of four and two; a group is gathered in 10 µs, written in 20 µs and synced in 100 µs.
    fn run(scale: u32) -> Measured {
        let start = Instant::now();
        let at = |time_us: u64| start + Duration::from_micros(time_us) * scale;
        let group = |operations, from| Group {
            operations,
            gathered_from: at(from),
            write_began: at(from + 10),
            write: Duration::from_micros(20) * scale,
            bytes: 4_096,
            sync: Some(Duration::from_micros(100) * scale),
            ended: at(from + 130),
        };
        let ways = (0..6).map(|number| (start, at(if number < 4 { 130 } else { 260 }))).collect();
        Measured { elapsed: at(260) - start, ways, groups: vec![group(4, 0), group(2, 130)] }
    }

    #[test]
    fn a_row_has_the_figures_of_the_run_with_the_median_rate_and_the_range_of_all() {
        let name = CaseName { writer: Writer::Log, wait: Some(Duration::from_millis(2)), batch: 4 };
        let case = WalCase::new(name, vec![run(4), run(1), run(2)]);
        assert_eq!(case.case, "wait_2000us_batch_4");
        assert!((case.elapsed_ms - 0.52).abs() < 1e-9, "{case:?}");
        let rate = |scale: f64| 6.0 / (260e-6 * scale);
        for (is, expected) in [(case.qps.median, rate(2.0)), (case.qps.min, rate(4.0)), (case.qps.max, rate(1.0))] {
            assert!((is - expected).abs() < 1e-3, "{is} {expected}");
        }
        assert_eq!((case.batches, case.sync_batches, case.max_batch, case.writes_per_batch), (2, 2, 4, 3.0));
        let near = |is: f64, expected: f64| assert!((is - expected).abs() < 1e-6, "{is} {expected}");
        near(case.sync_us.mean, 200.0);
        near(case.group_us.max, 20.0);
        near(case.write_us_max, 40.0);
        near(case.batch_us_max, 240.0);
        near(case.queued_wait_us_max, 280.0);
        near(case.latency_us.p50, 260.0);
        near(case.latency_us.p99, 520.0);
        near(case.latency_us.mean, (4.0 * 260.0 + 2.0 * 520.0) / 6.0);
        assert_eq!(case.write_bytes, 8_192);
    }

    #[test]
    fn every_operation_is_in_one_bucket_and_bounds_are_inclusive() {
        let times: Vec<Duration> = [0, 100_000, 100_001, 250_000, 1_000_000_001].map(Duration::from_nanos).to_vec();
        let counts = histogram(&times);
        assert_eq!((counts[0], counts[1]), ((Some(100), 2), (Some(250), 2)));
        assert_eq!(counts[13], (None, 1));
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), 5);
    }
}
