//! The queue between whoever submits and the writer's thread. Pushing never waits for the disk: the lock is held only while a few
//! pointers move.

use crate::sync::{Condvar, Mutex};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Bounds of what was pushed and not yet done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InboxBounds {
    /// Items not yet taken at most.
    pub(crate) items: usize,
    /// Weight of what is not yet done at most, in bytes.
    pub(crate) bytes: u64,
}

/// Why a push was refused. Nothing of it was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A bound would be passed.
    Full,
    /// The inbox is closed.
    Closed,
}

/// What taking gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Everything that was queued.
    Items,
    /// Nothing came in time.
    Nothing,
    /// Closed, and everything was taken.
    Closed,
}

/// How long taking waits for a first item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Not at all.
    Now,
    /// This long.
    For(Duration),
    /// Until there is one.
    Unlimited,
}

struct State<T> {
    items: Vec<T>,
    pending_bytes: u64,
    closed: bool,
    /// How many items the writer waits for; it sleeps and must be woken.
    awaited: Option<usize>,
}

/// The queue.
pub(crate) struct Inbox<T> {
    state: Mutex<State<T>>,
    wake: Condvar,
    bounds: InboxBounds,
}

impl<T> Inbox<T> {
    pub(crate) fn new(bounds: InboxBounds) -> Inbox<T> {
        let state = State { items: Vec::new(), pending_bytes: 0, closed: false, awaited: None };
        Inbox { state: Mutex::new(state), wake: Condvar::new(), bounds }
    }

    /// Queues all of `items`, which is left empty with its memory, or none of them.
    pub(crate) fn push(&self, items: &mut Vec<T>, bytes: u64) -> Result<(), Refused> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(Refused::Closed);
        }
        let too_many = state.items.len() + items.len() > self.bounds.items;
        // A single push into an empty queue always passes, however heavy, or it never could.
        if too_many || (state.pending_bytes > 0 && state.pending_bytes + bytes > self.bounds.bytes) {
            return Err(Refused::Full);
        }
        state.items.append(items);
        state.pending_bytes += bytes;
        let must_wake = state.awaited.is_some_and(|awaited| state.items.len() >= awaited);
        if must_wake {
            state.awaited = None;
        }
        drop(state);
        if must_wake {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Takes everything into `items`, which must be empty; waits for a first item as long as `patience` says.
    pub(crate) fn take(&self, items: &mut Vec<T>, patience: Patience) -> Taken {
        let deadline = match patience {
            Patience::For(duration) => Some(Instant::now() + duration),
            Patience::Now | Patience::Unlimited => None,
        };
        self.take_at_least(items, 1, deadline, patience == Patience::Now)
    }

    /// Takes everything once there are `count` items or the deadline has passed.
    pub(crate) fn take_until(&self, items: &mut Vec<T>, count: usize, deadline: Instant) -> Taken {
        self.take_at_least(items, count, Some(deadline), false)
    }

    fn take_at_least(&self, items: &mut Vec<T>, count: usize, deadline: Option<Instant>, now: bool) -> Taken {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let must_end = now || state.closed || left == Some(Duration::ZERO);
            if state.items.len() >= count || must_end {
                state.awaited = None;
                if !state.items.is_empty() {
                    std::mem::swap(&mut state.items, items);
                    return Taken::Items;
                }
                return if state.closed { Taken::Closed } else { Taken::Nothing };
            }
            state.awaited = Some(count);
            state = match left {
                None => self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    /// The writer is done with something of this weight.
    pub(crate) fn done(&self, bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.pending_bytes = state.pending_bytes.saturating_sub(bytes);
    }

    /// Weight of what was pushed and is not yet done.
    pub(crate) fn pending_bytes(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).pending_bytes
    }

    /// Refuses all pushes from now on; what is queued can still be taken, unless it is dropped here.
    pub(crate) fn close(&self, drop_queued: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        state.awaited = None;
        if drop_queued {
            state.items.clear();
        }
        drop(state);
        self.wake.notify_all();
    }
}
