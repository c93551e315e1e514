//! The ceiling of this machine for a workload: the same batches executed on as many stores as there are replicas, and nothing else.
//! No network, no consensus, no log. Everything real stays: the frames, the decoder, the session table, the memory store.

use crate::generator::check_answer;
use crate::workload::{BatchMaker, Workload};
use bytes::{Bytes, BytesMut};
use quorate_executor::{KvExecutor, MemoryStore, ReplicatedLimits};
use quorate_framework::entry::EntryKind;
use quorate_framework::request::REQUEST_HEADER_BYTES;
use quorate_framework::{
    Answer, Batch, BlockId, ExecuteRange, ExecutorCommand, Outcome, Position, RequestHeader, Sequence, SessionId,
};
use serde::Serialize;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Bytes of frames that are made for one store and round.
const ROUND_BYTES: usize = 8 << 20;
/// Frames of one round at least, however large they are.
const ROUND_FRAMES_MIN: usize = 8;
/// Frames of one round at most.
const ROUND_FRAMES: usize = 8_192;
/// Frames executed at a time, as a busy replica's turn has them.
const FRAMES_PER_TURN: usize = 64;
/// How far the client's low mark follows behind.
const LOW_MARK_BEHIND: u64 = 512;

/// What a ceiling is measured for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitPlan {
    /// What is executed.
    pub workload: Workload,
    /// Stores.
    pub replicas: usize,
    /// Threads that share the stores.
    pub threads: usize,
    /// How long.
    pub duration: Duration,
    /// Seed of keys and values.
    pub seed: u64,
}

/// The ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LimitResult {
    /// Always `limit`.
    pub experiment: &'static str,
    /// Transactions a second, each executed on every store.
    pub throughput_per_s: f64,
    /// Time of one execution on one store, in nanoseconds.
    pub execution_ns: f64,
    /// Transactions counted.
    pub transactions: u64,
    /// Stores.
    pub replicas: usize,
    /// Threads.
    pub threads: usize,
    /// Time in which something was executed, in seconds.
    pub duration_s: f64,
    /// The workload.
    pub workload: Workload,
}

/// The ceiling could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LimitError {
    /// An executor failed.
    #[error("the executor failed: {0}")]
    Executor(String),
    /// A batch was not executed, so its time says nothing.
    #[error("a batch was not executed ({0}): its time would say nothing")]
    NotExecuted(String),
    /// No time to measure anything.
    #[error("no samples: nothing was executed in the time given")]
    NoSamples,
    /// A thread ended unexpectedly; a fault of this program.
    #[error("a thread ended unexpectedly")]
    Thread,
}

/// Measures. Blocks for about the plan's duration, of which about half is measured: the frames of a round are made before it.
///
/// # Errors
/// [`LimitError`].
pub fn run(plan: &LimitPlan) -> Result<LimitResult, LimitError> {
    let bodies = make_bodies(plan);
    let threads = plan.threads.clamp(1, plan.replicas.max(1));
    let shared = Shared {
        barrier: Barrier::new(threads),
        started: Instant::now(),
        another_round: AtomicBool::new(false),
        failed: AtomicBool::new(false),
    };
    let rounds = thread::scope(|scope| {
        let work = |number: usize| {
            let (bodies, shared) = (&bodies, &shared);
            scope.spawn(move || work(plan, number, threads, bodies, shared))
        };
        let running: Vec<_> = (0..threads).map(work).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err(LimitError::Thread)))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let count = rounds.iter().map(Vec::len).min().unwrap_or(0);
    let (mut wall, mut work) = (Duration::ZERO, Duration::ZERO);
    for round in 0..count {
        // A round lasts as long as its slowest thread.
        let times: Vec<Duration> = rounds.iter().map(|rounds| rounds[round]).collect();
        wall += times.iter().max().copied().unwrap_or_default();
        work += times.iter().sum::<Duration>();
    }
    let transactions = (count * bodies.len()) as u64 * u64::from(plan.workload.batch);
    if transactions == 0 || wall.is_zero() {
        return Err(LimitError::NoSamples);
    }
    Ok(LimitResult {
        experiment: "limit",
        throughput_per_s: transactions as f64 / wall.as_secs_f64(),
        execution_ns: work.as_secs_f64() * 1e9 / transactions as f64 / plan.replicas as f64,
        transactions,
        replicas: plan.replicas,
        threads,
        duration_s: wall.as_secs_f64(),
        workload: plan.workload,
    })
}

fn make_bodies(plan: &LimitPlan) -> Vec<Bytes> {
    let frame_bytes = REQUEST_HEADER_BYTES + plan.workload.body_bytes_max();
    let frames = (ROUND_BYTES / frame_bytes).clamp(ROUND_FRAMES_MIN, ROUND_FRAMES);
    let mut maker = BatchMaker::new(plan.workload, plan.seed);
    (0..frames).map(|_| maker.next_body()).collect()
}

/// What the threads of a run share.
struct Shared {
    barrier: Barrier,
    started: Instant,
    another_round: AtomicBool,
    failed: AtomicBool,
}

