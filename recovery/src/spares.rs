//! Segments that are ready to be used: free ones, and one that is being prepared, a little at a time.

use crate::error::StorageError;
use crate::format::segment_path;
use crate::segment_files::{Owner, create, open, remove, retire, sync_directory, write_header};
use quorate_framework::vfs::{Vfs, VfsFile};
use std::collections::VecDeque;
use std::path::PathBuf;

/// Bytes of zeros that one step of preparation writes and syncs.
const STEP_BYTES: u64 = 1 << 20;

/// A segment file that may be used.
#[derive(Clone, Debug)]
pub(crate) struct Spare {
    pub(crate) path: PathBuf,
    pub(crate) capacity: u64,
}

struct Preparing {
    path: PathBuf,
    file: Box<dyn VfsFile>,
    length: u64,
}

/// The spare segments of a log.
pub(crate) struct Spares {
    owner: Owner,
    segment_bytes: u64,
    most: usize,
    free: Vec<Spare>,
    /// Retired by a checkpoint, and not freed yet.
    retired: VecDeque<Spare>,
    preparing: Option<Preparing>,
    /// Preparing failed since the last roll; trying again at once would fail again.
    gave_up: bool,
    next_number: u64,
}

impl Spares {
    pub(crate) fn new(owner: Owner, segment_bytes: u64, most: usize, free: Vec<Spare>, next_number: u64) -> Spares {
        Spares {
            owner,
            segment_bytes,
            most,
            free,
            retired: VecDeque::new(),
            preparing: None,
            gave_up: false,
            next_number,
        }
    }

    fn next_path(&mut self) -> PathBuf {
        let path = segment_path(self.next_number);
        self.next_number += 1;
        path
    }

    /// A file for a segment of at least `needed` bytes: a free one, the one in preparation, or a new one. Gives its path, the file,
    /// its capacity, and whether its name may not be durable yet.
    pub(crate) fn take(
        &mut self,
        vfs: &dyn Vfs,
        needed: u64,
    ) -> Result<(PathBuf, Box<dyn VfsFile>, u64, bool), StorageError> {
        self.gave_up = false;
        if let Some(place) = self.free.iter().position(|spare| spare.capacity >= needed) {
            let spare = self.free.swap_remove(place);
            let file = open(vfs, &spare.path)?;
            return Ok((spare.path, file, spare.capacity, false));
        }
        if needed <= self.segment_bytes
            && let Some(mut preparing) = self.preparing.take()
        {
            preparing.file.allocate(self.segment_bytes).map_err(StorageError::io("allocating", &preparing.path))?;
            return Ok((preparing.path, preparing.file, self.segment_bytes, true));
        }
        let path = self.next_path();
        let capacity = needed.max(self.segment_bytes);
        let file = create(vfs, &path, capacity)?;
        Ok((path, file, capacity, true))
    }

    /// Notes a segment that the metadata no longer counts as live.
    pub(crate) fn retire(&mut self, spare: Spare) {
        self.retired.push_back(spare);
    }

    /// Whether a step is due so that a spare is ready in time: `used` of the `capacity` of the present segment is written.
    pub(crate) fn is_due(&self, used: u64, capacity: u64) -> bool {
        let prepared = self.preparing.as_ref().map_or(0, |preparing| preparing.length);
        // Twice as far as the present segment, so that the spare is ready at its half.
        let behind = prepared.saturating_mul(capacity) < used.saturating_mul(2).saturating_mul(self.segment_bytes);
        !self.retired.is_empty() || (self.wants_to_prepare() && behind)
    }

    /// Whether there is anything to do in an idle moment.
    pub(crate) fn has_work(&self) -> bool {
        !self.retired.is_empty() || self.wants_to_prepare()
    }

    fn wants_to_prepare(&self) -> bool {
        self.free.is_empty() && self.retired.is_empty() && !self.gave_up
    }

    /// Does one step: frees a retired segment, or writes a piece of the next spare. A failure to free is final; a failure to prepare
    /// only gives the spare up, since nothing relies on it.
    pub(crate) fn step(&mut self, vfs: &dyn Vfs) -> Result<(), StorageError> {
        if let Some(spare) = self.retired.pop_front() {
            let is_usual = spare.capacity == self.segment_bytes;
            if !is_usual || self.free.len() >= self.most {
                return remove(vfs, &spare.path);
            }
            if retire(vfs, self.owner, &spare.path, spare.capacity)? {
                self.free.push(spare);
            }
            return Ok(());
        }
        if self.wants_to_prepare() && self.prepare(vfs).is_err() {
            self.gave_up = true;
            if let Some(preparing) = self.preparing.take() {
                // Best effort: a start removes what is left.
                let _ = vfs.remove(&preparing.path);
            }
        }
        Ok(())
    }

    fn prepare(&mut self, vfs: &dyn Vfs) -> Result<(), StorageError> {
        if self.preparing.is_none() {
            let path = self.next_path();
            let file = create(vfs, &path, 0)?;
            self.preparing = Some(Preparing { path, file, length: 0 });
        }
        let Some(preparing) = &mut self.preparing else { return Ok(()) };
        let path = &preparing.path;
        let length = (preparing.length + STEP_BYTES).min(self.segment_bytes);
        preparing.file.allocate(length).map_err(StorageError::io("allocating", path))?;
        preparing.file.sync_data().map_err(StorageError::io("syncing", path))?;
        preparing.length = length;
        if length == self.segment_bytes {
            write_header(&mut *preparing.file, path, &self.owner.free(length))?;
            sync_directory(vfs)?;
            self.free.push(Spare { path: path.clone(), capacity: length });
            self.preparing = None;
        }
        Ok(())
    }
}
