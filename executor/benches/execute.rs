//! What a transaction costs in the executor, sessions on: the time shown is for the whole range; the throughput is per transaction.
#![allow(missing_docs)]

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use quorate_executor::{Command, CommandWriter, KvExecutor, MemoryStore, ReplicatedLimits};
use quorate_framework::entry::EntryKind;
use quorate_framework::{
    Batch, BlockId, ExecuteRange, ExecutorCommand, Outcome, Position, RequestHeader, Sequence, SessionId,
};

/// Sequences that the client leaves unacknowledged.
const WINDOW: u64 = 512;
const SESSION: SessionId = SessionId { position: Position(1), offset: 0 };

fn batch(payload: Bytes) -> Batch {
    Batch { block: BlockId::default(), kind: EntryKind::Request, payload }
}

/// An executor with a session, and the source of its ranges.
struct Load {
    executor: KvExecutor<MemoryStore>,
    keys: u64,
    keys_seen: u64,
    value: Vec<u8>,
    puts_per_frame: u64,
    frames: u64,
    position: u64,
}

impl Load {
    fn new(keys: u64, value_bytes: usize, puts_per_frame: u64, frames: u64) -> Load {
        let executor = KvExecutor::new(MemoryStore::new(), ReplicatedLimits::default());
        let value = vec![b'v'; value_bytes];
        let mut load = Load { executor, keys, keys_seen: 0, value, puts_per_frame, frames, position: 2 };
        let mut open = Vec::new();
        RequestHeader::open(7, false).encode(&mut open);
        load.execute(ExecuteRange { first: Position(1), batches: vec![batch(Bytes::from(open))] });
        for _ in 0..=keys / (puts_per_frame * frames) {
            let range = load.range();
            load.execute(range);
        }
        load
    }

    fn range(&mut self) -> ExecuteRange {
        let first = Position(self.position);
        // As in a replica, the payloads of a group share one buffer.
        let mut group = Vec::new();
        let mut ends = vec![0];
        for _ in 0..self.frames {
            self.frame(&mut group);
            ends.push(group.len());
        }
        let group = Bytes::from(group);
        let batches = ends.windows(2).map(|ends| batch(group.slice(ends[0]..ends[1]))).collect();
        ExecuteRange { first, batches }
    }

    /// Appends the next frame.
    fn frame(&mut self, group: &mut Vec<u8>) {
        let sequence = self.position - 1;
        self.position += 1;
        RequestHeader {
            session: SESSION,
            sequence: Sequence(sequence),
            acknowledged: Sequence(sequence.saturating_sub(WINDOW)),
            count: self.puts_per_frame as u32,
            signature_length: 0,
            ordered: false,
        }
        .encode(group);
        let mut writer = CommandWriter::new(group);
        for _ in 0..self.puts_per_frame {
            // A step that is coprime to the number of keys visits all of them, in no order the caches like.
            self.keys_seen += 7_919;
            let key = format!("key{}", self.keys_seen % self.keys);
            writer.push(Command::Put { key: key.as_bytes(), value: &self.value });
        }
    }

    fn execute(&mut self, range: ExecuteRange) -> Outcome {
        let mut outcome = Outcome::default();
        let group = vec![ExecutorCommand::Execute { range, answers: true }];
        self.executor.apply(group, &mut outcome).expect("ranges in order");
        outcome
    }
}

fn measure(criterion: &mut Criterion, name: &str, mut load: Load) {
    let mut group = criterion.benchmark_group("execute");
    group.throughput(Throughput::Elements(load.puts_per_frame * load.frames));
    // Ranges are made one by one, in order, outside the measured time.
    let load = std::cell::RefCell::new(&mut load);
    group.bench_function(name, |bencher| {
        bencher.iter_batched(
            || load.borrow_mut().range(),
            |range| load.borrow_mut().execute(range),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn benches(criterion: &mut Criterion) {
    measure(criterion, "100 frames of 100 puts of 9 bytes on 100 keys", Load::new(100, 9, 100, 100));
    measure(criterion, "1000 frames of 1 put of 100 bytes on 10000 keys", Load::new(10_000, 100, 1, 1_000));
    measure(criterion, "100 frames of 100 puts of 100 bytes on 10000 keys", Load::new(10_000, 100, 100, 100));
}

criterion_group!(execute, benches);
criterion_main!(execute);
