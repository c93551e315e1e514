//! A hand-driven cluster of cores: messages wait in queues until a test delivers them, and records wait until it makes them durable.

use crate::disk::{Disk, last_block, up_to};
use bytes::Bytes;
use quorate_framework::entry::{Entry, EntryKind, GroupBuilder};
use quorate_framework::{
    ClientFrame, ConnectionId, Consensus, Destination, Effect, Effects, Event, ExecuteRange, ExecutedAt, Incarnation,
    Incoming, MemberVector, Position, Proposal, RecordPlace, RecoverySpec, RequestHeader, Sequence, ServedSnapshot,
    SessionId, SnapshotBase, SnapshotId, Start, Ticket, Time, TrustedLinks, Verified,
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

/// What a core wants of its node about snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Take(SnapshotBase),
    Forget(Position),
    Offer(ReplicaId, Position),
    Withdraw(ReplicaId),
    Fetch(ReplicaId, ServedSnapshot),
    Cancel,
    Install(SnapshotId, SnapshotBase),
}

/// One core with its surroundings.
pub(crate) struct Replica {
    pub(crate) core: Raft,
    effects: Effects<Raft>,
    /// Records that are not durable yet.
    waiting: VecDeque<(Ticket, RaftRecord)>,
    pub(crate) disk: Disk,
    /// Promises held until their ticket.
    held: Vec<(Ticket, ReplicaId, RaftPromise)>,
    pub(crate) records: Vec<RaftRecord>,
    pub(crate) executed: Vec<ExecuteRange>,
    pub(crate) refused: Vec<quorate_framework::Refusal>,
    pub(crate) accepted: Vec<Position>,
    pub(crate) forsaken: Vec<Position>,
    pub(crate) leaders: Vec<Option<ReplicaId>>,
    /// What the executor's state holds: everything up to here.
    pub(crate) state_at: Position,
    /// What it wants of its node about snapshots.
    pub(crate) wishes: Vec<Wish>,
    /// Operators' wishes that were answered.
    pub(crate) operated: Vec<(u64, bool)>,
    pub(crate) told_members: Vec<MemberVector>,
    pub(crate) halted: Option<String>,
    /// Whether records become durable by themselves.
    pub(crate) durable_at_once: bool,
    /// Whether what is committed counts as executed at once.
    pub(crate) execute_at_once: bool,
}

pub(crate) struct Cluster {
    pub(crate) now: Time,
    settings: RaftSettings,
    pub(crate) replicas: BTreeMap<ReplicaId, Replica>,
    /// What is under way, by sender and receiver, in order.
    pub(crate) network: BTreeMap<(ReplicaId, ReplicaId), VecDeque<Said>>,
    /// Links that are cut: messages vanish.
    pub(crate) cut: Vec<(ReplicaId, ReplicaId)>,
    /// Snapshots made ready: what had been executed.
    snapshots: BTreeMap<SnapshotId, (Position, Vec<ExecuteRange>)>,
}

impl Cluster {
    pub(crate) fn new(count: u32) -> Cluster {
        Cluster::with(count, RaftSettings::default(), |_| RaftState::default())
    }

    pub(crate) fn with(count: u32, settings: RaftSettings, state: impl Fn(ReplicaId) -> RaftState) -> Cluster {
        Cluster::with_executed(count, settings, state, |_| ExecutedAt::default())
    }

