//! What a start found and did.

use quorate_framework::{Incarnation, LOST_DATA, Position};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// What a start found in its data directory, and what it did about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecoveryReport {
    /// Records read from the log.
    pub records: u64,
    /// Groups read.
    pub groups: u64,
    /// Segments read.
    pub segments: u64,
    /// Bytes of these groups on disk.
    pub bytes: u64,
    /// The highest position among the records.
    pub last_position: Position,
    /// Bytes of a torn tail that were cut: written, never known to be synced, never acknowledged.
    pub torn_bytes_cut: u64,
    /// Position of the snapshot that the state begins with.
    pub snapshot: Option<Position>,
    /// Whether the run before ended by a clean stop.
    pub stopped_cleanly: bool,
    /// The incarnation that this replica had to give up, because its unsynced log did not survive a boot of the machine for sure.
    pub incarnation_given_up: Option<Incarnation>,
    /// What is odd, one sentence each.
    pub anomalies: Vec<String>,
    /// How long it took.
    pub duration: Duration,
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "recovered {} records in {} groups ({} bytes in {} segments) up to position {} in {:.1} ms",
            self.records,
            self.groups,
            self.bytes,
            self.segments,
            self.last_position,
            self.duration.as_secs_f64() * 1e3
        )?;
        match self.snapshot {
            Some(position) => write!(formatter, "; snapshot at {position}")?,
            None => write!(formatter, "; no snapshot")?,
        }
        if self.torn_bytes_cut > 0 {
            write!(formatter, "; {} bytes of a torn tail cut", self.torn_bytes_cut)?;
        }
        if let Some(incarnation) = self.incarnation_given_up {
            write!(
                formatter,
                "; the machine was booted while the log was not synced: incarnation {incarnation} is given up; \
                 {LOST_DATA}"
            )?;
        }
        self.anomalies.iter().try_for_each(|anomaly| write!(formatter, "; {anomaly}"))
    }
}
