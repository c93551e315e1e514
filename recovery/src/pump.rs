//! The pump: everything the write-ahead log does, one step at a time and without a thread.
//!
//! ```text
//! submit ─▶ queue ─ take_group ─▶ TakenGroup ─ write ─▶ WrittenGroup ─ sync_started ─▶ RunningSync ─ sync ─▶ highest durable ticket
//! ```
//! One group is on its way at a time; what is submitted meanwhile gathers for the next. Each step takes what the step before gave,
//! so a ticket can only come out of a sync that began after its bytes were written.

use crate::error::StorageError;
use crate::group::{GroupBuffer, RecordKind};
use crate::log::{Log, LogCounters};
use crate::metadata::{Metadata, StoredRecord};
use crate::metadata_file;
use crate::settings::{RECORD_BYTES, WalSettings, WalSync};
use crate::submission::{MetadataChange, Submission, WalItem};
use quorate_framework::vfs::Vfs;
use quorate_framework::{Encoded, Encoder, Position, RandomSource, RecordPlace, RecoverySpec, Ticket};
use std::collections::VecDeque;
use std::fmt;

/// Something that changes the metadata, ready to be applied.
#[derive(Debug)]
enum Change {
    Record(StoredRecord),
    Driver(MetadataChange),
}

/// A group that was taken from the queue, its records encoded.
#[must_use = "its tickets never become durable otherwise"]
#[derive(Debug)]
pub struct TakenGroup {
    last: Ticket,
    records: u32,
    weight: u64,
    highest: Option<Position>,
    carried: Vec<(u64, Encoded)>,
    changes: Vec<Change>,
    /// Sequence of its last group on disk, once written; none for one that only changes metadata.
    sequence: Option<u64>,
}

impl TakenGroup {
    /// How many log records it holds.
    #[must_use]
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Bytes it counted for in the queue.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// The last ticket it covers.
    #[must_use]
    pub fn last_ticket(&self) -> Ticket {
        self.last
    }
}

/// A group whose bytes are written.
#[must_use = "its tickets never become durable otherwise"]
#[derive(Debug)]
pub struct WrittenGroup(TakenGroup);

