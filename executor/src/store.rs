//! What a store of the state machine must be able to do.
//!
//! Two halves: [`KeyValue`] is what commands need, and is also given by an [`Overlaid`](crate::overlay::Overlaid) store, so that
//! the same code executes for good and ahead of the commit. [`OrderedStore`] is the whole store: order, batches with the applied
//! position, views, digest. Callers are generic over them; nothing here is called through a pointer.

use crate::digest::EntryDigest;
use crate::replicated_limits::ReplicatedLimits;
use crate::session::{SessionChanges, SessionTable};
use quorate_framework::{BlockId, Digest, Position};
use std::ops::{Bound, ControlFlow, Deref};
use thiserror::Error;

/// The store failed or was used against its rules. The replica stops.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// A batch was to be committed at a position that is not above the applied one.
    #[error("a batch at {given} cannot follow the applied {applied}")]
    NotAhead {
        /// The applied position.
        applied: Position,
        /// The position given.
        given: Position,
    },
    /// A view was asked for while writes of an open batch stand.
    #[error("a view cannot be taken inside an open batch")]
    OpenBatch,
    /// The medium failed.
    #[error("{0}")]
    Medium(String),
}

/// Point access to keys: what executing commands needs.
///
/// Writes see earlier writes at once. Which keys and values are acceptable is decided above.
pub trait KeyValue {
    /// A value on loan; no copy is made for reading it.
    type Value<'a>: Deref<Target = [u8]>
    where
        Self: 'a;

    /// The value of a key.
    ///
    /// # Errors
    /// [`StoreError`] if the medium failed.
    fn get(&self, key: &[u8]) -> Result<Option<Self::Value<'_>>, StoreError>;

    /// Sets a key.
    ///
    /// # Errors
    /// [`StoreError`] if the medium failed.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Removes a key; gives whether it was there.
    ///
    /// # Errors
    /// [`StoreError`] if the medium failed.
    fn delete(&mut self, key: &[u8]) -> Result<bool, StoreError>;

    /// Whether it pays to [`KeyValue::announce`] keys: in a store in memory that is larger than the processor's near caches.
    fn wants_announcements(&self) -> bool {
        false
    }

    /// These keys will be used soon. A hint: it changes nothing, but lets a store fetch the memory of all of them at the same time
    /// instead of waiting for each.
    fn announce(&self, keys: &[&[u8]]) {
        let _ = keys;
    }

    /// Appends to a key's value, a missing one counting as empty.
    ///
    /// # Errors
    /// [`StoreError`] if the medium failed.
    fn append(&mut self, key: &[u8], tail: &[u8]) -> Result<(), StoreError> {
        let mut value = self.get(key)?.map_or_else(Vec::new, |value| value.to_vec());
        value.extend_from_slice(tail);
        self.put(key, &value)
    }
}

/// Keys with their values, as [`OrderedStore::range`] gives them.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Does what [`OrderedStore::persist`] does, for the state as it was when this was made, on any thread, while the store goes on. Blocks.
pub type PersistLater = Box<dyn FnOnce() -> Result<Position, StoreError> + Send>;

/// What belongs to the replicated state beside the entries, at the end of a batch.
#[derive(Debug)]
pub struct ExecutorState<'a> {
    /// The block that stands at the batch's last position.
    pub block: BlockId,
    /// The limits.
    pub limits: &'a ReplicatedLimits,
    /// The session table after the batch.
    pub sessions: &'a SessionTable,
    /// What changed in it.
    pub changes: SessionChanges,
}

/// A store whose keys are ordered bytewise.
///
/// Writes join the open batch and are seen at once by reads of the store; [`OrderedStore::commit`] closes the batch: all of it is
/// kept together with its position, or nothing is. May block on its medium; never called from two threads at once.
pub trait OrderedStore: KeyValue + Send {
    /// A handle to the state as it was at a commit. May cost while it is alive; dropping it ends that.
    type View: Send;

    /// Whether the store keeps what belongs to the state beside the entries, so that a start goes on from it alone. If not,
    /// [`OrderedStore::keep_state`] is never called.
    const KEEPS_EXECUTOR_STATE: bool = false;

    /// Whether [`OrderedStore::keys`] is exact.
    const COUNTS_KEYS: bool = true;

    /// Joins what changed beside the entries to the open batch; the commit follows.
    ///
    /// # Errors
    /// [`StoreError::Medium`].
    fn keep_state(&mut self, state: ExecutorState<'_>) -> Result<(), StoreError> {
        drop(state);
        Ok(())
    }

    /// Makes everything that is committed survive a power cut; gives the position up to which the store now vouches for itself. A store
    /// in memory vouches for nothing. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Medium`]; final.
    fn persist(&mut self) -> Result<Position, StoreError> {
        Ok(Position::ZERO)
    }

    /// [`OrderedStore::persist`] for another thread: this gives what does it, and does not wait. One at a time may be under way.
    fn persist_later(&self) -> PersistLater {
        Box::new(|| Ok(Position::ZERO))
    }

    /// The position of the last committed batch.
    fn applied(&self) -> Position;

    /// Commits the open batch (which may be empty) as what `applied` made.
    ///
    /// # Errors
    /// [`StoreError::NotAhead`] if the position does not rise; [`StoreError::Medium`].
    fn commit(&mut self, applied: Position) -> Result<(), StoreError>;

    /// Visits the entries between two bounds in ascending order until the visitor breaks. A range whose bounds cross is empty.
    ///
    /// # Errors
    /// [`StoreError`] if the medium failed.
    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// A view of the state as of the last commit.
    ///
    /// # Errors
    /// [`StoreError::OpenBatch`] inside a batch; [`StoreError::Medium`].
    fn view(&mut self) -> Result<Self::View, StoreError>;

    /// The value that a key had at the view.
    ///
    /// # Errors
    /// [`StoreError`] if the medium failed.
    fn view_get(&self, view: &Self::View, key: &[u8]) -> Result<Option<Self::Value<'_>>, StoreError>;

    /// Like [`OrderedStore::scan`], over the state at the view.
    ///
    /// # Errors
    /// [`StoreError`] if the medium failed.
    fn view_scan(
        &self,
        view: &Self::View,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// Keys present; an estimate where [`OrderedStore::COUNTS_KEYS`] is false.
    fn keys(&self) -> u64;

    /// Memory held, in bytes, allocator overhead estimated; for status and admission, not part of the replicated state.
    fn memory_bytes(&self) -> u64;

    /// At most `limit` entries between two bounds, ascending.
    ///
    /// # Errors
    /// [`StoreError`] if the medium failed.
    fn range(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, limit: usize) -> Result<Entries, StoreError> {
        let mut entries = Entries::new();
        if limit > 0 {
            self.scan(from, to, |key, value| {
                entries.push((key.to_vec(), value.to_vec()));
                if entries.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        Ok(entries)
    }

    /// The digest of all entries; equal contents have equal digests in every store. Reads everything.
    ///
    /// # Errors
    /// [`StoreError`] if the medium failed.
    fn digest(&self) -> Result<Digest, StoreError> {
        let mut digest = EntryDigest::new();
        self.scan(Bound::Unbounded, Bound::Unbounded, |key, value| {
            digest.entry(key, value);
            ControlFlow::Continue(())
        })?;
        Ok(digest.finish())
    }
}

/// Whether no key can lie between the bounds (a `BTreeMap` or `BTreeSet` would panic on some of these).
#[must_use]
pub fn is_empty_range(from: Bound<&[u8]>, to: Bound<&[u8]>) -> bool {
    match (from, to) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
    }
}
