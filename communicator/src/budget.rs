//! A budget of bytes shared by many connections.

use quorate_framework::WireError;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that connections may hold together.
#[derive(Debug)]
pub struct Budget {
    used: AtomicUsize,
    limit: usize,
}

/// Bytes taken from a [`Budget`]; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Budget> {
        Arc::new(Budget { used: AtomicUsize::new(0), limit })
    }

    /// Bytes taken at present.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// [`WireError::TooLarge`] if they are not left.
    pub fn take(self: &Arc<Budget>, bytes: usize) -> Result<Permit, WireError> {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= self.limit)
        });
        match taken {
            Ok(_) => Ok(Permit { budget: Arc::clone(self), bytes }),
            Err(used) => Err(WireError::TooLarge {
                what: "memory of unfinished requests",
                value: (used as u64).saturating_add(bytes as u64),
                limit: self.limit as u64,
            }),
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_refuses_what_is_not_left_and_takes_back_what_is_dropped() {
        let budget = Budget::new(10);
        let first = budget.take(7).expect("seven of ten are left");
        assert_eq!(
            budget.take(4).map(|_| ()),
            Err(WireError::TooLarge { what: "memory of unfinished requests", value: 11, limit: 10 })
        );
        assert!(budget.take(usize::MAX).is_err(), "a sum that overflows");
        drop(first);
        assert_eq!(budget.used(), 0);
        assert!(budget.take(10).is_ok());
    }
}
