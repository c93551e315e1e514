//! What a load generator asks for: batches of puts and gets over a fixed set of keys.
//!
//! The default is ResilientDB's experiment: puts of 9 bytes to 100 keys of two digits. A batch is made when its slot is free, so
//! nothing runs ahead of the window.

use crate::zipf::Zipf;
use bytes::Bytes;
use quorate_executor::Command;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How keys are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Each key as often as any other.
    #[default]
    Uniform,
    /// A few keys most of the time (Zipf's law, exponent 0.99); the lowest keys are the most wanted.
    Zipfian,
}

impl fmt::Display for Distribution {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipfian => "zipfian",
        })
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Distribution, String> {
        match text {
            "uniform" => Ok(Distribution::Uniform),
            "zipfian" => Ok(Distribution::Zipfian),
            other => Err(format!("\"{other}\" is neither uniform nor zipfian")),
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Keys in use.
    pub keys: u64,
    /// Bytes of a value.
    pub value_size_bytes: usize,
    /// Share of gets among the commands, from 0 to 1.
    pub read_share: f64,
    /// How keys are drawn.
    pub distribution: Distribution,
    /// Commands in a batch.
    pub batch: u32,
}

impl Workload {
    /// Bytes of a key: as many decimal digits as the highest one needs.
    #[must_use]
    pub fn key_bytes(&self) -> usize {
        (self.keys - 1).max(1).ilog10() as usize + 1
    }

    /// Bytes of the commands of a batch at most.
    #[must_use]
    pub fn body_bytes_max(&self) -> usize {
        let (key, value) = (vec![b'0'; self.key_bytes()], vec![0; self.value_size_bytes]);
        self.batch as usize * Command::Put { key: &key, value: &value }.encoded_bytes()
    }
}

/// Makes batches; the same seed makes the same batches.
#[derive(Debug)]
pub struct BatchMaker {
    workload: Workload,
    random: SmallRng,
    zipf: Option<Zipf>,
    /// A command's bytes with its key still to be filled in.
    put: Vec<u8>,
    get: Vec<u8>,
    key_offset: usize,
    /// A draw below this is a get.
    read_below: u64,
}

impl BatchMaker {
    /// A maker of batches. Takes time in proportion to the keys if they are drawn by Zipf's law.
    ///
    /// # Panics
    /// Without keys.
    #[must_use]
    pub fn new(workload: Workload, seed: u64) -> BatchMaker {
        assert!(workload.keys > 0, "a workload has keys");
        let mut random = SmallRng::seed_from_u64(seed);
        let letters = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let letter = |random: &mut SmallRng| letters[below(random.next_u64(), letters.len() as u64) as usize];
        let value: Vec<u8> = (0..workload.value_size_bytes).map(|_| letter(&mut random)).collect();
        let key = vec![b'0'; workload.key_bytes()];
        let (mut put, mut get) = (Vec::new(), Vec::new());
        Command::Put { key: &key, value: &value }.encode(&mut put);
        Command::Get { key: &key }.encode(&mut get);
        // A get is all that stands before a put's value, so the key ends where the get does.
        let key_offset = get.len() - key.len();
        let zipf = (workload.distribution == Distribution::Zipfian).then(|| Zipf::new(workload.keys));
        let read_below = (workload.read_share * u64::MAX as f64) as u64;
        BatchMaker { workload, random, zipf, put, get, key_offset, read_below }
    }

    /// The next batch's commands, encoded.
    pub fn next_body(&mut self) -> Bytes {
        let key_bytes = self.workload.key_bytes();
        let mut body = Vec::with_capacity(self.workload.batch as usize * self.put.len());
        for _ in 0..self.workload.batch {
            let is_get = self.read_below > 0 && self.random.next_u64() < self.read_below;
            let start = body.len() + self.key_offset;
            body.extend_from_slice(if is_get { &self.get } else { &self.put });
            let number = self.random.next_u64();
            let key = match &self.zipf {
                Some(zipf) => zipf.rank(number),
                None => below(number, self.workload.keys),
            };
            write_digits(&mut body[start..start + key_bytes], key);
        }
        Bytes::from(body)
    }
}

/// A random number below `limit`: the high half of a wide product, even enough for any number of keys.
fn below(random: u64, limit: u64) -> u64 {
    ((u128::from(random) * u128::from(limit)) >> 64) as u64
}

fn write_digits(place: &mut [u8], mut number: u64) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_executor::Commands;
    use std::collections::BTreeMap;

    pub(crate) fn workload() -> Workload {
        Workload { keys: 100, value_size_bytes: 9, read_share: 0.0, distribution: Distribution::Uniform, batch: 100 }
    }

    #[test]
    fn the_default_is_two_digit_keys_and_nine_byte_values_in_nineteen_hundred_bytes_or_less() {
        let mut maker = BatchMaker::new(workload(), 1);
        let body = maker.next_body();
        assert!(body.len() <= 1_900, "{}", body.len());
        assert_eq!(body.len(), workload().body_bytes_max());
        let mut keys = BTreeMap::<Vec<u8>, u32>::new();
        for _ in 0..100 {
            for command in Commands::parse(&maker.next_body(), 100).unwrap() {
                let Command::Put { key, value } = command else { panic!("{command:?}") };
                assert_eq!((key.len(), value.len()), (2, 9));
                assert!(key.iter().all(u8::is_ascii_digit));
                *keys.entry(key.to_vec()).or_default() += 1;
            }
        }
        assert_eq!(keys.len(), 100);
        assert!(keys.values().all(|count| (50..200).contains(count)), "even: {keys:?}");
    }

    #[test]
    fn a_key_is_as_long_as_the_highest_one_needs() {
        for (keys, bytes) in [(1, 1), (10, 1), (11, 2), (100, 2), (101, 3), (1_000_000, 6), (u64::MAX, 20)] {
            assert_eq!(Workload { keys, ..workload() }.key_bytes(), bytes, "{keys} keys");
        }
    }

    #[test]
    fn the_read_share_is_kept_and_batches_of_one_and_empty_values_are_well_formed() {
        let mixed = Workload { read_share: 0.25, value_size_bytes: 0, batch: 1, keys: 7, ..workload() };
        let mut maker = BatchMaker::new(mixed, 3);
        let gets = (0..10_000).filter(|_| {
            let body = maker.next_body();
            Commands::parse(&body, 1).unwrap().all(|command| !command.writes())
        });
        let gets = gets.count();
        assert!((2_300..2_700).contains(&gets), "{gets}");
        let mut maker = BatchMaker::new(Workload { read_share: 1.0, ..workload() }, 3);
        assert!(Commands::parse(&maker.next_body(), 100).unwrap().all(|command| !command.writes()));
    }

    #[test]
    fn equal_seeds_make_equal_batches() {
        let batches = |seed| {
            let mut maker = BatchMaker::new(workload(), seed);
            (0..3).map(|_| maker.next_body()).collect::<Vec<_>>()
        };
        assert_eq!(batches(5), batches(5));
        assert_ne!(batches(5), batches(6));
    }
}
