//! A hand-driven cluster of cores: messages wait in queues until a test delivers them, and records wait until it makes them durable.

use bytes::Bytes;
use quorate_framework::entry::{Entry, EntryKind, GroupBuilder};
use quorate_framework::{
    ClientFrame, ConnectionId, Consensus, Destination, Effect, Effects, Event, ExecuteRange, Incarnation, Incoming,
    MemberVector, Position, Proposal, RequestHeader, Sequence, SessionId, Start, Ticket, Time, TrustedLinks, Verified,
};
use quorate_raft::{Raft, RaftMessage, RaftPromise, RaftRecord, RaftSettings, RaftState};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub(crate) use quorate_framework::ReplicaId;

pub(crate) type Said = Incoming<RaftMessage, RaftPromise>;

pub(crate) fn id(number: u32) -> ReplicaId {
    ReplicaId(number)
}

pub(crate) fn index(number: u64) -> Position {
    Position(number)
}

pub(crate) fn members(count: u32) -> MemberVector {
    (1..=count).map(|number| (id(number), Incarnation(u64::from(number)))).collect()
}

/// One core with its surroundings.
pub(crate) struct Replica {
    pub(crate) core: Raft,
    effects: Effects<Raft>,
    /// Tickets given out and not yet durable.
    pub(crate) waiting_tickets: VecDeque<Ticket>,
    /// Promises held until their ticket.
    held: Vec<(Ticket, ReplicaId, RaftPromise)>,
    pub(crate) records: Vec<RaftRecord>,
    pub(crate) executed: Vec<ExecuteRange>,
    pub(crate) refused: Vec<quorate_framework::Refusal>,
    pub(crate) accepted: Vec<Position>,
    pub(crate) forsaken: Vec<Position>,
    pub(crate) leaders: Vec<Option<ReplicaId>>,
    pub(crate) halted: Option<String>,
    /// Whether records become durable by themselves.
    pub(crate) durable_at_once: bool,
    /// Whether what is committed counts as executed at once.
    pub(crate) execute_at_once: bool,
}

pub(crate) struct Cluster {
    pub(crate) now: Time,
    pub(crate) replicas: BTreeMap<ReplicaId, Replica>,
    /// What is under way, by sender and receiver, in order.
    pub(crate) network: BTreeMap<(ReplicaId, ReplicaId), VecDeque<Said>>,
    /// Links that are cut: messages vanish.
    pub(crate) cut: Vec<(ReplicaId, ReplicaId)>,
}

impl Cluster {
    pub(crate) fn new(count: u32) -> Cluster {
        Cluster::with(count, RaftSettings::default(), |_| RaftState::default())
    }

    pub(crate) fn with(count: u32, settings: RaftSettings, state: impl Fn(ReplicaId) -> RaftState) -> Cluster {
        let mut cluster =
            Cluster { now: Time(1_000_000_000), replicas: BTreeMap::new(), network: BTreeMap::new(), cut: Vec::new() };
        for replica in members(count).into_keys() {
            let mut next = u64::from(replica.0) * 37_000_000;
            let random = move || {
                next = next.wrapping_add(61_000_000);
                next
            };
            cluster.replicas.insert(
                replica,
                Replica {
                    core: Raft::new(settings),
                    effects: Effects::new(Box::new(random)),
                    waiting_tickets: VecDeque::new(),
                    held: Vec::new(),
                    records: Vec::new(),
                    executed: Vec::new(),
                    refused: Vec::new(),
                    accepted: Vec::new(),
                    forsaken: Vec::new(),
                    leaders: Vec::new(),
                    halted: None,
                    durable_at_once: true,
                    execute_at_once: true,
                },
            );
            let start = Start { replica, members: members(count), state: state(replica) };
            cluster.event(replica, Event::Start(start));
        }
        for replica in members(count).into_keys() {
            for (peer, incarnation) in members(count) {
                if peer != replica {
                    cluster.event(replica, Event::PeerUp { peer, incarnation });
                }
            }
        }
        cluster
    }

    pub(crate) fn replica(&self, number: u32) -> &Replica {
        &self.replicas[&id(number)]
    }

    pub(crate) fn core(&self, number: u32) -> &Raft {
        &self.replica(number).core
    }

    pub(crate) fn replica_mut(&mut self, number: u32) -> &mut Replica {
        self.replicas.get_mut(&id(number)).unwrap()
    }

