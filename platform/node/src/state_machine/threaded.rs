//! A state machine on a thread of its own, for a store that waits for a disk: the core goes on meanwhile.

use super::local::LocalMachine;
use super::{Keeping, Persisting, StateMachine};
use async_trait::async_trait;
use quorate_executor::{OrderedStore, PersistLater};
use quorate_framework::{ExecutorCommand, ExecutorError, Outcome, SnapshotBase, TransactionExecutor};
use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use tokio::sync::oneshot;

/// A task and where its end is told. What it works with moves there and back.
enum Job {
    Execute(Vec<ExecutorCommand>, oneshot::Sender<(Vec<ExecutorCommand>, Result<Outcome, ExecutorError>)>),
    Begin(SnapshotBase, oneshot::Sender<Result<(), ExecutorError>>),
    Piece(usize, Vec<u8>, oneshot::Sender<(Vec<u8>, Result<bool, ExecutorError>)>),
    LetGo,
    Persist(oneshot::Sender<Persisted>),
}

type Persisted = Result<(), ExecutorError>;

/// What makes a state durable, and where the end of that is told.
type Write = (PersistLater, oneshot::Sender<Persisted>);

/// The handle to a machine on its thread. Whoever uses it has one task at a time under way, so at most two jobs wait. A second thread makes
/// its states durable meanwhile. Dropping it ends both after what they are at, and waits for that: then the store is closed.
pub struct ThreadedMachine {
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    keeping: Keeping,
}

impl Drop for ThreadedMachine {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A panic of it has been reported on stderr.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for ThreadedMachine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ThreadedMachine").field("keeping", &self.keeping).finish_non_exhaustive()
    }
}

fn gone() -> ExecutorError {
    ExecutorError::Store("the executor's thread has ended".to_owned())
}

impl ThreadedMachine {
    /// Moves a machine to a thread of its own.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub fn start<S: OrderedStore + 'static>(machine: LocalMachine<S>) -> io::Result<ThreadedMachine>
    where
        S::View: 'static,
    {
        let (jobs, taken) = channel();
        let (writes, written) = channel();
        let keeping = machine.kept();
        let start =
            |name: &str, work: Box<dyn FnOnce() + Send>| thread::Builder::new().name(name.to_owned()).spawn(work);
        let executor = start("executor", Box::new(move || run(machine, &taken, &writes)))?;
        let mut machine = ThreadedMachine { jobs: Some(jobs), threads: vec![executor], keeping };
        machine.threads.push(start("checkpoints", Box::new(move || persist(&written)))?);
        Ok(machine)
    }

    async fn ask<A>(&self, job: impl FnOnce(oneshot::Sender<A>) -> Job) -> Result<A, ExecutorError> {
        let (answer, answered) = oneshot::channel();
        self.jobs.as_ref().ok_or_else(gone)?.send(job(answer)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }
}

/// Does one job after the other. An answer that nobody waits for any more is of no use.
fn run<S: OrderedStore>(mut machine: LocalMachine<S>, jobs: &Receiver<Job>, writes: &Sender<Write>) {
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Execute(mut group, answer) => {
                let done = machine.apply(&mut group);
                let _ = answer.send((group, done));
            }
            Job::Begin(base, answer) => {
                let _ = answer.send(machine.begin(&base));
            }
            Job::Piece(budget_bytes, mut bytes, answer) => {
                let done = machine.piece(budget_bytes, &mut bytes);
                let _ = answer.send((bytes, done));
            }
            Job::LetGo => machine.let_go(),
            Job::Persist(answer) => {
                let _ = writes.send((machine.persist_later(), answer));
            }
        }
    }
}

/// Makes one state durable after the other.
fn persist(writes: &Receiver<Write>) {
    while let Ok((write, answer)) = writes.recv() {
        let done = write().map(drop).map_err(|error| ExecutorError::Store(error.to_string()));
        let _ = answer.send(done);
    }
}

#[async_trait]
impl TransactionExecutor for ThreadedMachine {
    async fn execute(&mut self, group: &mut Vec<ExecutorCommand>) -> Result<Outcome, ExecutorError> {
        let taken = std::mem::take(group);
        let (left, done) = self.ask(|answer| Job::Execute(taken, answer)).await?;
        *group = left;
        done
    }
}

#[async_trait]
impl StateMachine for ThreadedMachine {
    fn keeping(&self) -> Keeping {
        self.keeping
    }

    async fn begin_snapshot(&mut self, base: &SnapshotBase) -> Result<(), ExecutorError> {
        self.ask(|answer| Job::Begin(base.clone(), answer)).await?
    }

    async fn next_piece(&mut self, budget_bytes: usize, bytes: &mut Vec<u8>) -> Result<bool, ExecutorError> {
        let taken = std::mem::take(bytes);
        let (given, done) = self.ask(|answer| Job::Piece(budget_bytes, taken, answer)).await?;
        *bytes = given;
        done
    }

    fn drop_snapshot(&mut self) {
        // A thread that has ended holds no view.
        let _ = self.jobs.as_ref().map(|jobs| jobs.send(Job::LetGo));
    }

    async fn persist(&mut self) -> Result<Persisting, ExecutorError> {
        let (answer, answered) = oneshot::channel();
        self.jobs.as_ref().ok_or_else(gone)?.send(Job::Persist(answer)).map_err(|_| gone())?;
        Ok(Box::pin(async move { answered.await.map_err(|_| gone())? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_executor::{KvExecutor, MemoryStore, ReplicatedLimits};
    use quorate_framework::{ClusterId, Position};

    #[tokio::test]
    async fn a_machine_on_its_thread_gives_the_same_as_one_that_is_called() {
        let local = || {
            let executor = KvExecutor::new(MemoryStore::new(), ReplicatedLimits::default());
            LocalMachine::new(executor, ClusterId([3; 16]), Keeping::InSnapshots)
        };
        let (mut here, mut there) = (local(), ThreadedMachine::start(local()).unwrap());
        assert_eq!(there.keeping(), here.keeping());
        let base = SnapshotBase::default();
        let (mut expected, mut bytes) = (Vec::new(), Vec::new());
        here.begin_snapshot(&base).await.unwrap();
        while !here.next_piece(64, &mut expected).await.unwrap() {}
        there.begin_snapshot(&base).await.unwrap();
        while !there.next_piece(64, &mut bytes).await.unwrap() {}
        assert_eq!(bytes, expected);
        let mut group = vec![ExecutorCommand::Digest];
        let outcome = there.execute(&mut group).await.unwrap();
        assert!(outcome.digest.is_some() && outcome.executed == Position::ZERO && group.is_empty());
        there.drop_snapshot();
        assert!(there.next_piece(64, &mut bytes).await.is_err(), "none is under way");
        let persisting = there.persist().await.unwrap();
        assert_eq!(here.persist().await.unwrap().await, Ok(()));
        there.execute(&mut vec![ExecutorCommand::Digest]).await.unwrap();
        assert_eq!(persisting.await, Ok(()));
    }
}
