//! Reading a whole data directory, without changing anything.

use crate::carry::Carry;
use crate::error::RecoveryError;
use crate::group::{RecordKind, RecordView};
use crate::identity::Identity;
use crate::inventory::Inventory;
use crate::metadata::{METADATA_FILE, Metadata, StoredRecord};
use crate::metadata_file;
use crate::scan::{FoundLog, GroupView, scan};
use crate::tail::holds_groups;
use bytes::Bytes;
use quorate_framework::vfs::Vfs;
use quorate_framework::{Completion, Decoder, Encoded, Position, RecoverySpec, WireError};
use std::path::{Path, PathBuf};

/// What a directory holds, read and replayed.
pub(crate) struct Directory<S: RecoverySpec> {
    pub(crate) metadata: Metadata,
    pub(crate) inventory: Inventory,
    /// None if there is no log yet.
    pub(crate) log: Option<FoundLog>,
    pub(crate) state: S::State,
    pub(crate) completion: Completion<S>,
    pub(crate) carry: Carry,
    pub(crate) last_position: Position,
}

/// A record as it is shown to whoever looks at a log.
pub(crate) type Look<'a, S> = dyn FnMut(&GroupView<'_>, RecordKind, Option<&S>) + 'a;

/// Reads the metadata and checks whose it is; `identity` is none for whoever only looks.
pub(crate) fn read_metadata(vfs: &dyn Vfs, identity: Option<&Identity>) -> Result<Metadata, RecoveryError> {
    let Some(metadata) = metadata_file::load(vfs)? else {
        // Whose segments they are does not matter any more.
        return match first_segment(vfs)? {
            Some(path) => Err(RecoveryError::MetadataMissing(path)),
            None => Err(RecoveryError::NotInitialised),
        };
    };
    if let Some(identity) = identity {
        metadata.check_identity(identity)?;
    }
    Ok(metadata)
}

/// Some segment file, if there is one.
pub(crate) fn first_segment(vfs: &dyn Vfs) -> Result<Option<PathBuf>, RecoveryError> {
    let list = vfs.list().map_err(crate::error::StorageError::io("listing", Path::new(crate::format::DIRECTORY)))?;
    Ok(list.into_iter().find(|path| crate::format::segment_number(path).is_some()))
}

/// Reads and replays everything. Blocks.
pub(crate) fn read_directory<S: RecoverySpec>(
    vfs: &dyn Vfs,
    identity: Option<&Identity>,
    look: &mut Look<'_, S>,
) -> Result<Directory<S>, RecoveryError> {
    let metadata = read_metadata(vfs, identity)?;
    let inventory = Inventory::take(vfs, &metadata.identity())?;
    let in_metadata = |error| RecoveryError::Replay { file: PathBuf::from(METADATA_FILE), offset: 0, error };
    let mut state = S::start_from(metadata.snapshot.as_ref()).map_err(in_metadata)?;
    let mut carry = Carry::default();
    let mut last_position = Position::ZERO;
    let log = if metadata.log_exists {
        let mut visit = |group: &GroupView<'_>| -> Result<Option<Position>, RecoveryError> {
            let highest = replay_group::<S>(group, metadata.first_group, &mut state, &mut carry, look)?;
            last_position = last_position.max(highest.unwrap_or_default());
            Ok(highest)
        };
        Some(scan(vfs, &inventory, metadata.first_group, &mut visit)?)
    } else {
        for file in &inventory.live {
            if holds_groups(vfs, file)? {
                return Err(RecoveryError::LogUnexpected(file.path.clone()));
            }
        }
        None
    };
    if let Some(record) = &metadata.record {
        let record: S = decode_stored(record).map_err(|error| RecoveryError::Record {
            file: PathBuf::from(METADATA_FILE),
            offset: 0,
            error,
        })?;
        record.replay(&mut state).map_err(in_metadata)?;
    }
    let completion = S::complete(&mut state).map_err(in_metadata)?;
    Ok(Directory { metadata, inventory, log, state, completion, carry, last_position })
}

fn replay_group<S: RecoverySpec>(
    group: &GroupView<'_>,
    first_group: u64,
    state: &mut S::State,
    carry: &mut Carry,
    look: &mut Look<'_, S>,
) -> Result<Option<Position>, RecoveryError> {
    let mut highest = None;
    for view in group.records {
        if view.kind == RecordKind::Seal {
            look(group, view.kind, None);
            continue;
        }
        let (file, offset) = (group.path.to_owned(), group.offset);
        let (record, encoded) = decode::<S>(view).map_err(|error| RecoveryError::Record { file, offset, error })?;
        look(group, view.kind, Some(&record));
        if let Some(key) = record.carry_key() {
            carry.note(key, encoded);
        }
        // Carried records stand for segments that are gone. While the originals are there, they have been replayed already.
        if view.kind == RecordKind::Carried && group.header.sequence != first_group {
            continue;
        }
        if view.kind == RecordKind::Protocol {
            highest = highest.max(record.position());
        }
        let (file, offset) = (group.path.to_owned(), group.offset);
        record.replay(state).map_err(|error| RecoveryError::Replay { file, offset, error })?;
    }
    Ok(highest)
}

/// Decodes a record; its body gets memory of its own, so that it pins no more than itself.
fn decode<S: RecoverySpec>(view: &RecordView<'_>) -> Result<(S, Encoded), WireError> {
    let body = Bytes::copy_from_slice(view.body);
    let record = S::decode(Decoder::new(view.head, body.clone()))?;
    let body = if record.carry_key().is_some() && !body.is_empty() { vec![body] } else { Vec::new() };
    let head = if record.carry_key().is_some() { Bytes::copy_from_slice(view.head) } else { Bytes::new() };
    Ok((record, Encoded { head, body }))
}

fn decode_stored<S: RecoverySpec>(record: &StoredRecord) -> Result<S, WireError> {
    S::decode(Decoder::new(&record.head, Bytes::from(record.body.clone())))
}
