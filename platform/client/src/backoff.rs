//! Pauses that double and scatter.

use std::time::Duration;

/// The pause before try `number` (from 0): doubles from `min` to `max`, then is shortened by up to half by `random`, so that many
/// clients do not come back together.
pub(crate) fn pause(min: Duration, max: Duration, number: u32, random: u64) -> Duration {
    let full = min.saturating_mul(1_u32.checked_shl(number.min(31)).unwrap_or(u32::MAX)).min(max);
    let half = full / 2;
    let share = (random >> 32) as u32;
    half + half.mul_f64(f64::from(share) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_scatter_over_their_upper_half() {
        let (min, max) = (Duration::from_millis(10), Duration::from_millis(100));
        for (number, full_ms) in [(0, 10), (1, 20), (3, 80), (4, 100), (u32::MAX, 100)] {
            let full = Duration::from_millis(full_ms);
            assert_eq!(pause(min, max, number, 0), full / 2);
            assert_eq!(pause(min, max, number, u64::MAX), full);
        }
    }
}
