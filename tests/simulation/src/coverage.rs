//! What happened, counted: each kind of fault and each state of the protocol. A suite in which one of them never occurred proves less
//! than it says, and fails.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    counts: BTreeMap<&'static str, u64>,
}

impl Coverage {
    /// Counts one occurrence.
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    /// Counts several occurrences.
    pub fn add(&mut self, what: &'static str, occurrences: u64) {
        *self.counts.entry(what).or_default() += occurrences;
    }

    /// Adds another count.
    pub fn merge(&mut self, other: &Coverage) {
        other.counts.iter().for_each(|(what, occurrences)| self.add(what, *occurrences));
    }

    /// How often something occurred.
    #[must_use]
    pub fn of(&self, what: &str) -> u64 {
        self.counts.get(what).copied().unwrap_or(0)
    }

    /// The names in `expected` that never occurred.
    #[must_use]
    pub fn missing(&self, expected: &[&'static str]) -> Vec<&'static str> {
        expected.iter().copied().filter(|what| self.of(what) == 0).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts.iter().try_for_each(|(what, occurrences)| writeln!(formatter, "{what:<34} {occurrences:>12}"))
    }
}
