//! The log as it is written: groups, rolls, retiring. It knows neither tickets nor metadata.

use crate::carry::Carry;
use crate::error::StorageError;
use crate::format::{BLOCK, padded};
use crate::group::{GROUP_HEADER_BYTES, GroupBuffer, RecordKind};
use crate::scan::FoundLog;
use crate::segment_files::{Owner, open, sync_directory, write_header};
use crate::settings::{WalSettings, WalSync};
use crate::spares::{Spare, Spares};
use bytes::Bytes;
use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_framework::{Encoded, Position, RandomSource};
use std::collections::VecDeque;
use std::path::PathBuf;

/// A segment that is sealed.
struct Sealed {
    spare: Spare,
    first_group: u64,
    highest: Option<Position>,
}

/// The segment that is written to.
struct Active {
    path: PathBuf,
    file: Box<dyn VfsFile>,
    capacity: u64,
    salt: u64,
    first_group: u64,
    /// Where the next group begins.
    end: u64,
    highest: Option<Position>,
}

impl Active {
    /// Writes a group at the end and gives its CRC.
    fn write(&mut self, group: &mut GroupBuffer, chain: &Chain) -> Result<u32, StorageError> {
        let (bytes, checksum) = group.finish(chain.next_sequence, self.salt, chain.synced, chain.last_checksum);
        self.file.write_all_at(bytes, self.end).map_err(StorageError::io("writing", &self.path))?;
        self.end += bytes.len() as u64;
        Ok(checksum)
    }
}

/// Where the chain of groups stands.
struct Chain {
    next_sequence: u64,
    last_checksum: u32,
    /// The highest sequence known to be synced.
    synced: u64,
}

impl Chain {
    fn written(&mut self, checksum: u32) {
        self.last_checksum = checksum;
        self.next_sequence += 1;
    }
}

/// What a log has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounters {
    /// Groups written, seals and carried ones included.
    pub groups: u64,
    /// Syncs of segments, those of rolls included.
    pub syncs: u64,
    /// Bytes written in groups.
    pub bytes: u64,
    /// Segments begun.
    pub rolls: u64,
}

/// An open log.
pub(crate) struct Log {
    owner: Owner,
    sync: WalSync,
    sealed: VecDeque<Sealed>,
    active: Active,
    chain: Chain,
    carry: Carry,
    spares: Spares,
    counters: LogCounters,
}

/// A salt; never 0, which is that of a free segment.
fn draw_salt(random: &mut dyn RandomSource) -> u64 {
    random.next_u64().max(1)
}

impl Log {
    /// Makes the first segment of a new log, durably.
    pub(crate) fn create(
        vfs: &dyn Vfs,
        owner: Owner,
        settings: &WalSettings,
        mut spares: Spares,
        random: &mut dyn RandomSource,
    ) -> Result<Log, StorageError> {
        let (path, mut file, capacity, _) = spares.take(vfs, settings.segment_bytes)?;
        let salt = draw_salt(random);
        write_header(&mut *file, &path, &owner.live(capacity, salt, 1))?;
        sync_directory(vfs)?;
        let active = Active { path, file, capacity, salt, first_group: 1, end: BLOCK, highest: None };
        let chain = Chain { next_sequence: 1, last_checksum: 0, synced: 0 };
        let (sealed, carry, counters) = (VecDeque::new(), Carry::default(), LogCounters::default());
        Ok(Log { owner, sync: settings.sync, sealed, active, chain, carry, spares, counters })
    }

    /// Goes on after what was found, all of which is synced by now.
    pub(crate) fn resume(
        vfs: &dyn Vfs,
        owner: Owner,
        settings: &WalSettings,
        found: &FoundLog,
        carry: Carry,
        spares: Spares,
    ) -> Result<Log, StorageError> {
        let (last, older) = found.chain.split_last().ok_or(StorageError::Ended)?;
        let sealed = older
            .iter()
            .map(|segment| Sealed {
                spare: Spare { path: segment.file.path.clone(), capacity: segment.file.header.capacity },
                first_group: segment.file.header.first_group,
                highest: segment.highest,
            })
            .collect();
        let header = last.file.header;
        let active = Active {
            path: last.file.path.clone(),
            file: open(vfs, &last.file.path)?,
            capacity: header.capacity,
            salt: header.salt,
            first_group: header.first_group,
            end: last.end,
            highest: last.highest,
        };
        let chain = Chain {
            next_sequence: found.next_sequence,
            last_checksum: found.last_checksum,
            synced: found.next_sequence - 1,
        };
        let counters = LogCounters::default();
        Ok(Log { owner, sync: settings.sync, sealed, active, chain, carry, spares, counters })
    }

    pub(crate) fn counters(&self) -> LogCounters {
        self.counters
    }

    /// Sequence of the last group written.
    pub(crate) fn last_written(&self) -> u64 {
        self.chain.next_sequence - 1
    }

    /// Sequence of the first live group.
    pub(crate) fn first_group(&self) -> u64 {
        self.sealed.front().map_or(self.active.first_group, |segment| segment.first_group)
    }

