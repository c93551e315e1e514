//! How far the writer has come, and who waits for it.

use crate::sync::Mutex;
use quorate_framework::Ticket;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

/// A future that waits: what it waits for, and its number among all that ever waited. In this order they are released.
type Waiter = (Ticket, u64);

struct State<E> {
    durable: Ticket,
    failure: Option<E>,
    waiting: BTreeMap<Waiter, Waker>,
    /// How many futures have ever waited.
    waiters: u64,
}

/// How far the writer has come.
pub(crate) struct Progress<E> {
    state: Mutex<State<E>>,
}

impl<E: Clone> Progress<E> {
    pub(crate) fn new() -> Progress<E> {
        let state = State { durable: Ticket::RECOVERED, failure: None, waiting: BTreeMap::new(), waiters: 0 };
        Progress { state: Mutex::new(state) }
    }

    /// Everything up to this ticket is durable.
    pub(crate) fn reached(&self, ticket: Ticket) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.durable = state.durable.max(ticket);
        let mut released = Vec::new();
        // Only those that are released are visited: a long backlog behind them costs nothing.
        while let Some(first) = state.waiting.first_entry().filter(|first| first.key().0 <= ticket) {
            released.push(first.remove());
        }
        drop(state);
        released.into_iter().for_each(Waker::wake);
    }

    /// Nothing more becomes durable. The first reason stays.
    pub(crate) fn fail(&self, error: E) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failure.get_or_insert(error);
        let released = std::mem::take(&mut state.waiting);
        drop(state);
        released.into_values().for_each(Waker::wake);
    }

    /// Why nothing more becomes durable.
    pub(crate) fn failure(&self) -> Option<E> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).failure.clone()
    }

    /// The highest durable ticket.
    pub(crate) fn durable(&self) -> Ticket {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).durable
    }

    /// Becomes ready once the ticket is durable, or never will be.
    pub(crate) fn wait_for(self: &Arc<Progress<E>>, ticket: Ticket) -> Persisted<E> {
        Persisted { progress: Arc::clone(self), ticket, waiter: None }
    }

    fn poll(&self, ticket: Ticket, waiter: &mut Option<Waiter>, waker: &Waker) -> Poll<Result<Ticket, E>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.durable >= ticket {
            return Poll::Ready(Ok(state.durable));
        }
        if let Some(error) = &state.failure {
            return Poll::Ready(Err(error.clone()));
        }
        let waiter = *waiter.get_or_insert_with(|| {
            state.waiters += 1;
            (ticket, state.waiters)
        });
        // A future is woken by the waker of its last poll.
        state.waiting.entry(waiter).and_modify(|known| known.clone_from(waker)).or_insert_with(|| waker.clone());
        Poll::Pending
    }
}

impl<E> Progress<E> {
    /// Whoever waited has given up, or has what it waited for.
    fn forget(&self, waiter: Waiter) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let forgotten = state.waiting.remove(&waiter);
        drop(state);
        // Only now: dropping a waker may run anything.
        drop(forgotten);
    }

    /// How many futures wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).waiting.len()
    }
}

/// A future of the highest durable ticket, once that is at least the awaited one. One serves a whole group. Dropping it gives up waiting.
pub struct Persisted<E> {
    progress: Arc<Progress<E>>,
    ticket: Ticket,
    /// Under which it waits, once it was polled in vain.
    waiter: Option<Waiter>,
}

impl<E: Clone> Future for Persisted<E> {
    type Output = Result<Ticket, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Persisted { progress, ticket, waiter } = &mut *self;
        progress.poll(*ticket, waiter, context.waker())
    }
}

impl<E> Drop for Persisted<E> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            self.progress.forget(waiter);
        }
    }
}
