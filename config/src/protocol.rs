//! The consensus protocols by name.

use std::fmt;

/// A consensus protocol that can be chosen in this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Raft: tolerates crashed replicas, fewer than half of them.
    Raft,
}

/// Names that mean a protocol of Quorate which this version does not contain yet.
pub(crate) const NOT_BUILT: &[&str] = &["pbft", "hotstuff1"];

impl Protocol {
    /// Every protocol of this version.
    pub const ALL: &'static [Protocol] = &[Protocol::Raft];

    /// The name in a configuration file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Raft => "raft",
        }
    }

    /// The protocol of that name, exactly as written.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Protocol> {
        Protocol::ALL.iter().copied().find(|protocol| protocol.name() == name)
    }

    /// How many of `replicas` may fail while the rest still makes progress.
    #[must_use]
    pub fn tolerated_faults(self, replicas: usize) -> usize {
        match self {
            Protocol::Raft => replicas.saturating_sub(1) / 2,
        }
    }

    /// How many of `replicas` must agree.
    #[must_use]
    pub fn quorum(self, replicas: usize) -> usize {
        match self {
            Protocol::Raft => replicas / 2 + 1,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raft_tolerates_less_than_half() {
        for (replicas, quorum, faults) in [(1, 1, 0), (2, 2, 0), (3, 2, 1), (4, 3, 1), (5, 3, 2), (7, 4, 3)] {
            assert_eq!((Protocol::Raft.quorum(replicas), Protocol::Raft.tolerated_faults(replicas)), (quorum, faults));
        }
    }
}
