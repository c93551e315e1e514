//! A protocol without a will of its own: a test says which effects each event has.
//!
//! Rules are kept by kind of event. An event uses up the oldest [`Scripted::once`] rule of its kind; without one it gets its
//! [`Scripted::always`] rule, and without that, nothing happens. Everything it is told is kept in [`Scripted::seen`].

mod script;
mod wire;

pub use script::{After, EventKind, Seen, Step, block};
pub use wire::{ScriptedMessage, ScriptedPromise, ScriptedRecord, ScriptedVerifier};

use bytes::Bytes;
use quorate_framework::entry::EntryKind;
use quorate_framework::{
    Batch, BlockId, Capabilities, ClientFrame, ClientPolicy, ConnectionId, Consensus, Effect, Effects, Event,
    ExecuteRange, HaltReason, Incoming, Origin, Position, Proposal, ProtocolStatus, SnapshotBase, Ticket, Time,
};
use std::collections::{BTreeMap, VecDeque};

/// The scripted protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scripted {
    once: BTreeMap<EventKind, VecDeque<Vec<Step>>>,
    always: BTreeMap<EventKind, Vec<Step>>,
    /// What it was told, in order.
    pub seen: Vec<Seen>,
    payloads: BTreeMap<BlockId, Bytes>,
    tickets: Vec<Ticket>,
    deadline: Option<Time>,
    broken: Option<String>,
    verifier: ScriptedVerifier,
}

impl Scripted {
    /// A protocol that does nothing.
    #[must_use]
    pub fn new() -> Scripted {
        Scripted::default()
    }

    /// The next event of this kind that has no rule yet has these effects.
    #[must_use]
    pub fn once(mut self, kind: EventKind, steps: impl Into<Vec<Step>>) -> Scripted {
        self.once.entry(kind).or_default().push_back(steps.into());
        self
    }

    /// Events of this kind have these effects if no [`Scripted::once`] rule is left.
    #[must_use]
    pub fn always(mut self, kind: EventKind, steps: impl Into<Vec<Step>>) -> Scripted {
        self.always.insert(kind, steps.into());
        self
    }

    /// The checks before the protocol, from the beginning.
    #[must_use]
    pub fn verified_by(mut self, verifier: ScriptedVerifier) -> Scripted {
        self.verifier = verifier;
        self
    }

    fn after(&self, after: After) -> Ticket {
        match after {
            After::Recovered => Ticket::RECOVERED,
            After::Last => self.tickets.last().copied().unwrap_or(Ticket::RECOVERED),
            After::Record(number) => self.tickets[number],
        }
    }

    fn range(&self, first: Position, blocks: Vec<BlockId>) -> ExecuteRange {
        let batch = |block: BlockId| match self.payloads.get(&block) {
            Some(payload) => Batch { block, kind: EntryKind::Request, payload: payload.clone() },
            None => Batch { block, kind: EntryKind::NoOperation, payload: Bytes::new() },
        };
        ExecuteRange { first, batches: blocks.into_iter().map(batch).collect() }
    }

    fn accept(&mut self, proposal: Proposal, position: Position, block: BlockId, effects: &mut Effects<Scripted>) {
        let frame = effects.accept(proposal, position, block);
        self.payloads.insert(block, frame.bytes);
    }