/// One thread's rounds: the time each took on all stores of the thread. Every thread makes the same rounds, whatever fails, or the
/// others would wait for ever.
fn work(
    plan: &LimitPlan,
    number: usize,
    threads: usize,
    bodies: &[Bytes],
    shared: &Shared,
) -> Result<Vec<Duration>, LimitError> {
    let stores = (number..plan.replicas).step_by(threads).map(|store| Store::new(plan, store == 0)).collect();
    let (mut stores, mut error): (Vec<Store>, _) = match stores {
        Ok(stores) => (stores, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let mut rounds = Vec::new();
    loop {
        if error.is_some() {
            shared.failed.store(true, Ordering::SeqCst);
        }
        shared.barrier.wait();
        if number == 0 {
            let goes_on = shared.started.elapsed() < plan.duration && !shared.failed.load(Ordering::SeqCst);
            shared.another_round.store(goes_on, Ordering::SeqCst);
        }
        shared.barrier.wait();
        if !shared.another_round.load(Ordering::SeqCst) {
            return error.map_or(Ok(rounds), Err);
        }
        let turns: Vec<Vec<ExecuteRange>> = stores.iter_mut().map(|store| store.turns(plan, bodies)).collect();
        shared.barrier.wait();
        let round = Instant::now();
        let executed = stores
            .iter_mut()
            .zip(turns)
            .try_for_each(|(store, turns)| turns.into_iter().try_for_each(|range| store.execute(range)));
        rounds.push(round.elapsed());
        error = error.or(executed.err());
    }
}

/// One replica's executor with the session in which the frames come.
struct Store {
    executor: KvExecutor<MemoryStore>,
    session: SessionId,
    sequence: u64,
    answers: bool,
    count: u32,
}

impl Store {
    fn new(plan: &LimitPlan, answers: bool) -> Result<Store, LimitError> {
        let mut store = Store {
            executor: KvExecutor::new(MemoryStore::new(), ReplicatedLimits::default()),
            session: SessionId::NONE,
            sequence: 0,
            answers,
            count: plan.workload.batch,
        };
        let open = frame(&RequestHeader::open(1, false), &[]);
        let range = ExecuteRange { first: Position(1), batches: vec![batch(open)] };
        let opened = store.apply(range, true)?;
        store.session = opened.first().ok_or(LimitError::NoSamples)?.session;
        Ok(store)
    }

    /// The frames of a round, with fresh sequences, in turns.
    fn turns(&mut self, plan: &LimitPlan, bodies: &[Bytes]) -> Vec<ExecuteRange> {
        let mut next = self.executor.executed().0;
        let mut turn = |bodies: &[Bytes]| {
            let first = Position(next + 1);
            next += bodies.len() as u64;
            let frames = bodies.iter().map(|body| {
                self.sequence += 1;
                let header = RequestHeader {
                    session: self.session,
                    sequence: Sequence(self.sequence),
                    acknowledged: Sequence(self.sequence.saturating_sub(LOW_MARK_BEHIND)),
                    count: plan.workload.batch,
                    signature_length: 0,
                    ordered: false,
                };
                batch(frame(&header, body))
            });
            ExecuteRange { first, batches: frames.collect() }
        };
        bodies.chunks(FRAMES_PER_TURN).map(&mut turn).collect()
    }

    fn execute(&mut self, range: ExecuteRange) -> Result<(), LimitError> {
        let answers = self.apply(range, self.answers)?;
        let check = |answer: &Answer| check_answer(answer.status, self.count, &answer.body);
        answers.iter().try_for_each(check).map_err(|failure| LimitError::NotExecuted(failure.to_string()))
    }

    fn apply(&mut self, range: ExecuteRange, answers: bool) -> Result<Vec<Answer>, LimitError> {
        let mut outcome = Outcome::default();
        let applied = self.executor.apply(vec![ExecutorCommand::Execute { range, answers }], &mut outcome);
        applied.map_err(|error| LimitError::Executor(error.to_string()))?;
        Ok(outcome.answers)
    }
}

fn batch(payload: Bytes) -> Batch {
    Batch { block: BlockId::default(), kind: EntryKind::Request, payload }
}

fn frame(header: &RequestHeader, body: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(REQUEST_HEADER_BYTES + body.len());
    header.encode(&mut frame);
    frame.extend_from_slice(body);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Distribution;
    use quorate_executor::KeyValue;

    fn plan(replicas: usize, threads: usize) -> LimitPlan {
        let workload = Workload {
            keys: 100,
            value_size_bytes: 9,
            read_share: 0.1,
            distribution: Distribution::Uniform,
            batch: 100,
        };
        LimitPlan { workload, replicas, threads, duration: Duration::from_millis(50), seed: 1 }
    }

    #[test]
    fn every_store_executes_every_transaction() {
        let plan = plan(4, 2);
        let result = run(&plan).unwrap();
        assert!(result.throughput_per_s > 1_000.0 && result.execution_ns > 1.0, "{result:?}");
        assert_eq!((result.threads, result.transactions % 100), (2, 0));
        let mut store = Store::new(&plan, true).unwrap();
        for range in store.turns(&plan, &make_bodies(&plan)[..3]) {
            store.execute(range).unwrap();
        }
        assert_eq!((store.executor.executed(), store.sequence), (Position(4), 3));
        assert!(
            store.executor.store().get(b"00").unwrap().is_some()
                || store.executor.store().get(b"01").unwrap().is_some()
        );
    }

    #[test]
    fn a_workload_that_is_not_executed_is_an_error_and_not_a_ceiling() {
        let mut plan = plan(2, 2);
        plan.workload.value_size_bytes = ReplicatedLimits::default().value_bytes as usize + 1;
        (plan.workload.batch, plan.workload.read_share) = (1, 0.0);
        assert!(matches!(run(&plan), Err(LimitError::NotExecuted(_))), "{:?}", run(&plan));
        let none = LimitPlan { duration: Duration::ZERO, ..self::plan(1, 1) };
        assert_eq!(run(&none), Err(LimitError::NoSamples));
    }
}
