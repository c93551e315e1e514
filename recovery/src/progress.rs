//! How far the writer has come, and who waits for it.

use crate::sync::Mutex;
use quorate_framework::Ticket;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

struct State<E> {
    durable: Ticket,
    failure: Option<E>,
    waiting: Vec<(Ticket, Waker)>,
}

/// How far the writer has come.
pub(crate) struct Progress<E> {
    state: Mutex<State<E>>,
}

impl<E: Clone> Progress<E> {
    pub(crate) fn new() -> Progress<E> {
        Progress { state: Mutex::new(State { durable: Ticket::RECOVERED, failure: None, waiting: Vec::new() }) }
    }

    /// Everything up to this ticket is durable.
    pub(crate) fn reached(&self, ticket: Ticket) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.durable = state.durable.max(ticket);
        let released: Vec<Waker> =
            state.waiting.extract_if(.., |(awaited, _)| *awaited <= ticket).map(|(_, waker)| waker).collect();
        drop(state);
        released.into_iter().for_each(Waker::wake);
    }

    /// Nothing more becomes durable. The first reason stays.
    pub(crate) fn fail(&self, error: E) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.failure.get_or_insert(error);
        let released = std::mem::take(&mut state.waiting);
        drop(state);
        released.into_iter().for_each(|(_, waker)| waker.wake());
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
        Persisted { progress: Arc::clone(self), ticket }
    }

    fn poll(&self, ticket: Ticket, waker: &Waker) -> Poll<Result<Ticket, E>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.durable >= ticket {
            return Poll::Ready(Ok(state.durable));
        }
        if let Some(error) = &state.failure {
            return Poll::Ready(Err(error.clone()));
        }
        if !state.waiting.iter().any(|(awaited, known)| *awaited == ticket && known.will_wake(waker)) {
            state.waiting.push((ticket, waker.clone()));
        }
        Poll::Pending
    }
}

/// A future of the highest durable ticket, once that is at least the awaited one. One serves a whole group.
pub struct Persisted<E> {
    progress: Arc<Progress<E>>,
    ticket: Ticket,
}

impl<E: Clone> Future for Persisted<E> {
    type Output = Result<Ticket, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.progress.poll(self.ticket, context.waker())
    }
}
