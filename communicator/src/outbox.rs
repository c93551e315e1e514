//! The writing end of one connection, shared by whoever queues and a writer task.
//!
//! [`Outbox::flush`] writes from the caller's task at once. Only when the connection takes no more does the writer task wait for it;
//! until then nobody else tries, so a full connection costs no failing writes. The lock is never held over an await.

use crate::bounds::LaneBounds;
use crate::frame::FrameKind;
use crate::outgoing::{Message, OutgoingFull, OutgoingLanes};
use crate::reason::DisconnectReason;
use crate::traffic::TrafficCounters;
use parking_lot::Mutex;
use quorate_framework::Lane;
use socket2::SockRef;
use std::net::Shutdown;
use std::sync::Arc;
use thiserror::Error;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;

/// The writing end of one connection; clones are the same connection.
#[derive(Clone, Debug)]
pub struct Outbox {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    half: OwnedWriteHalf,
    wake: Notify,
    counters: Arc<TrafficCounters>,
}

#[derive(Debug)]
struct State {
    lanes: OutgoingLanes,
    /// The connection takes no more; the writer task waits for it and nobody else writes.
    blocked: bool,
    closed: Option<DisconnectReason>,
    /// Nothing more is taken, and what waits is the last; then it closes.
    finishing: Option<DisconnectReason>,
    /// Something was queued since the last flush.
    flush_due: bool,
}

/// Why something was not queued.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QueueError {
    /// This side has closed the connection.
    #[error("the connection is closed: {0}")]
    Closed(DisconnectReason),
    /// A bound is reached; the connection stays as it is.
    #[error("too much is waiting: {0}")]
    Full(#[from] OutgoingFull),
}

impl From<QueueError> for DisconnectReason {
    fn from(error: QueueError) -> DisconnectReason {
        match error {
            QueueError::Closed(reason) => reason,
            QueueError::Full(full) => full.into(),
        }
    }
}

impl Outbox {
    /// The writing end of a connection, with its writer task on the current runtime.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(half: OwnedWriteHalf, bounds: LaneBounds, counters: Arc<TrafficCounters>) -> Outbox {
        let lanes = OutgoingLanes::new(bounds);
        let state = State { lanes, blocked: false, closed: None, finishing: None, flush_due: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), half, wake: Notify::new(), counters });
        tokio::spawn(write_when_writable(Arc::clone(&shared)));
        Outbox { shared }
    }

    /// Queues a message without writing. Gives whether it is the first since the last flush.
    ///
    /// # Errors
    /// [`QueueError`]: nothing was queued.
    pub fn queue(&self, message: Message) -> Result<bool, QueueError> {
        self.queue_by(|lanes| lanes.push(message))
    }

    /// Queues a small frame by copying its pieces, without writing. Gives whether it is the first since the last flush.
    ///
    /// # Errors
    /// [`QueueError`]: nothing was queued.
    pub fn queue_small(&self, lane: Lane, kind: FrameKind, pieces: &[&[u8]]) -> Result<bool, QueueError> {
        self.queue_by(|lanes| lanes.push_small(lane, kind, pieces))
    }

    fn queue_by(&self, push: impl FnOnce(&mut OutgoingLanes) -> Result<(), OutgoingFull>) -> Result<bool, QueueError> {
        let mut state = self.shared.state.lock();
        if let Some(reason) = state.closed.as_ref().or(state.finishing.as_ref()) {
            return Err(QueueError::Closed(reason.clone()));
        }
        push(&mut state.lanes)?;
        Ok(!std::mem::replace(&mut state.flush_due, true))
    }

    /// Writes what is queued as far as the connection takes it; the writer task writes the rest. Never blocks.
    pub fn flush(&self) {
        self.shared.flush(&mut self.shared.state.lock());
    }

    /// Closes both directions at once and drops what waits. The first reason stays.
    pub fn close(&self, reason: DisconnectReason) {
        self.shared.close(&mut self.shared.state.lock(), reason);
    }

    /// Takes nothing more, and closes once what waits is written. The first reason stays.
    pub fn finish(&self, reason: DisconnectReason) {
        let mut state = self.shared.state.lock();
        state.finishing.get_or_insert(reason);
        self.shared.flush(&mut state);
    }

    /// Why it was closed by this side, if it was.
    #[must_use]
    pub fn closed(&self) -> Option<DisconnectReason> {
        self.shared.state.lock().closed.clone()
    }

    /// The connection, for its options.
    #[cfg(test)]
    pub(crate) fn stream(&self) -> &tokio::net::TcpStream {
        self.shared.half.as_ref()
    }

    /// Messages and bytes that wait.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        self.shared.state.lock().lanes.waiting()
    }
}

impl Shared {
    fn flush(&self, state: &mut State) {
        state.flush_due = false;
        if state.blocked || state.closed.is_some() {
            return;
        }
        match state.lanes.flush(|slices| self.half.try_write_vectored(slices)) {
            Ok(flushed) => {
                self.counters.flushed(&flushed);
                if flushed.blocked {
                    state.blocked = true;
                    self.wake.notify_one();
                }
            }
            Err(error) => self.close(state, error.into()),
        }
        if let Some(reason) = state.finishing.take_if(|_| state.lanes.is_empty()) {
            self.close(state, reason);
        }
    }

    fn close(&self, state: &mut State, reason: DisconnectReason) {
        if state.closed.is_some() {
            return;
        }
        state.closed = Some(reason);
        state.lanes.clear();
        // The reader sees the end and takes the connection down; a connection that is already gone cannot be shut down, which is
        // as good.
        let _ = SockRef::from(self.half.as_ref()).shutdown(Shutdown::Both);
        self.wake.notify_one();
    }
}

/// Writes whenever the connection takes more again, until it is closed.
async fn write_when_writable(shared: Arc<Shared>) {
    loop {
        shared.wake.notified().await;
        loop {
            {
                let state = shared.state.lock();
                if state.closed.is_some() {
                    return;
                }
                if !state.blocked {
                    break;
                }
            }
            let writable = shared.half.writable().await;
            let mut state = shared.state.lock();
            state.blocked = false;
            match writable {
                Ok(()) => shared.flush(&mut state),
                Err(error) => shared.close(&mut state, error.into()),
            }
        }
    }
}
