//! Reads the log from its first live group to its end, and tells a torn tail from rot. Changes nothing.

use crate::error::{RecoveryError, StorageError};
use crate::format::{BLOCK, BLOCK_BYTES, u64_at};
use crate::group::{GROUP_HEADER_BYTES, GroupHeader, RecordKind, RecordView, records};
use crate::inventory::{Inventory, SegmentFile};
use crate::tail::{Tail, find_tail};
use quorate_framework::vfs::{Vfs, VfsFile};
use quorate_framework::{Position, WireError};
use std::collections::VecDeque;
use std::path::Path;

/// A group as it was read, with its records.
#[derive(Debug)]
pub(crate) struct GroupView<'a> {
    pub(crate) path: &'a Path,
    pub(crate) offset: u64,
    pub(crate) header: GroupHeader,
    pub(crate) records: &'a [RecordView<'a>],
}

/// What is told of every group: it gives the highest position of the group's records.
pub(crate) type Visitor<'a> = dyn FnMut(&GroupView<'_>) -> Result<Option<Position>, RecoveryError> + 'a;

/// A segment of the log.
#[derive(Clone, Debug)]
pub(crate) struct ChainSegment {
    pub(crate) file: SegmentFile,
    /// Where the next group would begin.
    pub(crate) end: u64,
    /// The highest position of its records.
    pub(crate) highest: Option<Position>,
}

/// Where a group lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupPlace {
    sequence: u64,
    /// Which segment of the chain.
    pub(crate) segment: usize,
    pub(crate) offset: u64,
    /// Bytes on disk.
    pub(crate) length: u64,
}

/// The log as it was found.
#[derive(Debug)]
pub(crate) struct FoundLog {
    /// Its segments, oldest first; at least one.
    pub(crate) chain: Vec<ChainSegment>,
    /// Sequence that the next group gets.
    pub(crate) next_sequence: u64,
    /// CRC of the last group; 0 if there is none.
    pub(crate) last_checksum: u32,
    /// The highest sequence that some group says is synced.
    pub(crate) vouched: u64,
    /// The groups above that.
    pub(crate) unvouched: VecDeque<GroupPlace>,
    pub(crate) groups: u64,
    pub(crate) records: u64,
    /// Bytes of the groups on disk.
    pub(crate) bytes: u64,
    pub(crate) tail: Tail,
    /// Segments that begin before the first live group: retired, but not freed.
    pub(crate) stale: Vec<SegmentFile>,
}

/// Reads the log that begins with the group `first_group`. Blocks; memory for one group at a time.
pub(crate) fn scan(
    vfs: &dyn Vfs,
    inventory: &Inventory,
    first_group: u64,
    visit: &mut Visitor<'_>,
) -> Result<FoundLog, RecoveryError> {
    let first = only_first(inventory, first_group)?;
    let mut found = FoundLog {
        chain: Vec::new(),
        next_sequence: first_group,
        last_checksum: 0,
        vouched: 0,
        unvouched: VecDeque::new(),
        groups: 0,
        records: 0,
        bytes: 0,
        tail: Tail::default(),
        stale: inventory.live.iter().filter(|file| file.header.first_group < first_group).cloned().collect(),
    };
    let mut next = Some(first);
    while let Some(segment) = next {
        next = read_segment(vfs, inventory, segment, &mut found, visit)?;
    }
    found.tail = find_tail(vfs, inventory, &found)?;
    Ok(found)
}

fn only_first(inventory: &Inventory, first_group: u64) -> Result<&SegmentFile, RecoveryError> {
    let mut candidates = inventory.live.iter().filter(|file| file.header.first_group == first_group);
    let first = candidates.next().ok_or(RecoveryError::LogMissing { first_group })?;
    match candidates.next() {
        None => Ok(first),
        Some(second) => Err(RecoveryError::Damaged {
            file: second.path.clone(),
            offset: 0,
            reason: format!("it begins with group {first_group}, and so does {}", first.path.display()),
        }),
    }
}

