//! Looking at a data directory without changing it: what `quorate wal check` and `quorate wal dump` show.

use crate::error::RecoveryError;
use crate::group::RecordKind;
use crate::identity::Identity;
use crate::metadata::Metadata;
use crate::read::read_directory;
use quorate_framework::vfs::Vfs;
use quorate_framework::{Position, RecoverySpec};
use std::path::Path;

/// What a check found. That there is a report at all means that the directory can be recovered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// The metadata.
    pub metadata: Metadata,
    /// Records in the log.
    pub records: u64,
    /// Groups in the log.
    pub groups: u64,
    /// Segments of the log.
    pub segments: u64,
    /// Segments that are free or were never finished.
    pub unused_segments: u64,
    /// Bytes of the log's groups on disk.
    pub bytes: u64,
    /// Sequence of the last group; 0 if there is none.
    pub last_group: u64,
    /// The highest sequence that some group says was synced. What is above could be lost without a trace.
    pub vouched_group: u64,
    /// The highest position among the records.
    pub last_position: Position,
    /// Bytes of a torn tail, which a start will cut.
    pub torn_bytes: u64,
    /// What is odd, one sentence each.
    pub anomalies: Vec<String>,
}

/// A record as `dump` shows it.
#[derive(Clone, Copy, Debug)]
pub struct DumpedRecord<'a, S> {
    /// The segment file.
    pub file: &'a Path,
    /// Where its group begins.
    pub offset: u64,
    /// The group's sequence.
    pub group: u64,
    /// The highest sequence that was known to be synced when the group was written.
    pub synced_upto: u64,
    /// What the record is.
    pub kind: RecordKind,
    /// The protocol's record; none for a seal.
    pub record: Option<&'a S>,
}

/// Reads everything as a start would, replay included, and changes nothing. `identity` is checked if given. Blocks.
///
/// # Errors
/// Why a start would refuse.
pub fn check<S: RecoverySpec>(vfs: &dyn Vfs, identity: Option<&Identity>) -> Result<CheckReport, RecoveryError> {
    dump::<S>(vfs, identity, &mut |_| {})
}

/// Like [`check`], and shows each record on the way, in the order of the log: also those before the place where it fails.
///
/// # Errors
/// Why a start would refuse.
pub fn dump<S: RecoverySpec>(
    vfs: &dyn Vfs,
    identity: Option<&Identity>,
    show: &mut dyn FnMut(DumpedRecord<'_, S>),
) -> Result<CheckReport, RecoveryError> {
    let directory = read_directory::<S>(vfs, identity, &mut |group, kind, record| {
        show(DumpedRecord {
            file: group.path,
            offset: group.offset,
            group: group.header.sequence,
            synced_upto: group.header.synced_upto,
            kind,
            record,
        });
    })?;
    let log = directory.log.as_ref();
    let segments = log.map_or(0, |log| log.chain.len() as u64);
    let inventory = &directory.inventory;
    let files = (inventory.live.len() + inventory.free.len() + inventory.blank.len()) as u64;
    Ok(CheckReport {
        records: log.map_or(0, |log| log.records),
        groups: log.map_or(0, |log| log.groups),
        segments,
        unused_segments: files - segments,
        bytes: log.map_or(0, |log| log.bytes),
        last_group: log.map_or(0, |log| log.next_sequence - 1),
        vouched_group: log.map_or(0, |log| log.vouched),
        last_position: directory.last_position,
        torn_bytes: log.map_or(0, |log| log.tail.bytes),
        anomalies: directory.completion.anomalies,
        metadata: directory.metadata,
    })
}
