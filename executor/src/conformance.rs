//! What every store is held to: random operations on it and on a model, compared after each step.
//!
//! A store's tests call [`check_store`] with a few seeds. The model is a `BTreeMap`; a view is a clone of it, an overlay too.

use crate::overlay::{Overlaid, WriteSet};
use crate::store::{KeyValue, OrderedStore, StoreError};
use quorate_framework::Position;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Views kept open at once, so that several overlap.
const VIEWS: usize = 3;

/// Runs `steps` random operations, drawn from `seed`, on a store that `make` gives and on a model, comparing every outcome. `make`
/// must give an empty store before the first position each time it is called.
///
/// # Panics
/// If the store does not do what the model does, or fails.
pub fn check_store<S: OrderedStore>(mut make: impl FnMut() -> S, seed: u64, steps: usize) {
    let mut store = make();
    assert_eq!(store.applied(), Position::ZERO, "a new store is before the first position");
    assert_eq!(store.range(Bound::Unbounded, Bound::Unbounded, 1), Ok(Vec::new()), "a new store is empty");
    let mut run = Run { model: Model::new(), views: Vec::new(), random: Random(seed), applied: 0 };
    for _ in 0..steps {
        run.step(&mut store);
    }
    run.commit(&mut store);
    run.compare_whole(&store);
    run.check_digest(&store, make());
    run.check_positions(&mut store);
}

/// Like [`check_store`], on a store that is now and then closed and opened again by `reopen`, between batches: it must then hold what
/// was committed.
///
/// # Panics
/// If the store does not do what the model does, or fails.
pub fn check_store_and_reopen<S: OrderedStore>(
    make: impl FnOnce() -> S,
    mut reopen: impl FnMut(S) -> S,
    seed: u64,
    steps: usize,
) {
    let mut store = make();
    let mut run = Run { model: Model::new(), views: Vec::new(), random: Random(seed), applied: 0 };
    for _ in 0..steps {
        run.step(&mut store);
        if run.random.below(100) == 0 {
            run.commit(&mut store);
            run.views.clear();
            store = reopen(store);
            assert_eq!(store.applied(), Position(run.applied), "a store that was opened again is where it was");
            run.compare_whole(&store);
        }
    }
}

struct Run<V> {
    model: Model,
    views: Vec<(V, Model)>,
    random: Random,
    applied: u64,
}

impl<V> Run<V> {
    fn step<S: OrderedStore<View = V>>(&mut self, store: &mut S) {
        match self.random.below(100) {
            0..70 => {
                write(store, &mut self.model, &mut self.random);
                if S::COUNTS_KEYS {
                    assert_eq!(store.keys(), self.model.len() as u64, "the store counts its keys");
                }
            }
            70..78 => {
                let key = self.random.key();
                assert_eq!(get(store, &key), self.model.get(&key).cloned(), "get of {key:?}");
            }
            78..84 => self.compare_range(store),
            84..90 => self.commit(store),
            90..93 => self.open_view(store),
            93..98 => self.compare_view(store),
            _ => self.speculate(store),
        }
    }

    fn commit<S: OrderedStore<View = V>>(&mut self, store: &mut S) {
        self.applied += 1 + self.random.below(3);
        store.commit(Position(self.applied)).expect("a position that rises is accepted");
        assert_eq!(store.applied(), Position(self.applied), "the applied position is that of the last batch");
    }

    fn open_view<S: OrderedStore<View = V>>(&mut self, store: &mut S) {
        self.commit(store);
        if self.views.len() == VIEWS {
            let dropped = self.random.below(VIEWS as u64) as usize;
            self.views.swap_remove(dropped);
        }
        let view = store.view().expect("a view opens between batches");
        self.views.push((view, self.model.clone()));
    }

