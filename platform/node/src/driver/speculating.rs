//! A small protocol that really speculates and really rolls back, so that the driver, the executor's overlays and the simulator meet
//! both from the first day. It is no consensus protocol to be used: its leader is fixed (the lowest id) and its memory unbounded.
//!
//! The leader puts each request into a block of its own, persists and speculates it, and sends it to its peers, who do the same and
//! then acknowledge. What a majority holds durably is committed, except that a request at a *contested* position (each multiple of
//! `Speculating::contest_every`) is never committed there: instead the leader undoes everything from that position on, puts a block
//! without an operation there, and the undone requests behind it in a new fork. So the rule that decides is a function of the block
//! alone, and holds across restarts.
//!
//! A block's id is its position and its fork, which together fix all blocks before it: there is one leader, and within a fork it only
//! appends.

mod wire;

pub use wire::{Acknowledgement, Block, SpeculatingMessage};

use super::scripted::block;
use bytes::Bytes;
use quorate_framework::{
    Accepted, BlockId, Capabilities, ClientPolicy, Consensus, Destination, Effect, Effects, Event, ExecuteRange,
    Incoming, OperationError, Origin, Position, Proposal, ProtocolStatus, Refusal, ReplicaId, Start, SubmitTo, Ticket,
    Time, TrustedLinks,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a leader waits before it says again what was not acknowledged.
pub const RESEND_INTERVAL: Duration = Duration::from_millis(50);
/// Blocks sent again at a time, at most.
const BLOCKS_RESENT: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Held {
    block: Block,
    /// When it is durable.
    ticket: Ticket,
    /// Who waits for it, at the leader.
    origin: Option<Origin>,
}

/// The speculating protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Speculating {
    replica: ReplicaId,
    contest_every: u64,
    members: BTreeSet<ReplicaId>,
    up: BTreeSet<ReplicaId>,
    /// The block at position `n` is at `n - 1`.
    held: Vec<Held>,
    committed: usize,
    durable: Ticket,
    /// Leader: the last position each peer is known to hold durably.
    acknowledged: BTreeMap<ReplicaId, usize>,
    fork: u64,
    rollbacks: u64,
    resend_at: Option<Time>,
}

impl Speculating {
    /// A replica; a request at a multiple of `contest_every` is contested, none if that is 0, and every one if it is 1 (so use 2 or
    /// more).
    #[must_use]
    pub fn new(replica: ReplicaId, contest_every: u64) -> Speculating {
        Speculating {
            replica,
            contest_every,
            members: BTreeSet::new(),
            up: BTreeSet::new(),
            held: Vec::new(),
            committed: 0,
            durable: Ticket::RECOVERED,
            acknowledged: BTreeMap::new(),
            fork: 0,
            rollbacks: 0,
            resend_at: None,
        }
    }

    /// The committed blocks, from position 1.
    pub fn committed(&self) -> impl Iterator<Item = &Block> {
        self.held[..self.committed].iter().map(|held| &held.block)
    }

    /// How often this replica has rolled back.
    #[must_use]
    pub fn rollbacks(&self) -> u64 {
        self.rollbacks
    }

    fn leader(&self) -> Option<ReplicaId> {
        self.members.first().copied()
    }

    fn leads(&self) -> bool {
        self.leader() == Some(self.replica)
    }

    fn fork_at(&self, position: usize) -> u64 {
        position.checked_sub(1).and_then(|place| self.held.get(place)).map_or(0, |held| held.block.fork)
    }

    /// The block on whose state the next one is computed.
    fn last_id(&self) -> BlockId {
        self.held.last().map_or(BlockId::default(), |held| held.block.id())
    }

    fn range(&self, from: usize, to: usize) -> ExecuteRange {
        let batches = self.held[from..to].iter().map(|held| held.block.batch()).collect();
        ExecuteRange { first: Position(from as u64 + 1), batches }
    }

    fn start(&mut self, now: Time, start: Start<Speculating>, effects: &mut Effects<Speculating>) {
        self.members = start.members.into_keys().collect();
        self.fork = start.state.last().map_or(0, |block| block.fork);
        let held = |block| Held { block, ticket: Ticket::RECOVERED, origin: None };
        self.held = start.state.into_iter().map(held).collect();
        if !self.held.is_empty() {
            let (base, range) = (BlockId::default(), self.range(0, self.held.len()));
            effects.push(Effect::Speculate { base, range, reply_after: Ticket::RECOVERED });
        }
        effects.push(Effect::LeaderIs { leader: self.leader(), view: 1 });
        if self.leads() {
            self.resend_at = Some(now + RESEND_INTERVAL);
            self.commit(effects);
        }
    }

