//! Pulling a snapshot: one order, as many connections as it takes.

use crate::handshake::Refusal;
use crate::hub::{Hub, Topic};
use crate::transfer::connection::{self, Broken, Progress};
use crate::transfer::figures::add;
use quorate_framework::{Incarnation, ReplicaId, ServedSnapshot, WireError, limits};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

/// Connections that may bring what does not belong, one after the other and without a part written in between.
const DAMAGED_CONNECTIONS: u32 = 3;

/// What to pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullOrder {
    /// The source, a configured peer.
    pub from: ReplicaId,
    /// The incarnation of it that announced the snapshot; another one is refused.
    pub incarnation: Incarnation,
    /// The snapshot as it was announced.
    pub snapshot: ServedSnapshot,
    /// Bytes from the beginning that are written already, by an earlier pull of the very same snapshot.
    pub written: u64,
}

/// Where the parts of a pulled snapshot go.
pub trait SnapshotSink: Send {
    /// Writes the part that begins at `offset`: where the last one ended, or at the order's `written`. May block on a file,
    /// which may sync it.
    ///
    /// # Errors
    /// Final for the pull.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// How a pull has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullEnd {
    /// Complete, or why not.
    pub result: Result<(), PullError>,
    /// Bytes from the beginning that are written: where another pull of the very same snapshot may go on.
    pub written: u64,
}

/// Why a pull has ended before the snapshot was complete.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PullError {
    /// The source does not serve it, or no longer.
    #[error("the source does not serve this snapshot any longer")]
    Gone,
    /// The source has another snapshot of that name.
    #[error("the snapshot of this name at the source has another position or length")]
    Different,
    /// One of the two will not talk to the other: the source is no longer the incarnation that announced it, say.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// What came was not the snapshot, several connections in a row.
    #[error("what comes is not the snapshot: {0}")]
    Damaged(WireError),
    /// Nothing could be written for the time limit.
    #[error("nothing has come for {seconds} s: {reason}")]
    Stalled {
        /// The time limit, in whole seconds.
        seconds: u64,
        /// How the last connection ended.
        reason: String,
    },
    /// The source cannot read it.
    #[error("the source cannot read this snapshot")]
    SourceFailed,
    /// It could not be written here.
    #[error("it cannot be written: {0}")]
    Sink(String),
    /// The order makes no sense: a source that is no configured peer, a snapshot longer than any may be, or more written than it has.
    #[error("it cannot be pulled: {0}")]
    Invalid(String),
    /// This side's own wish.
    #[error("cancelled")]
    Cancelled,
    /// This replica is stopping, or has no thread to pull with.
    #[error("this replica is stopping or cannot start a thread")]
    Stopping,
}

/// A pull that is under way; dropping it cancels the pull.
pub struct PullHandle {
    cancel: Option<oneshot::Sender<()>>,
    written: Arc<AtomicU64>,
}

impl fmt::Debug for PullHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PullHandle").field("written", &self.written()).finish_non_exhaustive()
    }
}

impl PullHandle {
    /// Ends the pull, unless it has ended. Its end is told all the same, after the last write.
    pub fn cancel(&mut self) {
        self.cancel = None;
    }

