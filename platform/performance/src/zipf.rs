//! Ranks by Zipf's law, by inversion of an approximation of its distribution (Gray et al., "Quickly generating billion-record
//! synthetic databases", 1994).

/// The exponent: what the field's benchmarks use.
const EXPONENT: f64 = 0.99;

/// Draws ranks from 0; rank 0 is the most frequent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    count: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    /// Takes time in proportion to `count`.
    pub(crate) fn new(count: u64) -> Zipf {
        let zeta_of = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-EXPONENT)).sum::<f64>();
        let (zeta, zeta_two) = (zeta_of(count), zeta_of(2.min(count)));
        let size = count as f64;
        let eta = (1.0 - (2.0 / size).powf(1.0 - EXPONENT)) / (1.0 - zeta_two / zeta);
        Zipf { count: size, zeta, alpha: 1.0 / (1.0 - EXPONENT), eta }
    }

    /// The rank for an evenly distributed random number.
    pub(crate) fn rank(&self, random: u64) -> u64 {
        let uniform = (random >> 11) as f64 / (1_u64 << 53) as f64;
        let scaled = uniform * self.zeta;
        if scaled < 1.0 || self.count < 2.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(EXPONENT) {
            return 1;
        }
        let rank = self.count * (self.eta * uniform - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.count as u64 - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn ranks_follow_the_law_and_stay_in_range() {
        let (zipf, mut random) = (Zipf::new(1_000), SmallRng::seed_from_u64(1));
        let mut counts = vec![0_u32; 1_000];
        const DRAWS: u32 = 200_000;
        (0..DRAWS).for_each(|_| counts[zipf.rank(random.next_u64()) as usize] += 1);
        let zeta: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-EXPONENT)).sum();
        for rank in [0_usize, 1] {
            let expected = f64::from(DRAWS) * ((rank + 1) as f64).powf(-EXPONENT) / zeta;
            let ratio = f64::from(counts[rank]) / expected;
            assert!((0.95..1.05).contains(&ratio), "rank {rank}: {ratio}");
        }
        let tail: u32 = counts[100..].iter().sum();
        let expected = f64::from(DRAWS) * (101..=1_000).map(|rank| f64::from(rank).powf(-EXPONENT)).sum::<f64>() / zeta;
        assert!((0.9..1.1).contains(&(f64::from(tail) / expected)), "{tail} of {expected}");
    }

    #[test]
    fn a_single_key_and_two_keys_are_enough() {
        for count in [1, 2] {
            let zipf = Zipf::new(count);
            for random in [0, u64::MAX / 3, u64::MAX / 2, u64::MAX] {
                assert!(zipf.rank(random) < count);
            }
        }
    }
}