    /// Appends a block after the last one: durable, and executed ahead of its commit.
    fn append(
        &mut self,
        payload: Option<Bytes>,
        fork: u64,
        origin: Option<Origin>,
        effects: &mut Effects<Speculating>,
    ) {
        let block = Block { position: Position(self.held.len() as u64 + 1), fork, payload };
        let (base, place) = (self.last_id(), self.held.len());
        let ticket = effects.persist(block.clone());
        self.held.push(Held { block, ticket, origin });
        let range = self.range(place, place + 1);
        effects.push(Effect::Speculate { base, range, reply_after: ticket });
    }

    fn propose(&mut self, proposals: Vec<Proposal>, effects: &mut Effects<Speculating>) {
        for proposal in proposals {
            if !self.leads() {
                effects.refuse(proposal, Refusal::NotLeader { hint: self.leader() });
                continue;
            }
            let (origin, frame) = effects.pool(proposal);
            let position = Position(self.held.len() as u64 + 1);
            let accepted = Accepted { origin, position, block: block(position.0, self.fork) };
            effects.push(Effect::Accepted(vec![accepted]));
            self.append(Some(frame.bytes), self.fork, Some(origin), effects);
            self.send(Destination::All, self.held.len(), effects);
        }
    }

    fn send(&self, to: Destination, position: usize, effects: &mut Effects<Speculating>) {
        let block = self.held[position - 1].block.clone();
        effects.send(to, SpeculatingMessage::Append { block, before: self.fork_at(position - 1) });
    }

    fn resend(&self, peer: ReplicaId, effects: &mut Effects<Speculating>) {
        let from = self.acknowledged.get(&peer).copied().unwrap_or(0);
        for position in (from + 1..=self.held.len()).take(BLOCKS_RESENT) {
            self.send(Destination::One(peer), position, effects);
        }
        if self.committed > 0 {
            effects.send(Destination::One(peer), self.commit_message());
        }
    }

    fn commit_message(&self) -> SpeculatingMessage {
        SpeculatingMessage::Commit { position: Position(self.committed as u64), fork: self.fork_at(self.committed) }
    }

    /// Leader: commits what a majority holds, up to a contested request, which is undone.
    fn commit(&mut self, effects: &mut Effects<Speculating>) {
        let is_durable = |held: &&Held| held.ticket <= self.durable;
        let own = self.committed + self.held[self.committed..].iter().take_while(is_durable).count();
        let mut holds: Vec<usize> =
            self.members.iter().map(|id| self.acknowledged.get(id).copied().unwrap_or(0)).collect();
        if let Some(place) = self.members.iter().position(|id| *id == self.replica) {
            holds[place] = own;
        }
        holds.sort_unstable_by(|one, other| other.cmp(one));
        let majority = holds[holds.len() / 2];
        let contested = (self.committed + 1..=majority).find(|position| self.is_contested(*position));
        self.commit_to(contested.map_or(majority, |position| position - 1), effects);
        if let Some(position) = contested {
            self.undo(position, effects);
        }
    }

    fn commit_to(&mut self, position: usize, effects: &mut Effects<Speculating>) {
        if position > self.committed {
            effects.push(Effect::Execute(self.range(self.committed, position)));
            self.committed = position;
            if self.leads() {
                effects.send(Destination::All, self.commit_message());
            }
        }
    }

    fn is_contested(&self, position: usize) -> bool {
        self.contest_every > 0
            && (position as u64).is_multiple_of(self.contest_every)
            && self.held[position - 1].block.payload.is_some()
    }

    /// Leader: undoes everything from `position` on, and puts it behind a block without an operation in a new fork.
    fn undo(&mut self, position: usize, effects: &mut Effects<Speculating>) {
        let undone = self.roll_back(position, effects);
        self.fork += 1;
        self.acknowledged.values_mut().for_each(|held| *held = (*held).min(position - 1));
        self.append(None, self.fork, None, effects);
        for held in undone.into_iter().filter(|held| held.block.payload.is_some()) {
            let position = Position(self.held.len() as u64 + 1);
            if let Some(origin) = held.origin {
                let accepted = Accepted { origin, position, block: block(position.0, self.fork) };
                effects.push(Effect::Accepted(vec![accepted]));
            }
            self.append(held.block.payload, self.fork, held.origin, effects);
        }
        (position..=self.held.len()).for_each(|position| self.send(Destination::All, position, effects));
    }

    fn roll_back(&mut self, position: usize, effects: &mut Effects<Speculating>) -> Vec<Held> {
        self.rollbacks += 1;
        effects.push(Effect::Rollback { to: Position(position as u64 - 1) });
        self.held.split_off(position - 1)
    }

