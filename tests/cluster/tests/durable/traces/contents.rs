//! What the bytes are that a traced process wrote into its data directory, as `docs/STORAGE-FORMAT.md` draws them.

use bytes::Bytes;
use quorate_cluster_tests::strace::Call;
use quorate_framework::{Decoder, RecoverySpec};
use quorate_raft::{HardState, RaftRecord};
use quorate_recovery::Metadata;
use std::rc::Rc;

/// Bytes of a group's header, and of what stands before the head of a record.
const GROUP_HEADER_BYTES: usize = 64;
const RECORD_FRAME_BYTES: usize = 12;

/// One write.
#[derive(Debug)]
pub(crate) enum Content {
    /// The header of a segment that is to be part of the log.
    Live { salt: u64, first_group: u64 },
    /// The header of a segment that may be used again.
    Free,
    /// A group of the log.
    Group(Group),
    /// A whole metadata file.
    Metadata(Box<Metadata>),
    /// Zeros of a segment, a piece of a snapshot.
    Other,
}

/// A record of Raft, as far as its head tells.
#[derive(Debug)]
pub(crate) enum Record {
    /// Entries from the first of these indexes to the last.
    Entries(u64, u64),
    /// The log ends before this index.
    Truncate(u64),
}

/// A group of the log.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) sequence: u64,
    pub(crate) salt: u64,
    pub(crate) records: Vec<Record>,
    /// Salt and first group of the segment that follows.
    pub(crate) seal: Option<(u64, u64)>,
    /// Whether some of its records are not known.
    is_cut: bool,
}

/// What all calls of a trace have written.
pub(crate) fn contents(calls: &[Call]) -> Vec<Option<Rc<Content>>> {
    let mut list: Vec<Option<Content>> = calls.iter().map(Content::of).collect();
    let mut groups: Vec<&mut Group> = list.iter_mut().flatten().filter_map(Content::group).collect();
    groups.sort_by_key(|group| group.sequence);
    assert!(groups.last().is_some_and(|group| !group.is_cut), "nothing tells where the entries of the last group end");
    // What follows a group tells where the entries end of which the heads are not known.
    let mut next = None;
    for group in groups.iter_mut().rev() {
        if let (true, Some(next), Some(Record::Entries(_, last))) = (group.is_cut, next, group.records.last_mut()) {
            *last = next - 1;
        }
        if let Some(Record::Entries(first, _)) = group.records.first() {
            next = Some(*first);
        }
    }
    list.into_iter().map(|content| content.map(Rc::new)).collect()
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(*bytes[offset..].first_chunk().unwrap())
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(*bytes[offset..].first_chunk().unwrap())
}

impl Content {
    /// What a call has written. None if it was none that writes to a file, or failed.
    fn of(call: &Call) -> Option<Content> {
        let writes = ["write", "writev", "pwrite64", "pwritev", "pwritev2"].contains(&call.name.as_str());
        if !writes || call.result <= 0 {
            return None;
        }
        let bytes = &call.written()[..];
        Some(match bytes.first_chunk::<8>() {
            Some(b"QUORLIVE") => Content::Live { salt: u64_at(bytes, 32), first_group: u64_at(bytes, 40) },
            Some(b"QUORFREE") => Content::Free,
            Some(b"QUORMETA") => Content::Metadata(Box::new(Metadata::decode(bytes).unwrap())),
            Some([b'Q', b'G', b'R', b'P', ..]) => Content::Group(Group::of(bytes, call.is_whole())),
            _ => Content::Other,
        })
    }

    fn group(&mut self) -> Option<&mut Group> {
        if let Content::Group(group) = self { Some(group) } else { None }
    }
}

impl Record {
    fn of(head: &[u8]) -> Record {
        match head[0] {
            // Behind the tag: how many, and the last.
            1 => Record::Entries(u64_at(head, 5) + 1 - u64::from(u32_at(head, 1)), u64_at(head, 5)),
            2 => Record::Truncate(u64_at(head, 1)),
            other => panic!("a record with tag {other} in a log that nothing was installed in"),
        }
    }
}

impl Group {
    /// Reads it; of one that was not kept whole, as far as the heads of its records are there.
    fn of(bytes: &[u8], is_whole: bool) -> Group {
        let (length, count) = (u64_at(bytes, 32) as usize, u32_at(bytes, 44));
        let (sequence, salt) = (u64_at(bytes, 8), u64_at(bytes, 16));
        let mut group = Group { sequence, salt, records: Vec::new(), seal: None, is_cut: false };
        let mut rest = &bytes[GROUP_HEADER_BYTES..GROUP_HEADER_BYTES + length];
        for _ in 0..count {
            let (length, head_length) = (u32_at(rest, 0) as usize, u32_at(rest, 8) as usize);
            let head = &rest[RECORD_FRAME_BYTES..RECORD_FRAME_BYTES + head_length];
            match rest[4] {
                0 | 1 if !is_whole && head.first().is_none_or(|tag| *tag == 0) => {
                    group.is_cut = true;
                    return group;
                }
                1 => group.records.push(Record::of(head)),
                3 => group.seal = Some((u64_at(head, 0), u64_at(head, 8))),
                other => panic!("a record of kind {other}, which Raft has not"),
            }
            rest = &rest[RECORD_FRAME_BYTES + length..];
        }
        assert!(rest.is_empty(), "the records fill the group");
        group
    }
}

/// Term and vote that metadata hold.
pub(crate) fn hard_state(metadata: &Metadata) -> HardState {
    let Some(record) = &metadata.record else { return HardState::default() };
    match RaftRecord::decode(Decoder::new(&record.head, Bytes::from(record.body.clone()))).unwrap() {
        RaftRecord::HardState(state) => state,
        other => panic!("{other:?} is no record of the metadata"),
    }
}