/// A sync that covers a written group.
#[must_use = "its tickets never become durable otherwise"]
#[derive(Debug)]
pub struct RunningSync(TakenGroup);

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

    /// Takes the next group from the queue: log records up to the bounds of a group or to the next change of metadata, and then the
    /// changes of metadata that follow at once. None if nothing is queued or a group is on its way.
    ///
    /// # Errors
    /// [`StorageError::RecordTooLarge`], or the failure that ended this log.
    pub fn take_group(&mut self) -> Result<Option<TakenGroup>, StorageError> {
        self.check()?;
        if self.group_in_flight || self.queue.is_empty() {
            return Ok(None);
        }
        self.buffer.clear();
        let mut group = TakenGroup {
            last: self.durable,
            records: 0,
            weight: 0,
            highest: None,
            carried: Vec::new(),
            changes: Vec::new(),
            sequence: None,
        };
        while let Some((submission, weight)) = self.queue.pop_front() {
            let is_barrier = submission.is_barrier();
            let is_full = group.records as usize >= self.settings.group_records
                || (group.records > 0 && group.weight + weight > self.settings.group_bytes as u64);
            if !is_barrier && (is_full || !group.changes.is_empty()) {
                self.queue.push_front((submission, weight));
                break;
            }
            group.last = submission.ticket;
            group.weight += weight;
            if let Err(error) = self.put(submission.item, &mut group) {
                return self.fail(error);
            }
        }
        self.group_in_flight = true;
        Ok(Some(group))
    }

    fn put(&mut self, item: WalItem<S>, group: &mut TakenGroup) -> Result<(), StorageError> {
        let record = match item {
            WalItem::Metadata(change) => {
                group.changes.push(Change::Driver(change));
                return Ok(());
            }
            WalItem::Record(record) => record,
        };
        let (place, position, carry_key) = (record.place(), record.position(), record.carry_key());
        self.encoder.clear();
        record.encode(&mut self.encoder);
        let bytes = self.encoder.length() as u64;
        if bytes > RECORD_BYTES {
            return Err(StorageError::RecordTooLarge { bytes, limit: RECORD_BYTES });
        }
        if place == RecordPlace::Metadata {
            group.changes.push(Change::Record(StoredRecord::from(&self.encoder.to_encoded())));
            return Ok(());
        }
        self.buffer.push_parts(RecordKind::Protocol, self.encoder.head(), self.encoder.body());
        group.records += 1;
        group.highest = group.highest.max(position);
        if let Some(key) = carry_key {
            group.carried.push((key, self.encoder.to_encoded()));
        }
        Ok(())
    }

    /// Writes the group's log records, beginning a new segment first where they do not fit.
    ///
    /// # Errors
    /// What the operating system says; final.
    pub fn write(&mut self, mut group: TakenGroup) -> Result<WrittenGroup, StorageError> {
        self.check()?;
        if !self.buffer.is_empty() {
            let written = self.log.append(&*self.vfs, &mut *self.random, &mut self.buffer, group.highest);
            self.or_fail(written)?;
            group.sequence = Some(self.log.last_written());
            for (key, record) in group.carried.drain(..) {
                self.log.note_carried(key, record);
            }
        }
        Ok(WrittenGroup(group))
    }

    /// Marks the moment at which the sync begins: it covers what was written before.
    pub fn sync_started(&mut self, group: WrittenGroup) -> RunningSync {
        RunningSync(group.0)
    }

    /// Carries the sync out (unless the log is never synced), then the group's changes of metadata, and gives the highest durable
    /// ticket.
    ///
    /// # Errors
    /// What the operating system says; final.
    pub fn sync(&mut self, running: RunningSync) -> Result<Ticket, StorageError> {
        self.check()?;
        let group = running.0;
        if let Some(sequence) = group.sequence
            && self.settings.sync == WalSync::Always
        {
            let synced = self.log.sync();
            self.or_fail(synced)?;
            self.log.note_synced(sequence);
        }
        if !group.changes.is_empty() {
            let changed = self.change_metadata(group.changes);
            self.or_fail(changed)?;
        }
        self.group_in_flight = false;
        self.pending_bytes -= group.weight;
        self.durable = group.last;
        Ok(self.durable)
    }

    fn change_metadata(&mut self, changes: Vec<Change>) -> Result<(), StorageError> {
        let mut metadata = self.metadata.clone();
        let mut released = None;
        for change in changes {
            match change {
                Change::Record(record) => metadata.record = Some(record),
                Change::Driver(MetadataChange::Members(members)) => metadata.members = Some(members),
                Change::Driver(MetadataChange::Snapshot { base, store_generation, released: position }) => {
                    let present = metadata.snapshot.as_ref().map_or(Position::ZERO, |base| base.position);
                    if base.position < present {
                        return Err(StorageError::SnapshotOrder { new: base.position, present });
                    }
                    released = released.max(Some(position.min(base.position)));
                    metadata.snapshot = Some(base);
                    metadata.store_generation = store_generation;
                }
            }
        }
        let retired = released.map_or_else(Vec::new, |released| self.log.release(released));
        if !retired.is_empty() && self.settings.sync == WalSync::Never {
            // The records carried to the new first segment must not be lost with the old ones.
            self.log.sync_all(&*self.vfs)?;
        }
        metadata.first_group = self.log.first_group();
        self.replace_metadata(metadata)?;
        self.log.retire(retired);
        Ok(())
    }

    fn replace_metadata(&mut self, metadata: Metadata) -> Result<(), StorageError> {
        metadata_file::replace(&*self.vfs, &metadata)?;
        self.metadata = metadata;
        self.metadata_writes += 1;
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
            self.log.sync_all(&*self.vfs)?;
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