    fn step(&mut self, step: Step, proposals: &mut VecDeque<Proposal>, effects: &mut Effects<Scripted>) {
        match step {
            Step::Persist(number) => {
                let ticket = effects.persist(ScriptedRecord(number));
                self.tickets.push(ticket);
            }
            Step::Send(to, message) => effects.send(to, message),
            Step::Promise(to, after, promise) => effects.promise(to, self.after(after), promise),
            Step::Accept(position, block) => {
                if let Some(proposal) = proposals.pop_front() {
                    self.accept(proposal, position, block, effects);
                }
            }
            Step::AcceptAll { first, variant } => {
                for (position, proposal) in (first.0..).zip(proposals.drain(..)) {
                    self.accept(proposal, Position(position), block(position, variant), effects);
                }
            }
            Step::Reaccept(accepted) => effects.push(Effect::Accepted(vec![accepted])),
            Step::PoolAll => proposals.drain(..).for_each(|proposal| drop(effects.pool(proposal))),
            Step::Dropped(origin) => effects.push(Effect::Dropped { origin }),
            Step::RefuseAll(refusal) => {
                proposals.drain(..).for_each(|proposal| effects.refuse(proposal, refusal));
            }
            Step::Execute { first, blocks } => effects.push(Effect::Execute(self.range(first, blocks))),
            Step::Speculate { base, first, blocks, after } => {
                let (range, reply_after) = (self.range(first, blocks), self.after(after));
                effects.push(Effect::Speculate { base, range, reply_after });
            }
            Step::Rollback(to) => effects.push(Effect::Rollback { to }),
            Step::Forsaken(from) => effects.push(Effect::Forsaken { from }),
            Step::LeaderIs(leader) => effects.push(Effect::LeaderIs { leader, view: 1 }),
            Step::Members(vector) => effects.push(Effect::Members(vector)),
            Step::Verifier(verifier) => effects.push(Effect::Verifier(verifier)),
            Step::Operated(id, result) => effects.push(Effect::Operated { id, result }),
            Step::Evidence(against, what) => effects.push(Effect::Evidence { against, what }),
            Step::Observe(observation) => effects.push(Effect::Observe(observation)),
            Step::TakeSnapshot(at) => {
                effects.push(Effect::TakeSnapshot { base: SnapshotBase { position: at, ..SnapshotBase::default() } });
            }
            Step::Halt(text) => effects.push(Effect::Halt(HaltReason::Safety(text))),
            Step::Deadline(deadline) => self.deadline = deadline,
            Step::Break(text) => self.broken = Some(text),
        }
    }
}

impl Consensus for Scripted {
    type Message = ScriptedMessage;
    type Promise = ScriptedPromise;
    type Record = ScriptedRecord;
    type Verifier = ScriptedVerifier;

    const NAME: &'static str = "scripted";

    fn on_event(&mut self, now: Time, event: Event<Scripted>, effects: &mut Effects<Scripted>) {
        let mut proposals = VecDeque::new();
        let (kind, seen) = match event {
            Event::Start(start) => (EventKind::Start, Seen::Start { members: start.members, state: start.state }),
            Event::Message { from, message } => match message.into_inner() {
                Incoming::Message(message) => (EventKind::Message, Seen::Message { from, number: message.number }),
                Incoming::Promise(promise) => (EventKind::Message, Seen::Promise { from, number: promise.0 }),
            },
            Event::PeerUp { peer, incarnation } => (EventKind::PeerUp, Seen::PeerUp(peer, incarnation)),
            Event::PeerDown { peer } => (EventKind::PeerDown, Seen::PeerDown(peer)),
            Event::PeerAlive { peer } => (EventKind::PeerAlive, Seen::PeerAlive(peer)),
            Event::Propose(list) => {
                proposals = list.into();
                let sequences = proposals.iter().map(|proposal| proposal.frame().header.sequence).collect();
                (EventKind::Propose, Seen::Propose(sequences))
            }
            Event::Operate { id, .. } => (EventKind::Operate, Seen::Operate(id)),
            Event::Persisted(ticket) => (EventKind::Persisted, Seen::Persisted(ticket)),
            Event::Executed { position, .. } => (EventKind::Executed, Seen::Executed(position)),
            Event::Tick => {
                self.deadline = None;
                (EventKind::Tick, Seen::Tick(now))
            }
            Event::SnapshotDue => (EventKind::SnapshotDue, Seen::SnapshotDue),
            Event::SnapshotTaken { position, .. } => (EventKind::SnapshotTaken, Seen::SnapshotTaken(position)),
            _ => (EventKind::Other, Seen::Other),
        };
        self.seen.push(seen);
        let rule = self.once.get_mut(&kind).and_then(VecDeque::pop_front);
        for step in rule.or_else(|| self.always.get(&kind).cloned()).unwrap_or_default() {
            self.step(step, &mut proposals, effects);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.deadline
    }

    fn client_policy(&self) -> ClientPolicy {
        ClientPolicy::trusting()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn verifier(&self) -> ScriptedVerifier {
        self.verifier
    }

    fn status(&self) -> ProtocolStatus {
        ProtocolStatus { role: "scripted", ..ProtocolStatus::default() }
    }

    fn validate(&self) -> Result<(), String> {
        self.broken.clone().map_or(Ok(()), Err)
    }
}

/// The origin of a request, for [`Step::Reaccept`].
#[must_use]
pub fn origin_of(connection: ConnectionId, frame: &ClientFrame) -> Origin {
    Origin { connection, session: frame.header.session, sequence: frame.header.sequence }
}
