//! Times in which nothing was answered.

use serde::{Deserialize, Serialize};

/// A silence longer than this is a gap, in milliseconds.
pub const GAP_MS_MIN: f64 = 200.0;

/// A time without any answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// When it began, in milliseconds since the measurement did.
    pub start_ms: f64,
    /// How long it was, in milliseconds.
    pub length_ms: f64,
}

/// Finds gaps from the times of answers.
#[derive(Clone, Debug, Default)]
pub struct GapFinder {
    last_ms: f64,
    gaps: Vec<Gap>,
}

/// Gaps kept; a run with more of them has none that matters.
const GAPS_MAX: usize = 10_000;

impl GapFinder {
    /// An answer came at `now_ms` since the measurement began.
    pub fn answered(&mut self, now_ms: f64) {
        self.close(now_ms);
        self.last_ms = now_ms;
    }

    /// The gaps of a measurement that ended at `end_ms`.
    #[must_use]
    pub fn finish(mut self, end_ms: f64) -> Vec<Gap> {
        self.close(end_ms);
        self.gaps
    }

    fn close(&mut self, now_ms: f64) {
        let length_ms = now_ms - self.last_ms;
        if length_ms > GAP_MS_MIN && self.gaps.len() < GAPS_MAX {
            self.gaps.push(Gap { start_ms: self.last_ms, length_ms });
        }
    }
}

/// The gaps that several generators (or clients) have in common: only when none is answered, nothing is. `lists` have the same zero.
#[must_use]
pub fn common_gaps(lists: &[Vec<Gap>]) -> Vec<Gap> {
    let Some((first, rest)) = lists.split_first() else { return Vec::new() };
    rest.iter().fold(first.clone(), |common, list| {
        let mut overlaps = Vec::new();
        for one in &common {
            for other in list {
                let start_ms = one.start_ms.max(other.start_ms);
                let end_ms = (one.start_ms + one.length_ms).min(other.start_ms + other.length_ms);
                if end_ms - start_ms > GAP_MS_MIN {
                    overlaps.push(Gap { start_ms, length_ms: end_ms - start_ms });
                }
            }
        }
        overlaps
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(start_ms: f64, length_ms: f64) -> Gap {
        Gap { start_ms, length_ms }
    }

    #[test]
    fn silences_longer_than_the_limit_are_gaps_at_the_start_between_and_at_the_end() {
        let mut finder = GapFinder::default();
        for now_ms in [201.0, 401.0, 500.0, 1_000.0] {
            finder.answered(now_ms);
        }
        assert_eq!(finder.clone().finish(1_200.0), [gap(0.0, 201.0), gap(500.0, 500.0)]);
        assert_eq!(finder.finish(1_300.0), [gap(0.0, 201.0), gap(500.0, 500.0), gap(1_000.0, 300.0)]);
        assert_eq!(GapFinder::default().finish(5_000.0), [gap(0.0, 5_000.0)], "a run without any answer is one gap");
    }

    #[test]
    fn a_silence_of_one_generator_is_none_of_all() {
        let lists = [vec![gap(0.0, 1_000.0), gap(5_000.0, 900.0)], vec![gap(600.0, 1_000.0), gap(5_750.0, 900.0)]];
        assert_eq!(common_gaps(&lists), [gap(600.0, 400.0)]);
        assert_eq!(common_gaps(&lists[..1]), lists[0]);
        assert_eq!(common_gaps(&[]), []);
    }
}
