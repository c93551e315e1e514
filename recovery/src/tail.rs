//! What lies at and after the end of the log: nothing, a torn tail that may be cut, or the proof that something synced is gone.

use crate::error::{RecoveryError, StorageError};
use crate::format::{BLOCK, BLOCK_BYTES, u64_at};
use crate::group::{GROUP_HEADER_BYTES, GroupHeader};
use crate::inventory::{Inventory, SegmentFile};
use crate::scan::FoundLog;
use quorate_framework::vfs::Vfs;

/// Bytes read at a time while looking for groups.
const WINDOW_BYTES: u64 = 1 << 20;

/// What is to be cut, in the order in which it is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    /// Segments after the log's end, last one first: freed.
    pub(crate) later: Vec<SegmentFile>,
    /// Offsets of groups in the log's last segment, last one first: their first block is overwritten.
    pub(crate) offsets: Vec<u64>,
    /// Bytes of the groups that are cut.
    pub(crate) bytes: u64,
}

/// A place that looks like a group of this life of its segment.
struct Remnant {
    offset: u64,
    /// None if its header's CRC is wrong.
    header: Option<GroupHeader>,
}

/// Looks behind the log's end.
pub(crate) fn find_tail(vfs: &dyn Vfs, inventory: &Inventory, found: &FoundLog) -> Result<Tail, RecoveryError> {
    let Some(last) = found.chain.last() else { return Ok(Tail::default()) };
    let first_group = found.chain.first().map_or(0, |segment| segment.file.header.first_group);
    let mut tail = Tail::default();
    let refuse_if_synced = |remnant: &Remnant, at: &SegmentFile| match remnant.header {
        Some(header) if header.synced_upto >= found.next_sequence => Err(RecoveryError::Damaged {
            file: last.file.path.clone(),
            offset: last.end,
            reason: format!(
                "group {} is not there as it was written, and group {} ({} at byte {}) says that it was synced",
                found.next_sequence,
                header.sequence,
                at.path.display(),
                remnant.offset
            ),
        }),
        _ => Ok(()),
    };
    for remnant in remnants(vfs, &last.file, last.end)? {
        refuse_if_synced(&remnant, &last.file)?;
        tail.offsets.push(remnant.offset);
        tail.bytes += bytes_of(&remnant);
    }
    tail.offsets.reverse();
    for file in &inventory.live {
        let is_in_chain = found.chain.iter().any(|segment| segment.file.path == file.path);
        if is_in_chain || file.header.first_group < first_group {
            continue;
        }
        for remnant in remnants(vfs, file, BLOCK)? {
            refuse_if_synced(&remnant, file)?;
            if file.header.first_group < found.next_sequence {
                let reason = format!("it holds groups from {} on, and is no part of the log", file.header.first_group);
                return Err(RecoveryError::Damaged { file: file.path.clone(), offset: remnant.offset, reason });
            }
            tail.bytes += bytes_of(&remnant);
        }
        tail.later.push(file.clone());
    }
    tail.later.sort_by_key(|file| std::cmp::Reverse(file.header.first_group));
    Ok(tail)
}

/// Whether a segment holds anything that looks like a group of its life.
pub(crate) fn holds_groups(vfs: &dyn Vfs, file: &SegmentFile) -> Result<bool, RecoveryError> {
    Ok(!remnants(vfs, file, BLOCK)?.is_empty())
}

fn bytes_of(remnant: &Remnant) -> u64 {
    remnant.header.and_then(|header| header.padded_length()).unwrap_or(BLOCK)
}

/// All places from `start` on that look like groups of this life of the segment.
fn remnants(vfs: &dyn Vfs, segment: &SegmentFile, start: u64) -> Result<Vec<Remnant>, RecoveryError> {
    let path = &segment.path;
    let file = vfs.open(path).map_err(StorageError::io("opening", path))?;
    let end = segment.header.capacity.min(segment.length) / BLOCK * BLOCK;
    let mut list = Vec::new();
    let mut offset = start;
    let mut window = Vec::new();
    while offset < end {
        window.resize(WINDOW_BYTES.min(end - offset) as usize, 0);
        file.read_exact_at(&mut window, offset).map_err(StorageError::io("reading", path))?;
        for block in window.chunks_exact(BLOCK_BYTES) {
            let header = GroupHeader::decode(&block[..GROUP_HEADER_BYTES]).map(|(header, _)| header);
            let salt = header.map_or_else(|| u64_at(block, 16), |header| header.salt);
            if salt == segment.header.salt && (header.is_some() || block.starts_with(b"QGRP")) {
                list.push(Remnant { offset, header });
            }
            offset += BLOCK;
        }
    }
    Ok(list)
}
