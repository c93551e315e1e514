//! Round trips between replicas, as the leader's heartbeats measure them: how late votes and heartbeats are handled at most.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a replica's status says of its round trips.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RoundTripStatus {
    /// Median of its last few thousand, in milliseconds.
    pub p50: f64,
    /// 99th percentile of the same.
    pub p99: f64,
    /// 99.9th percentile of the same.
    pub p99_9: Option<f64>,
    /// Longest of the same.
    pub max: Option<f64>,
    /// Measurements since its start.
    #[serde(default)]
    pub count: u64,
    /// All of them as [microseconds, measurements], each count of those up to this time and above that of the item before.
    #[serde(default)]
    pub histogram_us: Vec<(u64, u64)>,
}

/// Round trips of a measurement, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundTripMs {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: Option<f64>,
    /// Longest.
    pub max: Option<f64>,
    /// Heartbeats measured.
    pub count: u64,
}

impl RoundTripStatus {
    /// What was measured since an earlier status of the same process, each time as much as 3 % too long; without that status,
    /// since the start of the process. A status without a histogram gives its last few thousand.
    #[must_use]
    pub fn since(&self, before: Option<&RoundTripStatus>) -> Option<RoundTripMs> {
        if self.histogram_us.is_empty() {
            let RoundTripStatus { p50, p99, p99_9, max, count, .. } = *self;
            return Some(RoundTripMs { p50, p99, p99_9, max, count });
        }
        let mut growth: BTreeMap<u64, u64> = self.histogram_us.iter().copied().collect();
        for (micros, count) in before.map_or(&[][..], |before| &before.histogram_us) {
            let grown = growth.entry(*micros).or_default();
            *grown = grown.saturating_sub(*count);
        }
        growth.retain(|_, count| *count > 0);
        let count: u64 = growth.values().sum();
        let at = |share: f64| {
            let rank = ((count as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let found = growth.iter().find(|(_, count)| {
                seen += **count;
                seen >= rank
            });
            found.map(|(micros, _)| *micros as f64 / 1_000.0)
        };
        Some(RoundTripMs { p50: at(0.5)?, p99: at(0.99)?, p99_9: Some(at(0.999)?), max: Some(at(1.0)?), count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(histogram_us: &[(u64, u64)]) -> RoundTripStatus {
        let count = histogram_us.iter().map(|(_, count)| count).sum();
        let histogram_us = histogram_us.to_vec();
        RoundTripStatus { p50: 7.0, p99: 8.0, p99_9: Some(9.0), max: Some(10.0), count, histogram_us }
    }

    #[test]
    fn only_what_was_measured_in_between_counts() {
        let before = status(&[(100, 500), (90_000, 3)]);
        let after = status(&[(100, 500), (200, 998), (5_000, 1), (30_000, 1), (90_000, 3)]);
        let measured = after.since(Some(&before)).unwrap();
        let expected = RoundTripMs { p50: 0.2, p99: 0.2, p99_9: Some(5.0), max: Some(30.0), count: 1_000 };
        assert_eq!(measured, expected);
        assert_eq!(after.since(None).unwrap().max, Some(90.0));
        assert_eq!(before.since(Some(&before)), None, "no heartbeat in between is no measurement");
    }

    #[test]
    fn a_status_without_a_histogram_gives_what_it_says_itself() {
        let old: RoundTripStatus = serde_json::from_str(r#"{ "p50": 1, "p99": 2, "count": 3 }"#).unwrap();
        let expected = RoundTripMs { p50: 1.0, p99: 2.0, p99_9: None, max: None, count: 3 };
        assert_eq!(old.since(Some(&status(&[(1, 1)]))), Some(expected));
    }
}