/// Reads one segment to its end; gives the one that its seal names.
fn read_segment<'a>(
    vfs: &dyn Vfs,
    inventory: &'a Inventory,
    segment: &'a SegmentFile,
    found: &mut FoundLog,
    visit: &mut Visitor<'_>,
) -> Result<Option<&'a SegmentFile>, RecoveryError> {
    let path = &segment.path;
    let damaged = |offset, reason| RecoveryError::Damaged { file: path.clone(), offset, reason };
    if segment.length < segment.header.capacity {
        let reason = format!("the file ends here, and its header says {} bytes", segment.header.capacity);
        return Err(damaged(segment.length, reason));
    }
    let file = vfs.open(path).map_err(StorageError::io("opening", path))?;
    let mut current = ChainSegment { file: segment.clone(), end: BLOCK, highest: None };
    let mut buffer = Vec::new();
    loop {
        let offset = current.end;
        let previous = (found.next_sequence == 1 || found.groups > 0).then_some(found.last_checksum);
        let Some((header, checksum)) = read_group(&*file, segment, offset, found.next_sequence, previous, &mut buffer)?
        else {
            found.chain.push(current);
            return Ok(None);
        };
        let body = &buffer[GROUP_HEADER_BYTES..GROUP_HEADER_BYTES + header.length as usize];
        let list =
            records(body, header.count).map_err(|error| RecoveryError::Record { file: path.clone(), offset, error })?;
        let highest = visit(&GroupView { path, offset, header, records: &list })?;
        current.highest = current.highest.max(highest);
        let length = buffer.len() as u64;
        current.end += length;
        let place = GroupPlace { sequence: header.sequence, segment: found.chain.len(), offset, length };
        found.unvouched.push_back(place);
        found.next_sequence += 1;
        found.last_checksum = checksum;
        found.vouched = found.vouched.max(header.synced_upto);
        found.groups += 1;
        found.records += u64::from(header.count);
        found.bytes += length;
        while found.unvouched.front().is_some_and(|place| place.sequence <= found.vouched) {
            found.unvouched.pop_front();
        }
        if let Some(seal) =
            seal_of(&list).map_err(|error| RecoveryError::Record { file: path.clone(), offset, error })?
        {
            found.chain.push(current);
            let next = inventory
                .live
                .iter()
                .find(|file| (file.header.salt, file.header.first_group) == seal && seal.1 == found.next_sequence);
            return next.map(Some).ok_or_else(|| {
                damaged(offset, format!("the segment is sealed, and no other begins with group {}", seal.1))
            });
        }
    }
}

/// Salt and first group of the segment that a seal names.
fn seal_of(records: &[RecordView<'_>]) -> Result<Option<(u64, u64)>, WireError> {
    if records.iter().all(|record| record.kind != RecordKind::Seal) {
        return Ok(None);
    }
    match records {
        [seal] if seal.head.len() == 16 && seal.body.is_empty() => {
            Ok(Some((u64_at(seal.head, 0), u64_at(seal.head, 8))))
        }
        _ => Err(WireError::Meaningless { what: "seal among records", value: records.len() as u64 }),
    }
}

/// Reads the group at an offset into `buffer`, if it is the expected one; gives its header and CRC.
fn read_group(
    file: &dyn VfsFile,
    segment: &SegmentFile,
    offset: u64,
    expected: u64,
    previous: Option<u32>,
    buffer: &mut Vec<u8>,
) -> Result<Option<(GroupHeader, u32)>, RecoveryError> {
    let path = &segment.path;
    let capacity = segment.header.capacity;
    if offset + BLOCK > capacity {
        return Ok(None);
    }
    buffer.clear();
    buffer.resize(BLOCK_BYTES, 0);
    file.read_exact_at(buffer, offset).map_err(StorageError::io("reading", path))?;
    let Some((header, checksum)) = GroupHeader::decode(buffer) else { return Ok(None) };
    let follows = header.salt == segment.header.salt
        && header.sequence == expected
        && header.synced_upto < expected
        && previous.is_none_or(|previous| header.previous == previous);
    let Some(length) = header.padded_length().filter(|length| follows && offset + length <= capacity) else {
        return Ok(None);
    };
    // The length is at most the segment's capacity, which the file was seen to have.
    buffer.resize(length as usize, 0);
    file.read_exact_at(&mut buffer[BLOCK_BYTES..], offset + BLOCK).map_err(StorageError::io("reading", path))?;
    let is_whole = crc32fast::hash(&buffer[GROUP_HEADER_BYTES..]) == header.body_checksum;
    Ok(is_whole.then_some((header, checksum)))
}
