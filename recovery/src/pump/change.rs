//! The change of metadata: what a group does after its sync, and the order against the segments it releases.

use super::Pump;
use crate::error::StorageError;
use crate::metadata::{Metadata, StoredRecord};
use crate::metadata_file;
use crate::settings::WalSync;
use crate::submission::MetadataChange;
use quorate_framework::{Position, RecoverySpec};

/// Something that changes the metadata, ready to be applied.
#[derive(Debug)]
pub(super) enum Change {
    Record(StoredRecord),
    Driver(MetadataChange),
}

impl<S: RecoverySpec> Pump<S> {
    /// Applies the changes in their order, and replaces the metadata file once for all of them.
    pub(super) fn change_metadata(&mut self, changes: Vec<Change>) -> Result<(), StorageError> {
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
            self.sync_all()?;
        }
        metadata.first_group = self.log.first_group();
        self.replace_metadata(metadata)?;
        self.log.retire(retired);
        Ok(())
    }

    /// Syncs all of a log that is not synced while it runs. If that fails, what was acknowledged may be gone.
    pub(super) fn sync_all(&mut self) -> Result<(), StorageError> {
        let synced = self.log.sync_all(&*self.vfs);
        if synced.is_err() {
            metadata_file::give_incarnation_up(&*self.vfs, &self.metadata);
        }
        synced
    }

    pub(super) fn replace_metadata(&mut self, metadata: Metadata) -> Result<(), StorageError> {
        metadata_file::replace(&*self.vfs, &metadata)?;
        self.metadata = metadata;
        self.metadata_writes += 1;
        Ok(())
    }
}
