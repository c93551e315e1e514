//! When a checkpoint is due: by the clock, by what was executed, by what the log has grown.

use quorate_framework::Time;
use std::time::Duration;

/// When a checkpoint is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSettings {
    /// After this time, if anything was executed.
    pub interval: Duration,
    /// After so many transactions.
    pub transactions: u64,
    /// After so many bytes of records.
    pub log_bytes: u64,
}

/// What has happened since the last one.
#[derive(Clone, Debug)]
pub(super) struct Checkpoints {
    settings: Option<CheckpointSettings>,
    look_at: Time,
    transactions: u64,
    log_bytes: u64,
    /// Bytes of records at the last one.
    log_bytes_before: u64,
}

impl Checkpoints {
    /// Without settings none is ever due.
    pub(super) fn new(settings: Option<CheckpointSettings>, now: Time) -> Checkpoints {
        let look_at = settings.map_or(Time::ZERO, |settings| now + settings.interval);
        Checkpoints { settings, look_at, transactions: 0, log_bytes: 0, log_bytes_before: 0 }
    }

    /// When the clock must be asked next.
    pub(super) fn next_look(&self) -> Option<Time> {
        self.settings.map(|_| self.look_at)
    }

    /// So much more was executed.
    pub(super) fn executed(&mut self, transactions: u64) {
        self.transactions += transactions;
    }

    /// The log has taken so many bytes since the process began.
    pub(super) fn logged(&mut self, log_bytes: u64) {
        self.log_bytes = log_bytes;
    }

    /// Whether one is due, and then not again at once. `may` says whether one can be taken just now.
    pub(super) fn is_due(&mut self, now: Time, may: bool) -> bool {
        let Some(settings) = self.settings else { return false };
        let grown = self.log_bytes - self.log_bytes_before;
        let is_late = now >= self.look_at;
        if is_late {
            self.look_at = now + settings.interval;
        }
        let is_due = self.transactions >= settings.transactions
            || grown >= settings.log_bytes
            || (is_late && (self.transactions > 0 || grown > 0));
        if !is_due || !may {
            return false;
        }
        (self.transactions, self.log_bytes_before) = (0, self.log_bytes);
        self.look_at = now + settings.interval;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: CheckpointSettings =
        CheckpointSettings { interval: Duration::from_secs(60), transactions: 1_000, log_bytes: 5_000 };

    fn seconds(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn each_of_time_transactions_and_log_makes_one_due_once() {
        let mut checkpoints = Checkpoints::new(Some(SETTINGS), seconds(0));
        assert_eq!(checkpoints.next_look(), Some(seconds(60)));
        assert!(!checkpoints.is_due(seconds(60), true), "nothing was executed");
        checkpoints.executed(1);
        assert!(!checkpoints.is_due(seconds(119), true));
        assert!(checkpoints.is_due(seconds(120), true));
        assert!(!checkpoints.is_due(seconds(121), true));
        checkpoints.executed(1_000);
        assert!(checkpoints.is_due(seconds(122), true));
        assert!(!checkpoints.is_due(seconds(123), true));
        checkpoints.logged(5_000);
        assert!(checkpoints.is_due(seconds(124), true));
        checkpoints.logged(9_999);
        assert!(!checkpoints.is_due(seconds(125), true));
    }

    #[test]
    fn one_that_cannot_be_taken_just_now_stays_due() {
        let mut checkpoints = Checkpoints::new(Some(SETTINGS), seconds(0));
        checkpoints.executed(1_000);
        assert!(!checkpoints.is_due(seconds(1), false));
        assert!(checkpoints.is_due(seconds(1), true));
        assert!(!Checkpoints::new(None, seconds(0)).is_due(seconds(1_000), true));
    }
}
