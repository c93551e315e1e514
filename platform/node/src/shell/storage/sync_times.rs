//! How long syncs take.

use std::collections::VecDeque;
use std::time::Duration;

/// Syncs kept; older ones are forgotten.
const KEPT: usize = 4_096;

/// The last syncs.
#[derive(Clone, Debug, Default)]
pub struct SyncTimes {
    kept: VecDeque<u64>,
}

impl SyncTimes {
    /// Notes a sync.
    pub fn note(&mut self, duration: Duration) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    /// Median, 99th percentile and maximum in microseconds; none before the first. Sorts, so not for every turn.
    #[must_use]
    pub fn percentiles(&self) -> Option<[u64; 3]> {
        let mut sorted: Vec<u64> = self.kept.iter().copied().collect();
        sorted.sort_unstable();
        let at = |per_cent: usize| sorted.get((sorted.len() * per_cent).div_ceil(100).max(1) - 1).copied();
        Some([at(50)?, at(99)?, at(100)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_last_ones() {
        let mut times = SyncTimes::default();
        assert_eq!(times.percentiles(), None);
        (1..=100).for_each(|micros| times.note(Duration::from_micros(micros)));
        assert_eq!(times.percentiles(), Some([50, 99, 100]));
        (0..KEPT).for_each(|_| times.note(Duration::from_micros(7)));
        assert_eq!(times.percentiles(), Some([7, 7, 7]));
    }
}
