//! The write-ahead log as a storage: a thread of its own writes and syncs, and wakes the shell.

use super::{NamedSnapshot, Storage, StorageFigures, SyncTimes};
use parking_lot::Mutex;
use quorate_framework::{Consensus, MemberVector, RecoverySpec, Ticket};
use quorate_recovery::{
    FlushLinger, MetadataChange, NoThread, Pump, StorageError, Submission, SubmitError, WalEvent, WalWriterLoop,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Wakes the shell, from any thread.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// What the writer's thread leaves for the shell.
#[derive(Default)]
struct Told {
    state: Mutex<ToldState>,
    stopped: AtomicBool,
}

#[derive(Default)]
struct ToldState {
    durable: Option<Ticket>,
    failure: Option<String>,
    times: SyncTimes,
}

impl Told {
    fn fail(&self, failure: String) {
        self.state.lock().failure.get_or_insert(failure);
    }
}

/// The storage of a durable replica.
pub struct WalStorage<R: RecoverySpec> {
    writer: Option<WalWriterLoop<R>>,
    told: Arc<Told>,
    wake: Wake,
    submitted_bytes: u64,
    /// Scratch: what is submitted.
    submissions: Vec<Submission<R>>,
}

impl<R: RecoverySpec> fmt::Debug for WalStorage<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("WalStorage").finish_non_exhaustive()
    }
}

impl<R: RecoverySpec + Send + 'static> WalStorage<R> {
    /// Starts the writer's thread.
    ///
    /// # Errors
    /// [`NoThread`], with the log.
    pub fn start(pump: Pump<R>, linger: FlushLinger, wake: Wake) -> Result<WalStorage<R>, NoThread<R>> {
        let told = Arc::new(Told::default());
        let (heard, waking) = (Arc::clone(&told), Arc::clone(&wake));
        let writer = WalWriterLoop::start(pump, linger, move |event| {
            match event {
                WalEvent::Persisted { ticket, records, sync_time } => {
                    let mut state = heard.state.lock();
                    state.durable = Some(ticket);
                    if records > 0 {
                        state.times.note(sync_time);
                    }
                }
                WalEvent::Failed(error) => heard.fail(error.to_string()),
            }
            waking();
        })?;
        Ok(WalStorage { writer: Some(writer), told, wake, submitted_bytes: 0, submissions: Vec::new() })
    }

    fn hand_over(&mut self) {
        if self.submissions.is_empty() {
            return;
        }
        let handed = match &self.writer {
            Some(writer) => writer.submit(&mut self.submissions),
            None => Err(SubmitError::Ended(StorageError::Ended)),
        };
        if let Err(error) = handed {
            self.submissions.clear();
            // A failure of the writer itself says more, and comes first.
            self.told.fail(error.to_string());
            (self.wake)();
        }
    }
}

/// Puts two lists that rise by their tickets into one.
fn merge<R: RecoverySpec>(
    records: &mut Vec<(Ticket, R)>,
    identity: &mut Vec<(Ticket, MemberVector)>,
    submissions: &mut Vec<Submission<R>>,
) {
    let mut identity = identity.drain(..).peekable();
    for (ticket, record) in records.drain(..) {
        while let Some((before, vector)) = identity.next_if(|(other, _)| *other < ticket) {
            submissions.push(Submission::metadata(before, MetadataChange::Members(vector)));
        }
        submissions.push(Submission::record(ticket, record));
    }
    submissions.extend(identity.map(|(ticket, vector)| Submission::metadata(ticket, MetadataChange::Members(vector))));
}

impl<C> Storage<C> for WalStorage<C::Record>
where
    C: Consensus,
    C::Record: Send + 'static,
{
    fn submit(&mut self, records: &mut Vec<(Ticket, C::Record)>, identity: &mut Vec<(Ticket, MemberVector)>) {
        self.submitted_bytes += records.iter().map(|(_, record)| record.weight() as u64).sum::<u64>();
        merge(records, identity, &mut self.submissions);
        self.hand_over();
    }

    fn name_snapshot(&mut self, ticket: Ticket, snapshot: NamedSnapshot) {
        let NamedSnapshot { base, store_generation, released } = snapshot;
        let change = MetadataChange::Snapshot { base, store_generation, released };
        self.submissions.push(Submission::metadata(ticket, change));
        self.hand_over();
    }

    fn durable(&self) -> Ticket {
        self.told.state.lock().durable.unwrap_or(Ticket::RECOVERED)
    }

    fn failure(&self) -> Option<String> {
        self.told.state.lock().failure.clone()
    }

    fn pending_bytes(&self) -> u64 {
        self.writer.as_ref().map_or(0, WalWriterLoop::pending_bytes)
    }

    fn submitted_bytes(&self) -> u64 {
        self.submitted_bytes
    }

    fn begin_stop(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        let (told, wake) = (Arc::clone(&self.told), Arc::clone(&self.wake));
        let ending = move || {
            if let Err(error) = writer.stop() {
                told.fail(error.to_string());
            }
            told.stopped.store(true, Ordering::Release);
            wake();
        };
        if let Err(error) = thread::Builder::new().name("wal-stop".to_owned()).spawn(ending) {
            // Dropping the writer has ended it as a crash would, which the next start can bear.
            self.told.fail(format!("no thread to end the log with: {error}"));
            self.told.stopped.store(true, Ordering::Release);
        }
    }

    fn is_stopped(&self) -> bool {
        self.told.stopped.load(Ordering::Acquire)
    }

    fn figures(&self) -> Option<StorageFigures> {
        let figures = self.writer.as_ref()?.figures();
        let times = self.told.state.lock().times.percentiles();
        let at = |place: usize| times.map(|times| times[place]);
        Some(StorageFigures {
            fsyncs: figures.log.syncs,
            records: figures.records,
            groups: figures.submitted_groups,
            group_records_mean: figures.records as f64 / figures.submitted_groups.max(1) as f64,
            metadata_writes: figures.metadata_writes,
            pending_bytes: <WalStorage<C::Record> as Storage<C>>::pending_bytes(self),
            fsync_p50_us: at(0),
            fsync_p99_us: at(1),
            fsync_max_us: at(2),
        })
    }
}

#[cfg(test)]
#[path = "wal_tests.rs"]
mod tests;
