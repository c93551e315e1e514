//! A state machine on a thread of its own, for a store that waits for a disk: the core goes on meanwhile.

use super::local::LocalMachine;
use super::{Keeping, StateMachine};
use async_trait::async_trait;
use quorate_executor::OrderedStore;
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
    Persist(oneshot::Sender<Result<(), ExecutorError>>),
}

/// The handle to a machine on its thread. Whoever uses it has one task at a time under way, so at most two jobs wait. Dropping it ends
/// the thread after the task it is at, and waits for that: then the store is closed.
pub struct ThreadedMachine {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    keeping: Keeping,
}

impl Drop for ThreadedMachine {
    fn drop(&mut self) {
        self.jobs = None;
        // A panic of the thread has been reported on stderr.
        let _ = self.thread.take().map(JoinHandle::join);
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
        let keeping = machine.kept();
        let thread = thread::Builder::new().name("executor".to_owned()).spawn(move || run(machine, &taken))?;
        Ok(ThreadedMachine { jobs: Some(jobs), thread: Some(thread), keeping })
    }

    async fn ask<A>(&self, job: impl FnOnce(oneshot::Sender<A>) -> Job) -> Result<A, ExecutorError> {
        let (answer, answered) = oneshot::channel();
        self.jobs.as_ref().ok_or_else(gone)?.send(job(answer)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }
}

/// Does one job after the other. An answer that nobody waits for any more is of no use.
fn run<S: OrderedStore>(mut machine: LocalMachine<S>, jobs: &Receiver<Job>) {
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
                let _ = answer.send(machine.make_durable());
            }
        }
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

    async fn persist(&mut self) -> Result<(), ExecutorError> {
        self.ask(Job::Persist).await?
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
    }
}
