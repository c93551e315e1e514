//! Writes ahead of their commit: a write set over a store that stays as it is.

use crate::store::{KeyValue, OrderedStore, StoreError};
use quorate_framework::Position;
use std::collections::BTreeMap;
use std::ops::Deref;

/// The last write to each key; `None` is a deletion. Dropping it is the rollback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteSet {
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl WriteSet {
    /// An empty write set.
    #[must_use]
    pub fn new() -> WriteSet {
        WriteSet::default()
    }

    /// Keys written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Folds the writes into the store and commits them as what `applied` made: nothing is executed again.
    ///
    /// # Errors
    /// Those of the store.
    pub fn promote(self, base: &mut impl OrderedStore, applied: Position) -> Result<(), StoreError> {
        for (key, value) in &self.writes {
            match value {
                Some(value) => base.put(key, value)?,
                None => {
                    base.delete(key)?;
                }
            }
        }
        base.commit(applied)
    }

    fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        match (self.writes.get_mut(key), value) {
            (Some(Some(old)), Some(value)) => {
                old.clear();
                old.extend_from_slice(value);
            }
            (Some(slot), value) => *slot = value.map(<[u8]>::to_vec),
            (None, value) => {
                self.writes.insert(key.to_vec(), value.map(<[u8]>::to_vec));
            }
        }
    }
}

/// A store seen through a write set: reads fall through, writes stay in the set.
#[derive(Debug)]
pub struct Overlaid<'b, S> {
    base: &'b S,
    writes: &'b mut WriteSet,
}

impl<'b, S: KeyValue> Overlaid<'b, S> {
    /// `base` as it looks after `writes`.
    pub fn new(base: &'b S, writes: &'b mut WriteSet) -> Overlaid<'b, S> {
        Overlaid { base, writes }
    }
}

/// A value of an overlaid store.
#[derive(Debug)]
pub enum OverlaidValue<'a, V> {
    /// Written in the overlay.
    Written(&'a [u8]),
    /// As in the store below.
    Base(V),
}

impl<V: Deref<Target = [u8]>> Deref for OverlaidValue<'_, V> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            OverlaidValue::Written(value) => value,
            OverlaidValue::Base(value) => value,
        }
    }
}

impl<S: KeyValue> KeyValue for Overlaid<'_, S> {
    type Value<'a>
        = OverlaidValue<'a, S::Value<'a>>
    where
        Self: 'a;

    fn get(&self, key: &[u8]) -> Result<Option<Self::Value<'_>>, StoreError> {
        match self.writes.writes.get(key) {
            Some(written) => Ok(written.as_deref().map(OverlaidValue::Written)),
            None => Ok(self.base.get(key)?.map(OverlaidValue::Base)),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.writes.set(key, Some(value));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool, StoreError> {
        let present = self.get(key)?.is_some();
        if present {
            self.writes.set(key, None);
        }
        Ok(present)
    }

    fn append(&mut self, key: &[u8], tail: &[u8]) -> Result<(), StoreError> {
        if let Some(Some(value)) = self.writes.writes.get_mut(key) {
            value.extend_from_slice(tail);
            return Ok(());
        }
        let mut value = self.get(key)?.map_or_else(Vec::new, |value| value.to_vec());
        value.extend_from_slice(tail);
        self.writes.writes.insert(key.to_vec(), Some(value));
        Ok(())
    }
}