    /// A cluster whose executors hold a state already.
    pub(crate) fn with_executed(
        count: u32,
        settings: RaftSettings,
        state: impl Fn(ReplicaId) -> RaftState,
        executed: impl Fn(ReplicaId) -> ExecutedAt,
    ) -> Cluster {
        let mut cluster = Cluster {
            now: Time(1_000_000_000),
            settings,
            replicas: BTreeMap::new(),
            network: BTreeMap::new(),
            cut: Vec::new(),
            snapshots: BTreeMap::new(),
        };
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
                    waiting: VecDeque::new(),
                    disk: Disk::default(),
                    held: Vec::new(),
                    records: Vec::new(),
                    executed: Vec::new(),
                    refused: Vec::new(),
                    accepted: Vec::new(),
                    forsaken: Vec::new(),
                    leaders: Vec::new(),
                    state_at: executed(replica).position,
                    wishes: Vec::new(),
                    operated: Vec::new(),
                    told_members: Vec::new(),
                    halted: None,
                    durable_at_once: true,
                    execute_at_once: true,
                },
            );
            let start = Start { replica, members: members(count), state: state(replica), executed: executed(replica) };
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
                replica.waiting.push_back((ticket, record.clone()));
                replica.records.push(record);
            }
            Effect::Send { to, message } => {
                for peer in resolve(to) {
                    self.put(at, peer, Incoming::Message(message.clone()));
                }
            }
            Effect::Promise { to, after, promise } => {
                let waits = self.replicas[&at].waiting.iter().any(|(ticket, _)| *ticket <= after);
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
                assert_eq!(range.first, replica.state_at.next(), "replica {at}: executed in order, nothing twice");
                replica.state_at = position;
                replica.executed.push(range);
                if replica.execute_at_once {
                    replica.core.on_event(now, Event::Executed { position, digest: None }, &mut replica.effects);
                }
            }
            Effect::LeaderIs { leader, .. } => replica.leaders.push(leader),
            Effect::Members(list) => replica.told_members.push(list),
            Effect::Operated { id, result } => replica.operated.push((id.0, result.is_ok())),
            Effect::TakeSnapshot { base } => replica.wishes.push(Wish::Take(base)),
            Effect::ForgetLog { through } => replica.wishes.push(Wish::Forget(through)),
            Effect::OfferSnapshot { to, at_least } => replica.wishes.push(Wish::Offer(to, at_least)),
            Effect::WithdrawSnapshot { to } => replica.wishes.push(Wish::Withdraw(to)),
            Effect::FetchSnapshot { from, snapshot } => replica.wishes.push(Wish::Fetch(from, snapshot)),
            Effect::CancelFetch => replica.wishes.push(Wish::Cancel),
            Effect::InstallSnapshot { id, base } => {
                // In its place among the execute orders: what follows is executed on the new state.
                replica.state_at = base.position;
                if let Some((position, executed)) = self.snapshots.get(&id) {
                    assert_eq!(*position, base.position);
                    replica.executed = executed.clone();
                }
                replica.wishes.push(Wish::Install(id, base));
            }
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
        let count = count.min(replica.waiting.len());
        let mut last = None;
        for (ticket, record) in replica.waiting.drain(..count) {
            replica.disk.keep(record);
            last = Some(ticket);
        }
        let Some(last) = last else { return };
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

    /// What a replica wanted of its node about snapshots since it was last asked.
    pub(crate) fn wishes(&mut self, number: u32) -> Vec<Wish> {
        std::mem::take(&mut self.replica_mut(number).wishes)
    }

    /// Makes a snapshot of what a replica has executed ready for another.
    pub(crate) fn make_ready(&mut self, at: u32, to: u32, id_number: u64) -> ServedSnapshot {
        let replica = self.replica(at);
        let position = replica.state_at;
        let executed = replica.executed.clone();
        let snapshot = ServedSnapshot { id: SnapshotId(id_number), position, length_bytes: 1_000 };
        self.snapshots.insert(snapshot.id, (position, executed));
        self.event(id(at), Event::SnapshotReady { to: id(to), snapshot });
        snapshot
    }

    /// Has a replica fetch and install a snapshot that it was offered.
    pub(crate) fn install(&mut self, at: u32, snapshot: ServedSnapshot) {
        self.event(id(at), Event::SnapshotFetched { id: snapshot.id });
        self.event(id(at), Event::SnapshotInstalled { position: snapshot.position });
    }

    /// A replica's metadata name a snapshot of its own, or one that it installs.
    pub(crate) fn name_snapshot(&mut self, at: u32, base: SnapshotBase, installed: Option<SnapshotId>) {
        // Metadata are written in the order of tickets: a term that was given out before is not left behind.
        let is_metadata = |(_, record): &(Ticket, RaftRecord)| record.place() == RecordPlace::Metadata;
        let before = self.replica(at).waiting.iter().rposition(is_metadata).map_or(0, |last| last + 1);
        self.persist_first(id(at), before);
        let executed = match installed {
            Some(id) => self.snapshots[&id].1.clone(),
            None => up_to(&self.replica(at).executed, base.position),
        };
        self.replica_mut(at).disk.name(base, executed);
    }

    /// A replica dies and starts with what is on its disk: the durable records, the first `written` of those it was not told of,
    /// and a state at `executed`, or that of the snapshot.
    pub(crate) fn restart(&mut self, at: u32, written: usize, executed: Option<Position>) {
        let (now, settings) = (self.now, self.settings);
        let others: Vec<ReplicaId> = self.replicas.keys().copied().filter(|other| *other != id(at)).collect();
        self.network.retain(|(from, to), _| *from != id(at) && *to != id(at));
        others.iter().for_each(|other| self.event(*other, Event::PeerDown { peer: id(at) }));
        let count = self.replicas.len() as u32;
        let replica = self.replica_mut(at);
        let written = written.min(replica.waiting.len());
        for (_, record) in replica.waiting.drain(..written) {
            replica.disk.keep(record);
        }
        replica.waiting.clear();
        replica.held.clear();
        replica.wishes.clear();
        replica.executed = match executed {
            Some(position) => up_to(&replica.executed, position),
            None => replica.disk.executed(),
        };
        replica.state_at = executed.unwrap_or(replica.disk.position());
        replica.core = Raft::new(settings);
        let mut next = u64::from(at) * 37_000_000 + now.0;
        replica.effects = Effects::new(Box::new(move || {
            next = next.wrapping_add(61_000_000);
            next
        }));
        let block = last_block(&replica.executed);
        let (state, executed) = (replica.disk.recover(), ExecutedAt { position: replica.state_at, block });
        self.event(id(at), Event::Start(Start { replica: id(at), members: members(count), state, executed }));
        for other in others {
            let incarnation = Incarnation(u64::from(other.0));
            self.event(id(at), Event::PeerUp { peer: other, incarnation });
            self.event(other, Event::PeerUp { peer: id(at), incarnation: Incarnation(u64::from(at)) });
        }
    }

    /// The state of a follower as its leader sees it.
    pub(crate) fn peer(&self, leader: u32, follower: u32) -> quorate_framework::PeerStatus {
        let peers = self.core(leader).status().peers;
        peers.into_iter().find(|peer| peer.id == id(follower)).unwrap()
    }

    /// One of a core's counters.
    pub(crate) fn counter(&self, number: u32, name: &str) -> u64 {
        let counters = self.core(number).status().counters;
        counters.iter().find(|(counter, _)| *counter == name).map(|(_, count)| *count).unwrap()
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
