//! Round trips to peers, as the protocol's heartbeats measure them.

use quorate_framework::Observation;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;

/// Measurements kept; older ones no longer count.
const KEPT: usize = 4_096;

/// What the kept measurements say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RoundTripFigures {
    /// Median of the kept ones, in milliseconds.
    pub p50: f64,
    /// 99th percentile of the kept ones, in milliseconds.
    pub p99: f64,
    /// Measurements since the process began.
    pub count: u64,
}

/// The last measurements, over all peers.
#[derive(Debug, Default)]
pub struct RoundTrips {
    kept: VecDeque<Duration>,
    count: u64,
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
    }

    /// The figures; none before the first measurement. Sorts, so not for every turn.
    #[must_use]
    pub fn figures(&self) -> Option<RoundTripFigures> {
        let mut sorted: Vec<Duration> = self.kept.iter().copied().collect();
        sorted.sort_unstable();
        let at = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).max(1);
            Some(sorted.get(rank - 1)?.as_nanos() as f64 / 1e6)
        };
        Some(RoundTripFigures { p50: at(50)?, p99: at(99)?, count: self.count })
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
    fn percentiles_are_of_the_kept_ones_and_the_count_is_of_all() {
        let mut trips = RoundTrips::default();
        assert_eq!(trips.figures(), None);
        observe(&mut trips, 1..101);
        assert_eq!(trips.figures(), Some(RoundTripFigures { p50: 0.05, p99: 0.099, count: 100 }));
        observe(&mut trips, 10_000..10_000 + KEPT as u64);
        let figures = trips.figures().unwrap();
        assert!(figures.p50 > 10.0 && figures.count == 100 + KEPT as u64, "{figures:?}");
    }
}
