//! Doubles of the state machine, the storage, and what moves snapshots.

use super::{Calls, SELF};
use crate::driver::scripted::{Scripted, ScriptedRecord};
use crate::shell::storage::{NamedSnapshot, Storage, StorageFigures};
use crate::snapshots::{Directory, Puller, Scratch, SnapshotParts, Snapshots};
use crate::state_machine::{Keeping, Persisting, StateMachine};
use async_trait::async_trait;
use parking_lot::Mutex;
use quorate_communicator::transfer::{PullEnd, PullOrder, SnapshotSink};
use quorate_framework::execution::MockTransactionExecutor;
use quorate_framework::vfs::Vfs;
use quorate_framework::{
    ExecutorCommand, ExecutorError, MemberVector, Outcome, SnapshotBase, Ticket, TransactionExecutor,
};
use std::any::Any;
use std::io;
use std::sync::Arc;
use tokio::sync::Notify;

/// The mocked executor with a snapshot of five bytes; without one it never ends.
pub(super) struct TestMachine(pub(super) Option<MockTransactionExecutor>, pub(super) Delay);

/// How an executor takes its time.
#[derive(Clone, Default)]
pub(super) enum Delay {
    /// It does not.
    #[default]
    None,
    /// It goes on when it is told to.
    Until(Arc<Notify>),
}

#[async_trait]
impl TransactionExecutor for TestMachine {
    async fn execute(&mut self, group: &mut Vec<ExecutorCommand>) -> Result<Outcome, ExecutorError> {
        if let Delay::Until(told) = &self.1 {
            told.notified().await;
        }
        match &mut self.0 {
            Some(executor) => executor.execute(group).await,
            None => std::future::pending().await,
        }
    }
}

#[async_trait]
impl StateMachine for TestMachine {
    fn keeping(&self) -> Keeping {
        Keeping::InSnapshots
    }

    async fn begin_snapshot(&mut self, _base: &SnapshotBase) -> Result<(), ExecutorError> {
        Ok(())
    }

    async fn next_piece(&mut self, _budget_bytes: usize, bytes: &mut Vec<u8>) -> Result<bool, ExecutorError> {
        bytes.extend_from_slice(b"state");
        Ok(true)
    }

    fn drop_snapshot(&mut self) {}

    async fn persist(&mut self) -> Result<Persisting, ExecutorError> {
        Ok(Box::pin(std::future::ready(Ok(()))))
    }
}

struct NoPuller;

impl Puller for NoPuller {
    fn pull(
        &self,
        _order: PullOrder,
        _sink: Box<dyn SnapshotSink>,
        _on_end: Box<dyn FnOnce(PullEnd) + Send>,
    ) -> Box<dyn Any + Send> {
        Box::new(())
    }
}

/// Snapshots in files without names.
pub(super) fn snapshots(wake: Arc<Notify>, durable: bool) -> Snapshots<TestMachine> {
    let scratch = Scratch::default();
    let open = move || -> io::Result<Box<dyn Vfs>> { Ok(Box::new(scratch.clone())) };
    Snapshots::new(SnapshotParts {
        directory: Directory { open: Arc::new(open), keeps_files: durable },
        puller: Box::new(NoPuller),
        load: Arc::new(|_, _| Err("nothing is loaded here".to_owned())),
        wake: Arc::new(move || wake.notify_one()),
        named: None,
        durable,
        remove_generation: Arc::new(|_| ()),
    })
}

#[derive(Default)]
pub(super) struct Disk {
    pub(super) durable: Option<Ticket>,
    pub(super) failure: Option<String>,
    pub(super) pending_bytes: u64,
    pub(super) last: Option<Ticket>,
    pub(super) stopping: bool,
    pub(super) stopped: bool,
}

/// A storage whose disk is in a test's hand. What is submitted is written into the calls.
#[derive(Clone)]
pub(super) struct TestStorage {
    pub(super) disk: Arc<Mutex<Disk>>,
    pub(super) calls: Calls,
}

impl TestStorage {
    pub(super) fn new(calls: &Calls) -> TestStorage {
        TestStorage { disk: Arc::default(), calls: Arc::clone(calls) }
    }

    /// Everything that was submitted is durable.
    pub(super) fn sync(&self) {
        let mut disk = self.disk.lock();
        disk.durable = disk.last;
    }

    fn submitted(&self, ticket: Ticket, what: &str) {
        let mut disk = self.disk.lock();
        assert!(disk.last < Some(ticket), "tickets rise");
        assert!(!disk.stopping, "nothing is submitted after the stop");
        disk.last = Some(ticket);
        self.calls.lock().push(format!("submit {what}"));
    }
}

impl Storage<Scripted> for TestStorage {
    fn submit(&mut self, records: &mut Vec<(Ticket, ScriptedRecord)>, identity: &mut Vec<(Ticket, MemberVector)>) {
        let mut all: Vec<(Ticket, String)> = Vec::new();
        all.extend(records.drain(..).map(|(ticket, record)| (ticket, format!("record {}", record.0))));
        all.extend(
            identity.drain(..).map(|(ticket, members)| (ticket, format!("members {}", members.contains_key(&SELF)))),
        );
        all.sort();
        all.into_iter().for_each(|(ticket, what)| self.submitted(ticket, &what));
    }

    fn name_snapshot(&mut self, ticket: Ticket, snapshot: NamedSnapshot) {
        self.submitted(ticket, &format!("snapshot {}", snapshot.base.position));
    }

    fn durable(&self) -> Ticket {
        self.disk.lock().durable.unwrap_or(Ticket::RECOVERED)
    }

    fn failure(&self) -> Option<String> {
        self.disk.lock().failure.clone()
    }

    fn pending_bytes(&self) -> u64 {
        self.disk.lock().pending_bytes
    }

    fn submitted_bytes(&self) -> u64 {
        0
    }

    fn begin_stop(&mut self) {
        self.disk.lock().stopping = true;
        self.calls.lock().push("stop the storage".to_owned());
    }

    fn is_stopped(&self) -> bool {
        self.disk.lock().stopped
    }

    fn figures(&self) -> Option<StorageFigures> {
        None
    }
}
