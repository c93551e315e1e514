//! The records that are written again at the head of each new segment.

use crate::group::{GroupBuffer, RecordKind};
use quorate_framework::Encoded;
use std::collections::BTreeMap;

/// Of all records with one key the latest, in the order in which they were last written.
#[derive(Debug, Default)]
pub(crate) struct Carry {
    latest: BTreeMap<u64, u64>,
    records: BTreeMap<u64, Encoded>,
    written: u64,
}

impl Carry {
    /// Notes a record; it replaces the one with its key.
    pub(crate) fn note(&mut self, key: u64, record: Encoded) {
        self.written += 1;
        if let Some(before) = self.latest.insert(key, self.written) {
            self.records.remove(&before);
        }
        self.records.insert(self.written, record);
    }

    /// Bytes that [`Carry::put`] adds at most.
    pub(crate) fn bytes(&self) -> u64 {
        let frame = crate::group::RECORD_FRAME_BYTES;
        self.records.values().map(|record| (record.length() + frame) as u64).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Puts all of them into a group.
    pub(crate) fn put(&self, group: &mut GroupBuffer) {
        self.records.values().for_each(|record| group.push(RecordKind::Carried, record));
    }
}