    fn compare_view<S: OrderedStore<View = V>>(&mut self, store: &S) {
        for (view, model) in &self.views {
            let key = self.random.key();
            let found = store.view_get(view, &key).expect("a live view is read").map(|value| value.to_vec());
            assert_eq!(found, model.get(&key).cloned(), "get of {key:?} in a view");
            let (from, to) = (self.random.key(), self.random.key());
            let (from, to) = (self.random.bound(&from), self.random.bound(&to));
            let mut entries = Vec::new();
            let visit = collect(&mut entries, usize::MAX);
            store.view_scan(view, from, to, visit).expect("a live view is scanned");
            assert_eq!(entries, range(model, from, to, usize::MAX), "scan {from:?} to {to:?} of a view");
            let mut first = Vec::new();
            let visit = collect(&mut first, 1);
            store.view_scan(view, Bound::Unbounded, Bound::Unbounded, visit).expect("a live view is scanned");
            assert_eq!(
                first,
                range(model, Bound::Unbounded, Bound::Unbounded, 1),
                "a scan of a view ends where its visitor breaks"
            );
        }
    }

    fn compare_range<S: OrderedStore<View = V>>(&mut self, store: &S) {
        let (from, to) = (self.random.key(), self.random.key());
        let (from, to) = (self.random.bound(&from), self.random.bound(&to));
        let limit = self.random.below(6) as usize;
        let found = store.range(from, to, limit).expect("a range is read");
        assert_eq!(found, range(&self.model, from, to, limit), "range {from:?} to {to:?}, limit {limit}");
    }

    fn compare_whole<S: OrderedStore<View = V>>(&self, store: &S) {
        let found = store.range(Bound::Unbounded, Bound::Unbounded, usize::MAX).expect("everything is read");
        assert_eq!(found, range(&self.model, Bound::Unbounded, Bound::Unbounded, usize::MAX), "all entries");
    }

    /// Writes in an overlay are seen through it and not below it; then it is dropped or promoted.
    fn speculate<S: OrderedStore<View = V>>(&mut self, store: &mut S) {
        self.commit(store);
        let digest = store.digest().expect("a digest is computed");
        let mut ahead = self.model.clone();
        let mut writes = WriteSet::new();
        for _ in 0..self.random.below(20) {
            let mut overlaid = Overlaid::new(&*store, &mut writes);
            write(&mut overlaid, &mut ahead, &mut self.random);
            let key = self.random.key();
            assert_eq!(get(&overlaid, &key), ahead.get(&key).cloned(), "get of {key:?} in an overlay");
        }
        assert_eq!(store.digest(), Ok(digest), "an overlay leaves its base as it is");
        if self.random.below(2) == 0 {
            self.compare_whole(store);
        } else {
            self.applied += 1;
            writes.promote(store, Position(self.applied)).expect("a promotion is a batch");
            self.model = ahead;
            self.compare_whole(store);
            assert_eq!(store.applied(), Position(self.applied), "a promotion moves the applied position");
        }
    }

    /// Equal contents that came about otherwise have an equal digest; a changed, added or missing entry shows.
    fn check_digest<S: OrderedStore<View = V>>(&mut self, store: &S, mut other: S) {
        for (key, value) in self.model.iter().rev() {
            other.put(key, b"first another value").expect("put");
            other.put(key, value).expect("put");
        }
        other.put(b"\xff passing", b"").expect("put");
        assert_ne!(other.digest(), store.digest(), "an entry too many shows in the digest");
        other.delete(b"\xff passing").expect("delete");
        assert_eq!(other.digest(), store.digest(), "equal contents have equal digests");
        if let Some((key, value)) = self.model.first_key_value() {
            other.append(key, b"x").expect("append");
            assert_ne!(other.digest(), store.digest(), "a changed value shows in the digest");
            other.put(key, value).expect("put");
            other.delete(key).expect("delete");
            assert_ne!(other.digest(), store.digest(), "a missing entry shows in the digest");
        }
    }

    fn check_positions<S: OrderedStore<View = V>>(&mut self, store: &mut S) {
        let applied = Position(self.applied);
        assert_eq!(
            store.commit(applied),
            Err(StoreError::NotAhead { applied, given: applied }),
            "a batch at a position that does not rise is refused"
        );
        store.put(b"open", b"batch").expect("put");
        assert_eq!(store.view().err(), Some(StoreError::OpenBatch), "no view is taken inside a batch");
    }
}