    /// Follower: takes a block if it fits, and acknowledges what it holds.
    fn on_append(&mut self, from: ReplicaId, block: Block, before: u64, effects: &mut Effects<Speculating>) {
        let position = block.position.0 as usize;
        if position > self.held.len() + 1 || (position > 1 && self.fork_at(position - 1) != before) {
            return;
        }
        if position <= self.held.len() && self.fork_at(position) != block.fork {
            if position <= self.committed || self.fork_at(position) > block.fork {
                return;
            }
            self.roll_back(position, effects);
        }
        if position == self.held.len() + 1 {
            self.append(block.payload, block.fork, None, effects);
        }
        let acknowledgement = Acknowledgement { position: block.position, fork: block.fork };
        effects.promise(Destination::One(from), self.held[position - 1].ticket, acknowledgement);
    }

    fn on_message(&mut self, from: ReplicaId, message: SpeculatingMessage, effects: &mut Effects<Speculating>) {
        if self.leader() != Some(from) {
            return;
        }
        match message {
            SpeculatingMessage::Append { block, before } => self.on_append(from, block, before, effects),
            SpeculatingMessage::Commit { position, fork } => {
                let position = position.0 as usize;
                if position <= self.held.len() && self.fork_at(position) == fork {
                    self.commit_to(position, effects);
                }
            }
        }
    }
}

impl Consensus for Speculating {
    type Message = SpeculatingMessage;
    type Promise = Acknowledgement;
    type Record = Block;
    type Verifier = TrustedLinks;

    const NAME: &'static str = "speculating";

    fn on_event(&mut self, now: Time, event: Event<Speculating>, effects: &mut Effects<Speculating>) {
        match event {
            Event::Start(start) => self.start(now, start, effects),
            Event::Propose(proposals) => {
                self.propose(proposals, effects);
                self.commit(effects);
            }
            Event::Message { from, message } => match message.into_inner() {
                Incoming::Message(message) => self.on_message(from, message, effects),
                Incoming::Promise(acknowledgement) => {
                    let position = acknowledgement.position.0 as usize;
                    if self.leads() && position <= self.held.len() && self.fork_at(position) == acknowledgement.fork {
                        let known = self.acknowledged.entry(from).or_default();
                        *known = (*known).max(position);
                        self.commit(effects);
                    }
                }
            },
            Event::PeerUp { peer, .. } => {
                self.up.insert(peer);
                if self.leads() {
                    self.resend(peer, effects);
                }
            }
            Event::PeerDown { peer } => {
                self.up.remove(&peer);
            }
            Event::Persisted(ticket) => {
                self.durable = self.durable.max(ticket);
                if self.leads() {
                    self.commit(effects);
                }
            }
            Event::Tick => {
                self.resend_at = self.resend_at.map(|_| now + RESEND_INTERVAL);
                self.up.iter().for_each(|peer| self.resend(*peer, effects));
            }
            Event::Operate { id, .. } => {
                effects.push(Effect::Operated { id, result: Err(OperationError::Unsupported) })
            }
            Event::Read(reads) => {
                reads.into_iter().for_each(|read| effects.refuse(read.proposal, Refusal::Unsupported));
            }
            Event::Executed { .. }
            | Event::SnapshotDue
            | Event::SnapshotTaken { .. }
            | Event::SnapshotNotTaken { .. }
            | Event::SnapshotReady { .. }
            | Event::SnapshotUnready { .. }
            | Event::SnapshotProgress { .. }
            | Event::SnapshotFetched { .. }
            | Event::SnapshotNotFetched { .. }
            | Event::SnapshotInstalled { .. }
            | Event::PayloadFetched { .. }
            | Event::PeerAlive { .. } => {}
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.resend_at
    }

    fn client_policy(&self) -> ClientPolicy {
        ClientPolicy { on_timeout: SubmitTo::Leader, ..ClientPolicy::trusting() }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn verifier(&self) -> TrustedLinks {
        TrustedLinks
    }

    fn status(&self) -> ProtocolStatus {
        ProtocolStatus {
            role: if self.leads() { "leader" } else { "follower" },
            view: 1,
            leader: self.leader(),
            first: Position(1),
            last: Position(self.held.len() as u64),
            committed: Position(self.committed as u64),
            counters: vec![("rollbacks", self.rollbacks)],
            ..ProtocolStatus::default()
        }
    }

    fn validate(&self) -> Result<(), String> {
        if self.committed > self.held.len() {
            return Err(format!("committed {} of {} blocks", self.committed, self.held.len()));
        }
        for (place, pair) in self.held.windows(2).enumerate() {
            if pair[0].block.fork > pair[1].block.fork || pair[0].ticket > pair[1].ticket {
                return Err(format!("block {} is of an older fork or ticket than the one before", place + 2));
            }
        }
        match (1..=self.committed).find(|position| self.is_contested(*position)) {
            Some(position) => Err(format!("contested request committed at {position}")),
            None => Ok(()),
        }
    }
}
