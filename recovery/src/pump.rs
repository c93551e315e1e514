//! The pump: everything the write-ahead log does, one step at a time and without a thread.
//!
//! ```text
//! submit ─▶ queue ─ take_group ─▶ TakenGroup ─ write ─▶ WrittenGroup ─ sync_started ─▶ RunningSync ─ sync ─▶ highest durable ticket
//! ```
//! One group is on its way at a time; what is submitted meanwhile gathers for the next. Each step takes what the step before gave,
//! so a ticket can only come out of a sync that began after its bytes were written.

mod change;
mod steps;

use crate::error::StorageError;
use crate::group::GroupBuffer;
use crate::log::{Log, LogCounters};
use crate::metadata::Metadata;
use crate::settings::{WalSettings, WalSync};
use crate::submission::Submission;
use quorate_framework::vfs::Vfs;
use quorate_framework::{Encoder, RandomSource, RecoverySpec, Ticket};
use std::collections::VecDeque;
use std::fmt;

pub use steps::{RunningSync, TakenGroup, WrittenGroup};

/// The write-ahead log and the metadata file of one replica, from its tickets to its files. All calls but [`Pump::submit`] and the
/// accessors block on the file system. The first failure is final: every later call gives it again.
pub struct Pump<S> {
    vfs: Box<dyn Vfs>,
    random: Box<dyn RandomSource>,
    settings: WalSettings,
    metadata: Metadata,
    log: Log,
    buffer: GroupBuffer,
    /// Scratch: the record being put into the group.
    encoder: Encoder,
    queue: VecDeque<(Submission<S>, u64)>,
    pending_bytes: u64,
    group_in_flight: bool,
    submitted: Ticket,
    durable: Ticket,
    metadata_writes: u64,
    failure: Option<StorageError>,
}

impl<S> fmt::Debug for Pump<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Pump")
            .field("submitted", &self.submitted)
            .field("durable", &self.durable)
            .field("pending_bytes", &self.pending_bytes)
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

impl<S: RecoverySpec> Pump<S> {
    pub(crate) fn new(
        vfs: Box<dyn Vfs>,
        random: Box<dyn RandomSource>,
        settings: WalSettings,
        metadata: Metadata,
        log: Log,
    ) -> Pump<S> {
        Pump {
            vfs,
            random,
            settings,
            metadata,
            log,
            buffer: GroupBuffer::new(),
            encoder: Encoder::new(),
            queue: VecDeque::new(),
            pending_bytes: 0,
            group_in_flight: false,
            submitted: Ticket::RECOVERED,
            durable: Ticket::RECOVERED,
            metadata_writes: 0,
            failure: None,
        }
    }

    /// The metadata as it is durable.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The highest ticket that is durable, and all below it.
    #[must_use]
    pub fn durable(&self) -> Ticket {
        self.durable
    }

    /// Bytes submitted and not yet durable.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// What the log has done since it was opened.
    #[must_use]
    pub fn counters(&self) -> LogCounters {
        self.log.counters()
    }

    /// How many times the metadata file was replaced since the log was opened.
    #[must_use]
    pub fn metadata_writes(&self) -> u64 {
        self.metadata_writes
    }

    /// Queues something to be made durable. Does not block and touches no file.
    ///
    /// # Errors
    /// [`StorageError::TicketOrder`], or the failure that ended this log.
    pub fn submit(&mut self, submission: Submission<S>) -> Result<(), StorageError> {
        self.check()?;
        if submission.ticket <= self.submitted {
            return self.fail(StorageError::TicketOrder { ticket: submission.ticket, last: self.submitted });
        }
        self.submitted = submission.ticket;
        let weight = submission.weight() as u64;
        self.pending_bytes += weight;
        self.queue.push_back((submission, weight));
        Ok(())
    }

    /// All steps of the next group at once; none if nothing is queued. For callers that need no step of their own in between.
    ///
    /// # Errors
    /// As the steps.
    pub fn run_group(&mut self) -> Result<Option<Ticket>, StorageError> {
        let Some(group) = self.take_group()? else { return Ok(None) };
        let written = self.write(group)?;
        let running = self.sync_started(written);
        self.sync(running).map(Some)
    }

    /// Whether [`Pump::maintain`] should be called now, even between two groups of a busy log.
    #[must_use]
    pub fn maintenance_is_due(&self) -> bool {
        self.failure.is_none() && self.log.maintenance_is_due()
    }

    /// Whether [`Pump::maintain`] has anything to do.
    #[must_use]
    pub fn has_maintenance(&self) -> bool {
        self.failure.is_none() && self.log.has_maintenance()
    }

    /// Does one small step of housekeeping: frees a retired segment, or prepares a piece of the next one (at most 1 MiB written and
    /// synced), so that beginning it will cost nothing.
    ///
    /// # Errors
    /// What the operating system says of a retired segment; final.
    pub fn maintain(&mut self) -> Result<(), StorageError> {
        self.check()?;
        let done = self.log.maintain(&*self.vfs);
        self.or_fail(done)
    }

    /// Makes all that was submitted durable, vouches for the last group with an empty one, and notes the clean stop.
    ///
    /// # Errors
    /// What the operating system says; [`StorageError::GroupInFlight`] if a group was taken whose sync has not ended: then nothing is
    /// noted, and the next start finds a replica that was not stopped cleanly.
    pub fn stop(mut self) -> Result<Metadata, StorageError> {
        if self.group_in_flight {
            return Err(StorageError::GroupInFlight);
        }
        while self.run_group()?.is_some() {}
        if self.settings.sync == WalSync::Never {
            self.sync_all()?;
        }
        let mut vouching = GroupBuffer::new();
        self.log.append(&*self.vfs, &mut *self.random, &mut vouching, None)?;
        self.log.sync()?;
        let metadata = Metadata { stopped_cleanly: true, first_group: self.log.first_group(), ..self.metadata.clone() };
        self.replace_metadata(metadata)?;
        Ok(self.metadata)
    }

    /// Appends records before anything was submitted: what the end of recovery found missing.
    pub(crate) fn complete(&mut self, records: Vec<S>) -> Result<(), StorageError> {
        for record in records {
            self.queue.push_back((Submission::record(Ticket::RECOVERED, record), 0));
        }
        while self.run_group()?.is_some() {}
        Ok(())
    }

    /// The first metadata of this start.
    pub(crate) fn begin(&mut self, metadata: Metadata) -> Result<(), StorageError> {
        self.replace_metadata(metadata)
    }

    fn check(&self) -> Result<(), StorageError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    fn fail<T>(&mut self, error: StorageError) -> Result<T, StorageError> {
        self.failure.get_or_insert(error.clone());
        Err(error)
    }

    fn or_fail<T>(&mut self, result: Result<T, StorageError>) -> Result<T, StorageError> {
        result.or_else(|error| self.fail(error))
    }
}
