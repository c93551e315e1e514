//! The steps of a group: taken from the queue, written, synced. Each gives what the next one takes.

use super::Pump;
use super::change::Change;
use crate::error::StorageError;
use crate::group::RecordKind;
use crate::metadata::StoredRecord;
use crate::settings::{RECORD_BYTES, WalSync};
use crate::submission::WalItem;
use quorate_framework::{Encoded, Position, RecordPlace, RecoverySpec, Ticket};

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

impl<S: RecoverySpec> Pump<S> {
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
        // A long record's chunks are not kept until the next one.
        self.encoder.clear();
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
}
