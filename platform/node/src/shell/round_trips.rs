//! Round trips to peers, as the protocol's heartbeats measure them.

use quorate_framework::Observation;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;

/// Measurements kept one by one; older ones are left in the histogram only.
const KEPT: usize = 4_096;
/// Buckets of the histogram for each doubling of the time: none is wider than a thirty-second part of its times.
const BUCKETS_PER_DOUBLING: u64 = 32;
/// Longest time that has a bucket of its own, in microseconds: about two minutes. What is longer is counted with it.
const LONGEST_US: u64 = (1 << 27) - 1;

/// What the measurements say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundTripFigures {
    /// Median of the last few thousand, in milliseconds.
    pub p50: f64,
    /// 99th percentile of the same, in milliseconds.
    pub p99: f64,
    /// 99.9th percentile of the same, in milliseconds.
    pub p99_9: f64,
    /// Longest of the same, in milliseconds.
    pub max: f64,
    /// Measurements since the process began.
    pub count: u64,
    /// All of them as [microseconds, measurements]: so many took no longer than that and longer than the item before. What two of
    /// these differ by is what was measured in between.
    pub histogram_us: Vec<(u64, u64)>,
}

/// The measurements over all peers.
#[derive(Debug, Default)]
pub struct RoundTrips {
    kept: VecDeque<Duration>,
    count: u64,
    buckets: Vec<u64>,
}

/// The bucket of a time.
fn bucket(micros: u64) -> usize {
    let micros = micros.min(LONGEST_US);
    let doublings = (micros / BUCKETS_PER_DOUBLING).checked_ilog2().map_or(0, |power| u64::from(power) + 1);
    let within = if doublings == 0 { micros } else { (micros >> (doublings - 1)) - BUCKETS_PER_DOUBLING };
    (doublings * BUCKETS_PER_DOUBLING + within) as usize
}

/// The longest time of a bucket, in microseconds.
fn longest_of(bucket: usize) -> u64 {
    let (doublings, within) = (bucket as u64 / BUCKETS_PER_DOUBLING, bucket as u64 % BUCKETS_PER_DOUBLING);
    if doublings == 0 { within } else { ((BUCKETS_PER_DOUBLING + within + 1) << (doublings - 1)) - 1 }
}

impl RoundTrips {
    /// Takes what the protocol has observed.
    pub fn observe(&mut self, observation: Observation) {
        let Observation::RoundTrip { duration, .. } = observation;
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(duration);
        self.count += 1;
        let bucket = bucket(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
    }

    /// The figures; none before the first measurement. Sorts, so not for every turn.
    #[must_use]
    pub fn figures(&self) -> Option<RoundTripFigures> {
        let mut sorted: Vec<Duration> = self.kept.iter().copied().collect();
        sorted.sort_unstable();
        let at = |per_mille: usize| {
            let rank = (sorted.len() * per_mille).div_ceil(1_000).max(1);
            Some(sorted.get(rank - 1)?.as_nanos() as f64 / 1e6)
        };
        let counted = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        let histogram_us = counted.map(|(bucket, count)| (longest_of(bucket), *count)).collect();
        let (p50, p99, p99_9, max) = (at(500)?, at(990)?, at(999)?, at(1_000)?);
        Some(RoundTripFigures { p50, p99, p99_9, max, count: self.count, histogram_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_framework::ReplicaId;

    fn observe(trips: &mut RoundTrips, range: std::ops::Range<u64>) {
        for micros in range {
            let duration = Duration::from_micros(micros);
            trips.observe(Observation::RoundTrip { peer: ReplicaId(2), duration });
        }
    }

    #[test]
    fn percentiles_are_of_the_kept_ones_and_count_and_histogram_are_of_all() {
        let mut trips = RoundTrips::default();
        assert_eq!(trips.figures(), None);
        observe(&mut trips, 1..1_001);
        let figures = trips.figures().unwrap();
        assert_eq!((figures.p50, figures.p99, figures.p99_9, figures.max), (0.5, 0.99, 0.999, 1.0));
        observe(&mut trips, 10_000..10_000 + KEPT as u64);
        let figures = trips.figures().unwrap();
        assert!(figures.p50 > 10.0 && figures.count == 1_000 + KEPT as u64, "{figures:?}");
        let up_to_1_ms: u64 =
            figures.histogram_us.iter().filter(|(micros, _)| *micros <= 1_023).map(|(_, count)| count).sum();
        assert_eq!(up_to_1_ms, 1_000, "older ones stay in the histogram");
        assert_eq!(figures.histogram_us.iter().map(|(_, count)| count).sum::<u64>(), figures.count);
    }

    #[test]
    fn each_time_lies_in_one_narrow_bucket_and_the_buckets_follow_each_other() {
        for micros in (0..5_000).chain([65_535, 65_536, 1_000_000, LONGEST_US - 1, LONGEST_US]) {
            let (place, longest) = (bucket(micros), longest_of(bucket(micros)));
            assert!(longest >= micros && longest - micros <= micros / 32, "{micros} is counted as {longest}");
            assert!(place == 0 || longest_of(place - 1) < micros, "{micros} belongs into a bucket before");
        }
        assert_eq!(bucket(u64::MAX), bucket(LONGEST_US));
    }
}
