//! Views of the memory store: for each live view, the old values of what changed since.

use crate::store::StoreError;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Memory of a preserved value beside its bytes, estimated, in bytes.
const PRESERVED_OVERHEAD_BYTES: u64 = 96;

/// Old values of the keys that changed since a view was opened; `None` means that the key was not there.
pub(crate) type Preserved = BTreeMap<Arc<[u8]>, Option<Arc<[u8]>>>;

/// A view of a memory store. Values are read through the store, which keeps old ones while this handle lives.
#[derive(Debug)]
pub struct MemoryView {
    alive: Arc<()>,
}

/// The views of a store that may be alive.
#[derive(Debug, Default)]
pub(crate) struct LiveViews {
    views: Vec<LiveView>,
}

#[derive(Debug)]
struct LiveView {
    alive: Weak<()>,
    preserved: Preserved,
    bytes: u64,
}

impl LiveViews {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.views.len()
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.views.iter().map(|view| view.bytes).sum()
    }

    pub(crate) fn open(&mut self) -> MemoryView {
        let view = MemoryView { alive: Arc::new(()) };
        self.views.push(LiveView { alive: Arc::downgrade(&view.alive), preserved: Preserved::new(), bytes: 0 });
        view
    }

    /// Gives back what was kept for views that were dropped.
    #[inline]
    pub(crate) fn forget_dropped(&mut self) {
        if !self.views.is_empty() {
            self.views.retain(|view| view.alive.strong_count() > 0);
        }
    }

    /// Keeps what `key` was before a write, for each view that has not kept it yet.
    pub(crate) fn preserve(&mut self, key: &Arc<[u8]>, old: Option<&[u8]>) {
        self.forget_dropped();
        let mut shared: Option<Option<Arc<[u8]>>> = None;
        for view in &mut self.views {
            if !view.preserved.contains_key(key) {
                let old = shared.get_or_insert_with(|| old.map(Arc::from)).clone();
                view.bytes += (key.len() + old.as_deref().map_or(0, <[u8]>::len)) as u64 + PRESERVED_OVERHEAD_BYTES;
                view.preserved.insert(Arc::clone(key), old);
            }
        }
    }

    /// What was preserved for a view.
    pub(crate) fn of(&self, view: &MemoryView) -> Result<&Preserved, StoreError> {
        let address = Arc::as_ptr(&view.alive);
        match self.views.iter().find(|live| live.alive.as_ptr() == address) {
            Some(live) => Ok(&live.preserved),
            None => Err(StoreError::Medium("the view belongs to another store".into())),
        }
    }
}