    /// Bytes from the beginning that are written so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

/// Sees to it that the end is told once, after the sink is gone, however the task ends.
struct Ending {
    sink: Option<Box<dyn SnapshotSink>>,
    on_end: Option<Box<dyn FnOnce(PullEnd) + Send>>,
    written: Arc<AtomicU64>,
}

impl Ending {
    fn tell(&mut self, result: Result<(), PullError>) {
        self.sink = None;
        if let Some(on_end) = self.on_end.take() {
            on_end(PullEnd { result, written: self.written.load(Ordering::Relaxed) });
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.tell(Err(PullError::Stopping));
    }
}

pub(super) fn start(
    hub: &Arc<Hub>,
    order: PullOrder,
    sink: Box<dyn SnapshotSink>,
    on_end: Box<dyn FnOnce(PullEnd) + Send>,
) -> PullHandle {
    let written = Arc::new(AtomicU64::new(order.written));
    let (cancel, cancelled) = oneshot::channel();
    let handle = PullHandle { cancel: Some(cancel), written: Arc::clone(&written) };
    let ending = Ending { sink: Some(sink), on_end: Some(on_end), written };
    match hub.transfers.runtime() {
        Ok(runtime) => {
            runtime.spawn(run(Arc::clone(hub), order, ending, cancelled));
        }
        Err(error) => {
            tracing::error!(replica = %hub.identity.replica, from = %order.from, "cannot pull a snapshot: {error}");
        }
    }
    handle
}

async fn run(hub: Arc<Hub>, order: PullOrder, mut ending: Ending, cancelled: oneshot::Receiver<()>) {
    let shown = Arc::clone(&ending.written);
    let Some(sink) = &mut ending.sink else { return };
    let result = tokio::select! {
        biased;
        // Nothing is ever sent: it resolves when the handle lets go.
        _ = cancelled => Err(PullError::Cancelled),
        result = pull(&hub, &order, &mut **sink, shown) => result,
    };
    if let Some(more) = hub.log_line(Topic::Transfer(order.from)) {
        let (replica, from, written) = (hub.identity.replica, order.from, ending.written.load(Ordering::Relaxed));
        match &result {
            Ok(()) => tracing::info!(%replica, %from, written, "a snapshot was pulled{more}"),
            Err(error) => tracing::warn!(%replica, %from, written, "a snapshot was not pulled: {error}{more}"),
        }
    }
    ending.tell(result);
}

/// Checks an order before anything is dialled and gives the source's address.
fn address_of<'a>(hub: &'a Hub, order: &PullOrder) -> Result<&'a str, PullError> {
    let length = order.snapshot.length_bytes;
    if length > limits::SNAPSHOT_BYTES {
        let reason = format!("{length} bytes were announced, above the limit of {}", limits::SNAPSHOT_BYTES);
        return Err(PullError::Invalid(reason));
    }
    if order.written > length {
        return Err(PullError::Invalid(format!("{} bytes are written of {length}", order.written)));
    }
    let unknown = || PullError::Invalid(format!("replica {} is no configured peer", order.from));
    hub.addresses.get(&order.from).map(String::as_str).ok_or_else(unknown)
}

async fn pull(
    hub: &Hub,
    order: &PullOrder,
    sink: &mut dyn SnapshotSink,
    shown: Arc<AtomicU64>,
) -> Result<(), PullError> {
    let address = address_of(hub, order)?;
    let mut progress = Progress { written: order.written, shown, moved: Instant::now() };
    let mut backoff = hub.options.backoff_min;
    let mut damaged = 0;
    while progress.written < order.snapshot.length_bytes {
        if hub.is_stopping() {
            return Err(PullError::Stopping);
        }
        let before = progress.written;
        let end = connection::pull(hub, order, address, sink, &mut progress).await;
        if progress.written > before {
            (backoff, damaged) = (hub.options.backoff_min, 0);
        }
        let reason = match end {
            Ok(()) => return Ok(()),
            Err(Broken::Final(error)) => return Err(error),
            Err(Broken::Lost(reason)) => reason,
            Err(Broken::Damaged(error)) => {
                damaged += 1;
                add(&hub.transfers.counters.damaged, 1);
                if damaged >= DAMAGED_CONNECTIONS {
                    return Err(PullError::Damaged(error));
                }
                error.to_string()
            }
        };
        let limit = hub.options.snapshot_stall_timeout;
        let pause = hub.jittered(backoff);
        if progress.moved.elapsed() + pause >= limit {
            return Err(PullError::Stalled { seconds: limit.as_secs(), reason });
        }
        sleep(pause).await;
        backoff = (backoff * 2).min(hub.options.backoff_max);
    }
    Ok(())
}
