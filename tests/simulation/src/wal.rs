//! The shipped write-ahead log in virtual time: its pump, one step after the other.

use quorate_framework::{RecoverySpec, Ticket};
use quorate_recovery::{Pump, RunningSync, StorageError, Submission, WrittenGroup};

/// Where the writer stands.
#[derive(Debug)]
enum Step {
    /// Between two groups.
    Idle,
    /// A group is written and not synced.
    Written(WrittenGroup),
    /// A sync is under way.
    Syncing(RunningSync),
}

/// What a step has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// Nothing: there is nothing to do.
    Idle,
    /// Housekeeping.
    Maintained,
    /// A group is written.
    Written,
    /// A sync has begun.
    SyncBegun,
    /// Everything up to here is durable, and nobody knows yet.
    Synced(Ticket),
}

/// A write-ahead log and its writer, which is driven from outside.
#[derive(Debug)]
pub struct Wal<R> {
    pump: Pump<R>,
    step: Step,
    /// Whether a step is on the agenda.
    pub is_scheduled: bool,
    /// Whether a step has failed: the process is about to end.
    pub has_failed: bool,
}

impl<R: RecoverySpec> Wal<R> {
    /// The log of a process that starts.
    #[must_use]
    pub fn new(pump: Pump<R>) -> Wal<R> {
        Wal { pump, step: Step::Idle, is_scheduled: false, has_failed: false }
    }

    /// Hands something over.
    ///
    /// # Errors
    /// The pump's.
    pub fn submit(&mut self, submission: Submission<R>) -> Result<(), StorageError> {
        self.pump.submit(submission)
    }

    /// Takes the next step.
    ///
    /// # Errors
    /// The pump's; final.
    pub fn step(&mut self) -> Result<Stepped, StorageError> {
        match std::mem::replace(&mut self.step, Step::Idle) {
            Step::Idle => match self.pump.take_group()? {
                Some(group) => {
                    self.step = Step::Written(self.pump.write(group)?);
                    Ok(Stepped::Written)
                }
                None if self.pump.has_maintenance() => self.pump.maintain().map(|()| Stepped::Maintained),
                None => Ok(Stepped::Idle),
            },
            Step::Written(group) => {
                self.step = Step::Syncing(self.pump.sync_started(group));
                Ok(Stepped::SyncBegun)
            }
            Step::Syncing(running) => self.pump.sync(running).map(Stepped::Synced),
        }
    }

    /// Whether the next step ends a sync.
    #[must_use]
    pub fn is_syncing(&self) -> bool {
        matches!(self.step, Step::Syncing(_))
    }

    /// Housekeeping that cannot wait for an idle moment.
    ///
    /// # Errors
    /// The pump's; final.
    pub fn maintain_if_due(&mut self) -> Result<(), StorageError> {
        if self.pump.maintenance_is_due() { self.pump.maintain() } else { Ok(()) }
    }

    /// Whether a failure is final: the next call must give it again.
    pub fn still_fails(&mut self) -> bool {
        self.pump.take_group().is_err() && self.pump.maintain().is_err()
    }

    /// Ends it cleanly, once what is on its way is finished.
    ///
    /// # Errors
    /// The pump's.
    pub fn stop(mut self) -> Result<(), StorageError> {
        while !matches!(self.step, Step::Idle) {
            self.step()?;
        }
        self.pump.stop().map(drop)
    }
}
