//! A replica's executor driven frame by frame.
#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

pub mod files;
pub mod workload;

use bytes::Bytes;
use quorate_executor::{
    Command, CommandResult, CommandResults, CommandWriter, KvExecutor, MemoryStore, OrderedStore, ReplicatedLimits,
};
use quorate_framework::entry::EntryKind;
use quorate_framework::{
    Answer, Batch, BlockId, Digest, ExecuteRange, ExecutorCommand, ExecutorError, Outcome, Position, RequestHeader,
    Sequence, SessionId, Status,
};

pub const NONCE: u128 = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978;

pub fn block(name: u64) -> BlockId {
    let mut id = BlockId::default();
    id.0[..8].copy_from_slice(&name.to_le_bytes());
    id
}

pub fn session(position: u64) -> SessionId {
    SessionId { position: Position(position), offset: 0 }
}

/// The frame that opens a session.
pub fn open(nonce: u128, ordered: bool) -> Bytes {
    let mut bytes = Vec::new();
    RequestHeader::open(nonce, ordered).encode(&mut bytes);
    Bytes::from(bytes)
}

/// A frame with a body as it is.
pub fn raw(session: SessionId, sequence: u64, acknowledged: u64, count: u32, body: &[u8]) -> Bytes {
    let mut bytes = Vec::new();
    let (sequence, acknowledged) = (Sequence(sequence), Sequence(acknowledged));
    RequestHeader { session, sequence, acknowledged, count, signature_length: 0, ordered: false }.encode(&mut bytes);
    bytes.extend_from_slice(body);
    Bytes::from(bytes)
}

pub fn frame(session: SessionId, sequence: u64, commands: &[Command<'_>]) -> Bytes {
    let mut body = Vec::new();
    let mut writer = CommandWriter::new(&mut body);
    commands.iter().for_each(|command| writer.push(*command));
    let count = writer.count();
    raw(session, sequence, 0, count, &body)
}

/// Requests from `first` on, each as the block that is named like its position.
pub fn range(first: u64, payloads: &[Bytes]) -> ExecuteRange {
    let batch = |(position, payload): (u64, &Bytes)| Batch {
        block: block(position),
        kind: EntryKind::Request,
        payload: payload.clone(),
    };
    ExecuteRange { first: Position(first), batches: (first..).zip(payloads).map(batch).collect() }
}

pub struct Replica<S = MemoryStore> {
    pub executor: KvExecutor<S>,
    next_sequence: u64,
}

impl Replica {
    pub fn new() -> Replica {
        Replica::with_limits(ReplicatedLimits::default())
    }

    pub fn with_limits(limits: ReplicatedLimits) -> Replica {
        Replica::over(KvExecutor::new(MemoryStore::new(), limits))
    }

    /// With session 1.0 opened.
    pub fn with_session() -> Replica {
        let mut replica = Replica::new();
        assert_eq!(replica.execute(open(NONCE, false)).session, session(1));
        replica
    }
}

impl<S: OrderedStore> Replica<S> {
    pub fn over(executor: KvExecutor<S>) -> Replica<S> {
        Replica { executor, next_sequence: 1 }
    }

    pub fn next(&self) -> u64 {
        self.executor.executed().0 + 1
    }

    pub fn apply(&mut self, group: Vec<ExecutorCommand>) -> Result<Outcome, ExecutorError> {
        let mut outcome = Outcome::default();
        self.executor.apply(group, &mut outcome).map(|()| outcome)
    }

    pub fn execute_range(&mut self, range: ExecuteRange) -> Outcome {
        self.apply(vec![ExecutorCommand::Execute { range, answers: true }]).expect("a range in order")
    }

    /// Executes one frame at the next position.
    pub fn execute(&mut self, payload: Bytes) -> Answer {
        let range = range(self.next(), &[payload]);
        self.execute_range(range).answers.pop().expect("a request is answered")
    }

    /// Runs commands in session 1.0, as its next frame.
    pub fn run(&mut self, commands: &[Command<'_>]) -> Answer {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.execute(frame(session(1), sequence, commands))
    }

    /// Runs one command and gives its result's status and value bytes as they stand in the answer.
    pub fn one(&mut self, command: Command<'_>) -> Vec<u8> {
        let answer = self.run(&[command]);
        assert_eq!(answer.status, Status::Ok);
        answer.body.to_vec()
    }

    pub fn digest(&mut self) -> Digest {
        self.apply(vec![ExecutorCommand::Digest]).expect("a digest").digest.expect("it was asked for")
    }
}

pub fn encoded(result: CommandResult<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    result.encode(&mut bytes);
    bytes
}

pub fn plain(status: Status) -> Vec<u8> {
    encoded(CommandResult::plain(status))
}

pub fn statuses(answer: &Answer, count: u32) -> Vec<Status> {
    CommandResults::new(&answer.body, count).map(|result| result.expect("a readable answer").status).collect()
}
