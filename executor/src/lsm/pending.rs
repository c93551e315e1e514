//! The writes of the open batch, seen by reads before they are committed.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::Bound;

/// Memory of a write beside key and value, estimated, in bytes.
const WRITE_OVERHEAD_BYTES: u64 = 96;

/// The last write to each key of the keyspace; `None` is a removal.
#[derive(Debug, Default)]
pub(super) struct Pending {
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    bytes: u64,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Memory held, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.writes.get(key).map(Option::as_deref)
    }

    pub(super) fn set(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.bytes += (key.len() + value.as_ref().map_or(0, Vec::len)) as u64 + WRITE_OVERHEAD_BYTES;
        self.writes.insert(key, value);
    }

    pub(super) fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Range<'_, Vec<u8>, Option<Vec<u8>>> {
        self.writes.range::<[u8], _>((from, to))
    }

    /// Takes all writes out, by rising key.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)> + use<> {
        self.bytes = 0;
        std::mem::take(&mut self.writes).into_iter()
    }
}
