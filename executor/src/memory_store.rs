//! The store in memory: a hash map for point access, beside it the keys in order.
//!
//! Key and value of an entry lie in one buffer. The ordered half is touched only when a key appears or disappears, so overwriting a key costs one hash lookup and a copy into
//! the value's own buffer: no allocation. Nothing that can be observed depends on the order of the hash map.

use crate::entry_buffer::EntryBuffer;
use crate::store::{KeyValue, OrderedStore, StoreError, is_empty_range};
use crate::view::{LiveViews, MemoryView};
use hashbrown::{DefaultHashBuilder, HashTable};
use quorate_framework::Position;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

/// Memory of an entry beside its buffer, estimated: the key in the ordered half with its header, the slots in table and set with their
/// spare room, the allocator's headers.
const ENTRY_OVERHEAD_BYTES: u64 = 128;

/// A store up to this size stays in the processor's near caches by itself, in bytes.
const NEAR_CACHE_BYTES: u64 = 128 << 10;

/// Keys and values in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    entries: HashTable<EntryBuffer>,
    hasher: DefaultHashBuilder,
    order: BTreeSet<Arc<[u8]>>,
    views: LiveViews,
    applied: Position,
    batch_open: bool,
    content_bytes: u64,
}

impl MemoryStore {
    /// An empty store, before the first position.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Views that are alive, as far as writes have noticed.
    #[must_use]
    pub fn live_views(&self) -> usize {
        self.views.len()
    }

    #[inline]
    fn find(&self, key: &[u8]) -> Option<&EntryBuffer> {
        self.entries.find(self.hasher.hash_one(key), |entry| entry.has_key(key))
    }

    /// The entry of a key that is about to be changed, its old value kept for the views that are alive.
    #[inline]
    fn find_to_change(&mut self, key: &[u8]) -> Option<&mut EntryBuffer> {
        let entry = self.entries.find_mut(self.hasher.hash_one(key), |entry| entry.has_key(key))?;
        if !self.views.is_empty() {
            preserve(&mut self.views, &self.order, key, entry.value());
        }
        Some(entry)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) {
        let shared: Arc<[u8]> = Arc::from(key);
        if !self.views.is_empty() {
            self.views.preserve(&shared, None);
        }
        let (entry, hasher) = (EntryBuffer::new(key, value), &self.hasher);
        self.content_bytes += entry.memory_bytes() + key.len() as u64;
        self.order.insert(shared);
        self.entries.insert_unique(hasher.hash_one(key), entry, |entry| hasher.hash_one(entry.key()));
    }
}

/// Keeps the old value of a key for the views that are alive. Out of line: without views it is never called.
#[cold]
fn preserve(views: &mut LiveViews, order: &BTreeSet<Arc<[u8]>>, key: &[u8], old: &[u8]) {
    if let Some(shared) = order.get(key) {
        views.preserve(shared, Some(old));
    }
}

impl KeyValue for MemoryStore {
    type Value<'a> = &'a [u8];

    #[inline]
    fn wants_announcements(&self) -> bool {
        self.content_bytes >= NEAR_CACHE_BYTES
    }

    fn announce(&self, keys: &[&[u8]]) {
        // Two short loops: the fewer instructions lie between two memory accesses, the more of them the processor has under way.
        let hashes: Vec<u64> = keys.iter().map(|key| self.hasher.hash_one(key)).collect();
        let mut sum = 0_u8;
        for hash in hashes {
            // Whichever entry the hash leads to first: almost always the right one, and a wrong one does no harm.
            if let Some(entry) = self.entries.find(hash, |_| true) {
                sum = sum.wrapping_add(entry.touch());
            }
        }
        std::hint::black_box(sum);
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        Ok(self.find(key).map(EntryBuffer::value))
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.batch_open = true;
        let Some(entry) = self.find_to_change(key) else {
            self.insert(key, value);
            return Ok(());
        };
        let before = entry.memory_bytes();
        entry.set_value(value);
        let after = entry.memory_bytes();
        self.content_bytes = self.content_bytes + after - before;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, StoreError> {
        let entry = match self.entries.find_entry(self.hasher.hash_one(key), |entry| entry.has_key(key)) {
            Ok(occupied) => occupied.remove().0,
            Err(_) => return Ok(false),
        };
        self.batch_open = true;
        self.content_bytes -= entry.memory_bytes() + key.len() as u64;
        if let Some(shared) = self.order.take(key)
            && !self.views.is_empty()
        {
            self.views.preserve(&shared, Some(entry.value()));
        }
        Ok(true)
    }

    fn append(&mut self, key: &[u8], tail: &[u8]) -> Result<(), StoreError> {
        self.batch_open = true;
        let Some(entry) = self.find_to_change(key) else {
            self.insert(key, tail);
            return Ok(());
        };
        let before = entry.memory_bytes();
        entry.append(tail);
        let after = entry.memory_bytes();
        self.content_bytes = self.content_bytes + after - before;
        Ok(())
    }
}

impl OrderedStore for MemoryStore {
    type View = MemoryView;

