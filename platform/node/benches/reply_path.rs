//! What a request costs in the driver and on the way out, in a cluster of one with the real protocol: the turn from requests to the
//! orders for the executor, and the reply path from the executor's outcome to frames that are written (to nowhere). Execution itself
//! is the executor's bench. The time shown is for the whole group; the throughput is per request.
#![allow(missing_docs)]

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quorate_communicator::bounds::CLIENT_OUTBOX;
use quorate_communicator::frame::FrameKind;
use quorate_communicator::outgoing::OutgoingLanes;
use quorate_framework::entry::EntryKind;
use quorate_framework::reply::REPLY_HEADER_BYTES;
use quorate_framework::{
    Answer, ClientFrame, ConnectionId, ExecutorCommand, Forming, Incarnation, Lane, MemberClaim, Outcome, Position,
    ReplicaId, ReplyKind, RequestHeader, Sequence, SessionId, Status, Time,
};
use quorate_node::driver::{Driver, DriverSettings, Durability, Inbound, TurnInput, TurnOutput};
use quorate_raft::{Raft, RaftSettings};
use std::time::{Duration, Instant};

const CONNECTIONS: u64 = 4;
const SESSION: SessionId = SessionId { position: Position(1), offset: 0 };

/// A replica that is alone and leads.
struct Replica {
    driver: Driver<Raft>,
    input: TurnInput,
    output: TurnOutput<Raft>,
    now: Time,
    sequence: u64,
    lanes: Vec<OutgoingLanes>,
    bytes_written: usize,
}

impl Replica {
    fn new() -> Replica {
        let claim = MemberClaim { incarnation: Incarnation(1), start_nonce: 1, ..MemberClaim::default() };
        let forming = Forming::new(ReplicaId(1), claim, [ReplicaId(1)].into(), None);
        let settings = DriverSettings { validate: false, ..DriverSettings::new(Durability::InMemory) };
        let lanes = || OutgoingLanes::new([CLIENT_OUTBOX; Lane::ALL.len()]);
        let mut replica = Replica {
            driver: Driver::new(Raft::new(RaftSettings::default()), settings, forming, Box::new(|| 7)),
            input: TurnInput::new(),
            output: TurnOutput::new(),
            now: Time(1_000_000_000),
            sequence: 0,
            lanes: (0..CONNECTIONS).map(|_| lanes()).collect(),
            bytes_written: 0,
        };
        // Forms, waits out the election timeout, elects itself.
        for _ in 0..4 {
            replica.turn();
            let outcome = replica.execute();
            replica.driver.executed(outcome, &mut replica.output);
            replica.now = replica.now + Duration::from_secs(1);
        }
        assert!(replica.driver.core().is_leader(), "nobody else is there");
        replica
    }

    fn turn(&mut self) {
        self.output.clear();
        self.driver.turn(self.now, &mut self.input, &mut self.output);
        assert_eq!(self.output.halt, None);
    }

    /// Answers to what the turn wants executed, each request with one result.
    fn execute(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        for command in self.output.commands.drain(..) {
            let ExecutorCommand::Execute { range, .. } = command else { continue };
            outcome.executed = range.last();
            for (offset, batch) in range.batches.into_iter().enumerate() {
                if batch.kind != EntryKind::Request {
                    continue;
                }
                let header = ClientFrame::parse(batch.payload).expect("what was sent").header;
                outcome.transactions += 1;
                outcome.answers.push(Answer {
                    position: Position(range.first.0 + offset as u64),
                    block: batch.block,
                    kind: ReplyKind::Committed,
                    session: header.session,
                    sequence: header.sequence,
                    status: Status::Ok,
                    body: Bytes::from_static(&[0]),
                });
            }
        }
        outcome
    }

    /// Takes a group of requests all the way, and gives what the turn and the reply path cost.
    fn serve(&mut self, count: u64) -> (Duration, Duration) {
        for number in 0..count {
            self.sequence += 1;
            let header = RequestHeader::in_session(SESSION, Sequence(self.sequence));
            let frame = ClientFrame::new(&header, &[b'v'; 120]).expect("a frame within limits");
            let connection = ConnectionId(number % CONNECTIONS);
            self.input.push(Inbound::ClientRequest { connection, frame });
        }
        self.now = self.now + Duration::from_micros(100);
        let began = Instant::now();
        self.turn();
        let turn = began.elapsed();
        let outcome = self.execute();
        let began = Instant::now();
        self.driver.executed(outcome, &mut self.output);
        assert_eq!(self.output.replies.len() as u64, count, "each request is answered");
        self.write_replies();
        (turn, began.elapsed())
    }

    /// As the communicator does it: header and body of each answer into its connection's lanes, then one write a connection.
    fn write_replies(&mut self) {
        for reply in self.output.replies.drain(..) {
            let mut header = [0; REPLY_HEADER_BYTES];
            reply.header.encode(&mut &mut header[..]);
            let lanes = &mut self.lanes[reply.connection.0 as usize];
            lanes.push_small(Lane::Client, FrameKind::Reply, &[&header, &reply.body]).expect("an empty lane");
        }
        let bytes_written = &mut self.bytes_written;
        for lanes in &mut self.lanes {
            let flushed = lanes.flush(|slices| Ok(slices.iter().map(|slice| slice.len()).sum()));
            *bytes_written += flushed.expect("nowhere takes everything").bytes as usize;
        }
    }
}

fn reply_path(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("driver");
    for count in [1, 64, 256] {
        group.throughput(Throughput::Elements(count));
        let mut replica = Replica::new();
        group.bench_function(format!("turn with {count} requests"), |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| replica.serve(count).0).sum());
        });
        group.bench_function(format!("reply path of {count} answers"), |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| replica.serve(count).1).sum());
        });
        assert!(replica.bytes_written > 0);
    }
    group.finish();
}

criterion_group!(benches, reply_path);
criterion_main!(benches);