    /// Notes a record that must be carried forward, once it is written.
    pub(crate) fn note_carried(&mut self, key: u64, record: Encoded) {
        self.carry.note(key, record);
    }

    /// Writes a group, in a new segment if it does not fit.
    pub(crate) fn append(
        &mut self,
        vfs: &dyn Vfs,
        random: &mut dyn RandomSource,
        group: &mut GroupBuffer,
        highest: Option<Position>,
    ) -> Result<(), StorageError> {
        let length = group.padded_length();
        // The last block is kept for the seal.
        if self.active.end + self.carried_bytes() + length + BLOCK > self.active.capacity {
            self.roll(vfs, random, length)?;
        }
        if self.carried_bytes() > 0 {
            let mut carried = GroupBuffer::new();
            self.carry.put(&mut carried);
            self.write(&mut carried)?;
        }
        self.write(group)?;
        self.active.highest = self.active.highest.max(highest);
        Ok(())
    }

    /// Bytes of the carried records that the segment must begin with; none if it has begun. Also a segment that a start found sealed to,
    /// and without a group yet, must.
    fn carried_bytes(&self) -> u64 {
        let has_begun = self.active.end > BLOCK;
        if has_begun || self.carry.is_empty() { 0 } else { padded(GROUP_HEADER_BYTES as u64 + self.carry.bytes()) }
    }

    fn write(&mut self, group: &mut GroupBuffer) -> Result<(), StorageError> {
        let before = self.active.end;
        let checksum = self.active.write(group, &self.chain)?;
        self.chain.written(checksum);
        self.counters.groups += 1;
        self.counters.bytes += self.active.end - before;
        Ok(())
    }

    /// Begins a new segment with room for a group of `length` bytes.
    fn roll(&mut self, vfs: &dyn Vfs, random: &mut dyn RandomSource, length: u64) -> Result<(), StorageError> {
        let carried = padded(GROUP_HEADER_BYTES as u64 + self.carry.bytes());
        let (path, mut file, capacity, is_new) = self.spares.take(vfs, 2 * BLOCK + carried + length)?;
        let (salt, first_group) = (draw_salt(random), self.chain.next_sequence + 1);
        write_header(&mut *file, &path, &self.owner.live(capacity, salt, first_group))?;
        if is_new {
            sync_directory(vfs)?;
        }
        let mut seal = GroupBuffer::new();
        let head = [salt.to_le_bytes(), first_group.to_le_bytes()].concat();
        seal.push(RecordKind::Seal, &Encoded { head: Bytes::from(head), body: Vec::new() });
        self.write(&mut seal)?;
        if self.sync == WalSync::Always {
            self.sync()?;
            self.note_synced(self.last_written());
        }
        let active = Active { path, file, capacity, salt, first_group, end: BLOCK, highest: None };
        let old = std::mem::replace(&mut self.active, active);
        self.sealed.push_back(Sealed {
            spare: Spare { path: old.path, capacity: old.capacity },
            first_group: old.first_group,
            highest: old.highest,
        });
        self.counters.rolls += 1;
        Ok(())
    }

    /// Syncs the segment that is written to.
    pub(crate) fn sync(&mut self) -> Result<(), StorageError> {
        self.counters.syncs += 1;
        self.active.file.sync_data().map_err(StorageError::io("syncing", &self.active.path))
    }

    /// A sync that began after this group was written has returned.
    pub(crate) fn note_synced(&mut self, sequence: u64) {
        self.chain.synced = self.chain.synced.max(sequence);
    }

    /// Syncs every live segment; for a log that was not synced while running.
    pub(crate) fn sync_all(&mut self, vfs: &dyn Vfs) -> Result<(), StorageError> {
        for segment in &self.sealed {
            let path = &segment.spare.path;
            open(vfs, path)?.sync_data().map_err(StorageError::io("syncing", path))?;
        }
        self.sync()?;
        self.note_synced(self.last_written());
        Ok(())
    }

    /// Takes the oldest segments out of the log that hold no position above `released`. They are freed by [`Log::maintain`], after the
    /// metadata has moved to [`Log::first_group`].
    pub(crate) fn release(&mut self, released: Position) -> Vec<Spare> {
        let mut list = Vec::new();
        while self.sealed.front().is_some_and(|segment| segment.highest.is_none_or(|highest| highest <= released)) {
            list.extend(self.sealed.pop_front().map(|segment| segment.spare));
        }
        list
    }

    /// The metadata no longer counts these as live.
    pub(crate) fn retire(&mut self, list: Vec<Spare>) {
        list.into_iter().for_each(|spare| self.spares.retire(spare));
    }

    /// Whether [`Log::maintain`] should be called now, even between two groups.
    pub(crate) fn maintenance_is_due(&self) -> bool {
        self.spares.is_due(self.active.end, self.active.capacity)
    }

    /// Whether [`Log::maintain`] has anything to do.
    pub(crate) fn has_maintenance(&self) -> bool {
        self.spares.has_work()
    }

    /// Does one small step of what makes later rolls cheap.
    pub(crate) fn maintain(&mut self, vfs: &dyn Vfs) -> Result<(), StorageError> {
        self.spares.step(vfs)
    }
}
