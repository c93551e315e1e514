//! What the core costs for a group of client frames, with three real cores that talk to each other: of the leader from the proposal
//! over two acknowledgements to the commit and what comes after it, of a follower from the append to its acknowledgement. Only the
//! time inside the core counts, without codec, transport and execution; each event adds some 30 ns of taking the time. The time
//! shown is for the whole group; the throughput is per frame.
#![allow(missing_docs)]

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quorate_framework::{
    ClientFrame, ConnectionId, Consensus, Destination, Effect, Effects, Event, ExecutedAt, Incarnation, Incoming,
    MemberVector, Position, Proposal, ReplicaId, RequestHeader, Sequence, SessionId, Start, Time, TrustedLinks,
    Verified,
};
use quorate_raft::{Raft, RaftMessage, RaftPromise, RaftSettings, RaftState};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const REPLICAS: u32 = 3;
const LEADER: ReplicaId = ReplicaId(1);

type Said = Incoming<RaftMessage, RaftPromise>;

/// A core whose records are durable and whose orders are executed at once.
struct Node {
    id: ReplicaId,
    core: Raft,
    effects: Effects<Raft>,
    /// Spent in the core.
    spent: Duration,
    executed: Position,
}

impl Node {
    fn new(id: ReplicaId) -> Node {
        let mut random = u64::from(id.0);
        let random = move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            random
        };
        let (core, effects) = (Raft::new(RaftSettings::default()), Effects::new(Box::new(random)));
        Node { id, core, effects, spent: Duration::ZERO, executed: Position::ZERO }
    }

    fn event(&mut self, now: Time, event: Event<Raft>, network: &mut VecDeque<(ReplicaId, ReplicaId, Said)>) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let before = Instant::now();
            self.core.on_event(now, event, &mut self.effects);
            self.spent += before.elapsed();
            let mut persisted = None;
            for effect in self.effects.take() {
                match effect {
                    Effect::Persist { ticket, .. } => persisted = Some(ticket),
                    Effect::Send { to, message } => self.put(to, &Incoming::Message(message), network),
                    Effect::Promise { to, promise, .. } => self.put(to, &Incoming::Promise(promise), network),
                    Effect::Execute(range) => {
                        self.executed = range.last();
                        events.push_back(Event::Executed { position: range.last(), digest: None });
                    }
                    Effect::Halt(reason) => panic!("{reason}"),
                    _ => {}
                }
            }
            events.extend(persisted.map(Event::Persisted));
        }
    }

    fn put(&self, to: Destination, said: &Said, network: &mut VecDeque<(ReplicaId, ReplicaId, Said)>) {
        let to = match to {
            Destination::One(peer) => vec![peer],
            Destination::All => (1..=REPLICAS).map(ReplicaId).filter(|peer| *peer != self.id).collect(),
            Destination::Set(peers) => peers,
        };
        network.extend(to.into_iter().map(|to| (self.id, to, said.clone())));
    }
}

struct Cluster {
    nodes: Vec<Node>,
    network: VecDeque<(ReplicaId, ReplicaId, Said)>,
    now: Time,
    sequence: u64,
}

impl Cluster {
    /// Three replicas of which the first leads.
    fn new() -> Cluster {
        let members: MemberVector = (1..=REPLICAS).map(|id| (ReplicaId(id), Incarnation(u64::from(id)))).collect();
        let nodes = (1..=REPLICAS).map(|id| Node::new(ReplicaId(id))).collect();
        let mut cluster = Cluster { nodes, network: VecDeque::new(), now: Time(1_000_000_000), sequence: 0 };
        for id in members.keys() {
            let start = Start {
                replica: *id,
                members: members.clone(),
                state: RaftState::default(),
                executed: ExecutedAt::default(),
            };
            cluster.event(*id, Event::Start(start));
            for (peer, incarnation) in members.iter().filter(|(peer, _)| *peer != id) {
                cluster.event(*id, Event::PeerUp { peer: *peer, incarnation: *incarnation });
            }
        }
        cluster.now = cluster.now + Duration::from_secs(2);
        cluster.event(LEADER, Event::Tick);
        cluster.deliver_all();
        assert!(cluster.nodes[0].core.is_leader(), "nobody contests the first candidate");
        cluster
    }

    fn event(&mut self, id: ReplicaId, event: Event<Raft>) {
        self.nodes[id.0 as usize - 1].event(self.now, event, &mut self.network);
    }

    fn deliver_all(&mut self) {
        while let Some((from, to, said)) = self.network.pop_front() {
            let message = Verified::check(&TrustedLinks, from, said).expect("trusted links take everything");
            self.event(to, Event::Message { from, message });
        }
    }

    /// Lets a group of frames be committed, and gives what it cost the leader, and a follower on average.
    fn commit(&mut self, frames: &[Bytes]) -> (Duration, Duration) {
        self.now = self.now + Duration::from_micros(100);
        if self.nodes[0].core.next_deadline().is_some_and(|deadline| deadline <= self.now) {
            self.event(LEADER, Event::Tick);
            self.deliver_all();
        }
        let proposals = frames.iter().map(|frame| {
            let frame = ClientFrame::parse(frame.clone()).expect("a sound frame");
            Proposal::new(ConnectionId(1), frame)
        });
        let proposals = proposals.collect();
        self.nodes.iter_mut().for_each(|node| node.spent = Duration::ZERO);
        let executed = self.nodes[0].executed;
        self.event(LEADER, Event::Propose(proposals));
        self.deliver_all();
        assert_eq!(self.nodes[0].executed.0, executed.0 + frames.len() as u64, "all of it is committed");
        let followers = self.nodes[1..].iter().map(|node| node.spent).sum::<Duration>();
        (self.nodes[0].spent, followers / (REPLICAS - 1))
    }

    fn frames(&mut self, count: usize) -> Vec<Bytes> {
        let session = SessionId { position: Position(1), offset: 0 };
        let frame = |sequence| {
            let header = RequestHeader::in_session(session, Sequence(sequence));
            ClientFrame::new(&header, &[b'v'; 120]).expect("a frame within limits").bytes
        };
        let first = self.sequence + 1;
        self.sequence += count as u64;
        (first..=self.sequence).map(frame).collect()
    }
}

fn core_step(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core step");
    for count in [1, 64] {
        group.throughput(Throughput::Elements(count as u64));
        let mut cluster = Cluster::new();
        let frames = cluster.frames(count);
        group.bench_function(format!("leader, {count} frames"), |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| cluster.commit(&frames).0).sum());
        });
        group.bench_function(format!("follower, {count} frames"), |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| cluster.commit(&frames).1).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, core_step);
criterion_main!(benches);