    fn applied(&self) -> Position {
        self.applied
    }

    fn commit(&mut self, applied: Position) -> Result<(), StoreError> {
        if applied <= self.applied {
            return Err(StoreError::NotAhead { applied: self.applied, given: applied });
        }
        self.applied = applied;
        self.batch_open = false;
        self.views.forget_dropped();
        Ok(())
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        if is_empty_range(from, to) {
            return Ok(());
        }
        for key in self.order.range::<[u8], _>((from, to)) {
            if let Some(entry) = self.find(key)
                && visit(key, entry.value()).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn view(&mut self) -> Result<MemoryView, StoreError> {
        if self.batch_open { Err(StoreError::OpenBatch) } else { Ok(self.views.open()) }
    }

    fn view_get(&self, view: &MemoryView, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
        match self.views.of(view)?.get(key) {
            Some(preserved) => Ok(preserved.as_deref()),
            None => self.get(key),
        }
    }

    fn view_scan(
        &self,
        view: &MemoryView,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let preserved = self.views.of(view)?;
        if is_empty_range(from, to) {
            return Ok(());
        }
        let mut old = preserved.range::<[u8], _>((from, to)).peekable();
        let mut present = self.order.range::<[u8], _>((from, to)).peekable();
        // Two ascending lists are merged; where both have a key, the preserved value is the view's.
        loop {
            let take_old = match (old.peek(), present.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some((old, _)), Some(present)) => old <= present,
            };
            let entry = if take_old {
                let Some((key, value)) = old.next() else { return Ok(()) };
                present.next_if_eq(&key);
                value.as_deref().map(|value| (key, value))
            } else {
                present.next().and_then(|key| self.find(key).map(|entry| (key, entry.value())))
            };
            if let Some((key, value)) = entry
                && visit(key, value).is_break()
            {
                return Ok(());
            }
        }
    }

    fn keys(&self) -> u64 {
        self.order.len() as u64
    }

    fn memory_bytes(&self) -> u64 {
        self.content_bytes + self.keys() * ENTRY_OVERHEAD_BYTES + self.views.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    #[test]
    fn the_memory_store_conforms() {
        for seed in 0..8 {
            conformance::check_store(MemoryStore::new, seed, 3_000);
        }
    }

    #[test]
    fn overwriting_a_key_with_a_value_of_no_greater_size_keeps_its_buffer() {
        let mut store = MemoryStore::new();
        store.put(b"key", b"123456789").unwrap();
        let buffer = store.get(b"key").unwrap().unwrap().as_ptr();
        store.put(b"key", b"987654321").unwrap();
        store.put(b"key", b"short").unwrap();
        let value = store.get(b"key").unwrap().unwrap();
        assert_eq!((value, value.as_ptr()), (&b"short"[..], buffer));
    }

    #[test]
    fn memory_follows_contents_and_comes_back_to_zero() {
        let mut store = MemoryStore::new();
        store.put(b"large", &[1; 1 << 20]).unwrap();
        assert!(store.memory_bytes() >= 1 << 20);
        store.put(b"large", b"small now").unwrap();
        assert!(store.memory_bytes() < 1 << 10, "a large buffer is given back: {}", store.memory_bytes());
        for _ in 0..100 {
            store.append(b"list", b"element").unwrap();
        }
        assert!(store.memory_bytes() >= 700);
        store.delete(b"large").unwrap();
        store.delete(b"list").unwrap();
        assert_eq!(store.memory_bytes(), 0);
    }

    #[test]
    fn a_view_costs_only_what_changed_while_it_lives_and_nothing_after() {
        let mut store = MemoryStore::new();
        for key in 0..1_000_u32 {
            store.put(&key.to_le_bytes(), b"value").unwrap();
        }
        store.commit(Position(1)).unwrap();
        let without = store.memory_bytes();
        let view = store.view().unwrap();
        assert_eq!(store.memory_bytes(), without, "an untouched view costs nothing");
        store.put(&7_u32.to_le_bytes(), b"other").unwrap();
        let one = store.memory_bytes() - without;
        assert!((1..512).contains(&one), "one changed key costs one old value: {one}");
        assert_eq!(store.view_get(&view, &7_u32.to_le_bytes()), Ok(Some(&b"value"[..])));
        drop(view);
        store.commit(Position(2)).unwrap();
        assert_eq!((store.memory_bytes(), store.live_views()), (without, 0));
    }

    #[test]
    fn a_view_of_one_store_is_refused_by_another() {
        let (mut one, other) = (MemoryStore::new(), MemoryStore::new());
        let view = one.view().unwrap();
        assert!(matches!(other.view_get(&view, b"key"), Err(StoreError::Medium(_))));
    }
}
