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
}

impl Outbox {
    /// The writing end of a connection, with its writer task on the current runtime.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn new(half: OwnedWriteHalf, bounds: LaneBounds, counters: Arc<TrafficCounters>) -> Outbox {
        let state = Mutex::new(State { lanes: OutgoingLanes::new(bounds), blocked: false, closed: None });
        let shared = Arc::new(Shared { state, half, wake: Notify::new(), counters });
        tokio::spawn(write_when_writable(Arc::clone(&shared)));
        Outbox { shared }
    }

    /// Queues a message without writing. On a closed connection it is dropped.
    ///
    /// # Errors
    /// [`OutgoingFull`]: nothing was queued; the connection stays as it is.
    pub fn queue(&self, message: Message) -> Result<(), OutgoingFull> {
        let mut state = self.shared.state.lock();
        if state.closed.is_some() { Ok(()) } else { state.lanes.push(message) }
    }

    /// Queues a small frame by copying its pieces, without writing. On a closed connection it is dropped.
    ///
    /// # Errors
    /// [`OutgoingFull`]: nothing was queued; the connection stays as it is.
    pub fn queue_small(&self, lane: Lane, kind: FrameKind, pieces: &[&[u8]]) -> Result<(), OutgoingFull> {
        let mut state = self.shared.state.lock();
        if state.closed.is_some() { Ok(()) } else { state.lanes.push_small(lane, kind, pieces) }
    }

    /// Writes what is queued as far as the connection takes it; the writer task writes the rest. Never blocks.
    pub fn flush(&self) {
        self.shared.flush(&mut self.shared.state.lock());
    }

    /// Closes both directions at once and drops what waits. The first reason stays.
    pub fn close(&self, reason: DisconnectReason) {
        self.shared.close(&mut self.shared.state.lock(), reason);
    }

    /// Why it was closed by this side, if it was.
    #[must_use]
    pub fn closed(&self) -> Option<DisconnectReason> {
        self.shared.state.lock().closed.clone()
    }

    /// Messages and bytes that wait.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        self.shared.state.lock().lanes.waiting()
    }

    /// Whether this is the same connection.
    #[must_use]
    pub fn is(&self, other: &Outbox) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Shared {
    fn flush(&self, state: &mut State) {
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