/// One random write to both sides.
fn write<K: KeyValue>(store: &mut K, model: &mut Model, random: &mut Random) {
    let key = random.key();
    match random.below(10) {
        0..5 => {
            let value = random.value();
            store.put(&key, &value).expect("put");
            model.insert(key, value);
        }
        5..8 => {
            assert_eq!(store.delete(&key), Ok(model.remove(&key).is_some()), "delete says whether {key:?} was there");
        }
        _ => {
            let tail = random.value();
            store.append(&key, &tail).expect("append");
            model.entry(key).or_default().extend_from_slice(&tail);
        }
    }
}

fn get<K: KeyValue>(store: &K, key: &[u8]) -> Option<Vec<u8>> {
    store.get(key).expect("get").map(|value| value.to_vec())
}

fn collect(entries: &mut Vec<(Vec<u8>, Vec<u8>)>, limit: usize) -> impl FnMut(&[u8], &[u8]) -> ControlFlow<()> {
    move |key, value| {
        entries.push((key.to_vec(), value.to_vec()));
        if entries.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

/// A range of the model, in the plainest way.
fn range(model: &Model, from: Bound<&[u8]>, to: Bound<&[u8]>, limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let above = |key: &[u8]| match from {
        Bound::Included(from) => key >= from,
        Bound::Excluded(from) => key > from,
        Bound::Unbounded => true,
    };
    let below = |key: &[u8]| match to {
        Bound::Included(to) => key <= to,
        Bound::Excluded(to) => key < to,
        Bound::Unbounded => true,
    };
    let inside = model.iter().filter(|(key, _)| above(key) && below(key));
    inside.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Random numbers from a seed (the SplitMix64 recurrence), so that a failing seed can be run again anywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// Few enough keys that they meet often; some are prefixes of others, some hold zero bytes.
    fn key(&mut self) -> Vec<u8> {
        let letters = [0, b'a', b'b', 0xff];
        (0..1 + self.below(3)).map(|_| letters[self.below(4) as usize]).collect()
    }

    fn value(&mut self) -> Vec<u8> {
        let length = match self.below(10) {
            0 => 0,
            1 => 300 + self.below(3_000),
            _ => self.below(20),
        };
        (0..length).map(|_| self.below(256) as u8).collect()
    }

    fn bound<'k>(&mut self, key: &'k [u8]) -> Bound<&'k [u8]> {
        match self.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_store::MemoryStore;
    use crate::view::MemoryView;

    /// A memory store whose views forget that a key was deleted.
    #[derive(Default)]
    struct Forgetful(MemoryStore);

    impl KeyValue for Forgetful {
        type Value<'a> = &'a [u8];
        fn get(&self, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
            self.0.get(key)
        }
        fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
            self.0.put(key, value)
        }
        fn delete(&mut self, key: &[u8]) -> Result<bool, StoreError> {
            self.0.delete(key)
        }
    }

    impl OrderedStore for Forgetful {
        type View = MemoryView;
        fn applied(&self) -> Position {
            self.0.applied()
        }
        fn commit(&mut self, applied: Position) -> Result<(), StoreError> {
            self.0.commit(applied)
        }
        fn scan(
            &self,
            from: Bound<&[u8]>,
            to: Bound<&[u8]>,
            visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
        ) -> Result<(), StoreError> {
            self.0.scan(from, to, visit)
        }
        fn view(&mut self) -> Result<MemoryView, StoreError> {
            self.0.view()
        }
        fn view_get(&self, view: &MemoryView, key: &[u8]) -> Result<Option<&[u8]>, StoreError> {
            self.0.view_get(view, key)
        }
        fn view_scan(
            &self,
            view: &MemoryView,
            from: Bound<&[u8]>,
            to: Bound<&[u8]>,
            mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
        ) -> Result<(), StoreError> {
            self.0.view_scan(view, from, to, |key, value| match self.0.get(key) {
                Ok(Some(_)) => visit(key, value),
                _ => ControlFlow::Continue(()),
            })
        }
        fn keys(&self) -> u64 {
            self.0.keys()
        }
        fn memory_bytes(&self) -> u64 {
            self.0.memory_bytes()
        }
    }

    #[test]
    #[should_panic(expected = "of a view")]
    fn a_store_whose_views_forget_deleted_keys_does_not_conform() {
        check_store(Forgetful::default, 1, 3_000);
    }
}