    /// Lets an event happen and carries its effects out; nothing is delivered.
    pub(crate) fn event(&mut self, at: ReplicaId, event: Event<Raft>) {
        let now = self.now;
        let replica = self.replicas.get_mut(&at).unwrap();
        replica.core.on_event(now, event, &mut replica.effects);
        self.carry_out(at);
    }

    fn carry_out(&mut self, at: ReplicaId) {
        loop {
            let replica = self.replicas.get_mut(&at).unwrap();
            if replica.halted.is_none() {
                replica.core.validate().unwrap();
            }
            let effects = replica.effects.take();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                self.carry_out_one(at, effect);
            }
            let replica = self.replicas.get_mut(&at).unwrap();
            if replica.durable_at_once {
                self.persist_all(at);
            }
        }
    }

    fn carry_out_one(&mut self, at: ReplicaId, effect: Effect<Raft>) {
        let everyone: Vec<ReplicaId> = self.replicas.keys().copied().filter(|peer| *peer != at).collect();
        let resolve = |to: Destination| match to {
            Destination::One(peer) => vec![peer],
            Destination::All => everyone.clone(),
            Destination::Set(peers) => peers,
        };
        let now = self.now;
        let replica = self.replicas.get_mut(&at).unwrap();
        match effect {
            Effect::Persist { ticket, record } => {
                replica.waiting_tickets.push_back(ticket);
                replica.records.push(record);
            }
            Effect::Send { to, message } => {
                for peer in resolve(to) {
                    self.put(at, peer, Incoming::Message(message.clone()));
                }
            }
            Effect::Promise { to, after, promise } => {
                let waits = self.replicas[&at].waiting_tickets.iter().any(|ticket| *ticket <= after);
                for peer in resolve(to) {
                    if waits {
                        self.replicas.get_mut(&at).unwrap().held.push((after, peer, promise.clone()));
                    } else {
                        self.put(at, peer, Incoming::Promise(promise.clone()));
                    }
                }
            }
            Effect::Accepted(accepted) => replica.accepted.extend(accepted.iter().map(|one| one.position)),
            Effect::Refused { refusal, .. } => replica.refused.push(refusal),
            Effect::Forsaken { from } => replica.forsaken.push(from),
            Effect::Execute(range) => {
                let position = range.last();
                replica.executed.push(range);
                if replica.execute_at_once {
                    replica.core.on_event(now, Event::Executed { position, digest: None }, &mut replica.effects);
                }
            }
            Effect::LeaderIs { leader, .. } => replica.leaders.push(leader),
            Effect::Halt(reason) => replica.halted = Some(reason.to_string()),
            _ => {}
        }
    }

    fn put(&mut self, from: ReplicaId, to: ReplicaId, said: Said) {
        if !self.cut.contains(&(from, to)) {
            self.network.entry((from, to)).or_default().push_back(said);
        }
    }

    /// Makes everything written so far durable.
    pub(crate) fn persist_all(&mut self, at: ReplicaId) {
        self.persist_first(at, usize::MAX);
    }

    /// Makes the oldest records durable, and no others.
    pub(crate) fn persist_first(&mut self, at: ReplicaId, count: usize) {
        let replica = self.replicas.get_mut(&at).unwrap();
        let count = count.min(replica.waiting_tickets.len());
        let Some(last) = replica.waiting_tickets.drain(..count).next_back() else { return };
        let ready: Vec<_> = replica.held.extract_if(.., |(after, _, _)| *after <= last).collect();
        for (_, to, promise) in ready {
            self.put(at, to, Incoming::Promise(promise));
        }
        self.event(at, Event::Persisted(last));
    }

    /// Delivers the oldest message from one replica to another.
    pub(crate) fn deliver_one(&mut self, from: u32, to: u32) -> Option<Said> {
        let said = self.network.get_mut(&(id(from), id(to)))?.pop_front()?;
        self.hand_over(from, to, said.clone());
        Some(said)
    }

    /// Gives a replica something as if a peer had said it.
    pub(crate) fn hand_over(&mut self, from: u32, to: u32, said: Said) {
        let message = Verified::check(&TrustedLinks, id(from), said).unwrap();
        self.event(id(to), Event::Message { from: id(from), message });
    }

    /// What is under way between two replicas.
    pub(crate) fn under_way(&self, from: u32, to: u32) -> Vec<Said> {
        self.network.get(&(id(from), id(to))).map(|queue| queue.iter().cloned().collect()).unwrap_or_default()
    }

    /// Delivers everything, and what comes of it, until nothing is under way.
    pub(crate) fn deliver_all(&mut self) {
        for _ in 0..10_000 {
            let Some((from, to)) = self.network.iter().find(|(_, queue)| !queue.is_empty()).map(|(link, _)| *link)
            else {
                return;
            };
            self.deliver_one(from.0, to.0);
        }
        panic!("the cluster does not come to rest");
    }

    /// Drops everything under way.
    pub(crate) fn lose_all(&mut self) {
        self.network.clear();
    }

    /// Lets time pass at one replica only, in the cluster's clock, and gives it its tick.
    pub(crate) fn tick(&mut self, at: u32) {
        self.event(id(at), Event::Tick);
    }

    pub(crate) fn pass(&mut self, milliseconds: u64) {
        self.now = self.now + Duration::from_millis(milliseconds);
    }

    /// Lets the clock run to a replica's deadline and gives it the tick.
    pub(crate) fn run_to_deadline(&mut self, at: u32) {
        let deadline = self.core(at).next_deadline().unwrap();
        self.now = self.now.max(deadline);
        self.tick(at);
    }

    /// Lets time pass for all replicas: each gets its ticks when they are due, and everything is delivered at once.
    pub(crate) fn run_for(&mut self, milliseconds: u64) {
        let end = self.now + Duration::from_millis(milliseconds);
        loop {
            let due = self.replicas.iter().filter_map(|(id, replica)| Some((replica.core.next_deadline()?, *id))).min();
            let Some((deadline, at)) = due.filter(|(deadline, _)| *deadline <= end) else { break };
            self.now = self.now.max(deadline);
            self.event(at, Event::Tick);
            self.deliver_all();
        }
        self.now = end;
    }

    /// Lets the clock of one replica run, with nothing delivered, until it leads no longer.
    pub(crate) fn until_stepped_down(&mut self, number: u32) {
        for _ in 0..1_000 {
            if !self.core(number).is_leader() {
                return;
            }
            self.run_to_deadline(number);
        }
        panic!("replica {number} leads for ever");
    }

    /// Lets one replica campaign and win with all others listening.
    pub(crate) fn elect(&mut self, number: u32) {
        for _ in 0..5 {
            self.pass(1_100);
            self.tick(number);
            self.deliver_all();
            if self.core(number).is_leader() {
                return;
            }
        }
        panic!("replica {number} was not elected");
    }

    /// Cuts all links of a replica, without its noticing.
    pub(crate) fn isolate(&mut self, number: u32) {
        for other in self.replicas.keys().copied().filter(|other| *other != id(number)) {
            self.cut.push((id(number), other));
            self.cut.push((other, id(number)));
        }
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
    }

    pub(crate) fn propose(&mut self, at: u32, payload: &str) {
        self.propose_many(at, &[payload]);
    }

    pub(crate) fn propose_many(&mut self, at: u32, payloads: &[&str]) {
        let proposals = payloads.iter().map(|payload| proposal(payload.as_bytes())).collect();
        self.event(id(at), Event::Propose(proposals));
    }

    /// The payloads a replica executed, in order.
    pub(crate) fn executed_payloads(&self, number: u32) -> Vec<String> {
        let batches = self.replica(number).executed.iter().flat_map(|range| &range.batches);
        let requests = batches.filter_map(|batch| ClientFrame::parse(batch.payload.clone()).ok());
        requests.map(|frame| String::from_utf8_lossy(frame.body()).into_owned()).collect()
    }
}

pub(crate) fn proposal(body: &[u8]) -> Proposal {
    let session = SessionId { position: Position(1), offset: 0 };
    let header = RequestHeader::in_session(session, Sequence(1));
    Proposal::new(ConnectionId(1), ClientFrame::new(&header, body).unwrap())
}

/// Entries of one term, at consecutive indexes.
pub(crate) fn entries(term: u64, range: std::ops::RangeInclusive<u64>) -> Vec<Entry> {
    let mut builder = GroupBuilder::new();
    for at in range {
        let head = [term.to_le_bytes(), at.to_le_bytes()].concat();
        builder.push(EntryKind::NoOperation, &head, &Bytes::new());
    }
    builder.finish()
}
