//! A protocol without a will of its own: a test says which effects each event has.
//!
//! Rules are kept by kind of event. An event uses up the oldest [`Scripted::once`] rule of its kind; without one it gets its
//! [`Scripted::always`] rule, and without that, nothing happens. Everything it is told is kept in [`Scripted::seen`].

use bytes::Bytes;
use quorate_framework::entry::EntryKind;
use quorate_framework::{
    Accepted, Batch, BlockId, Capabilities, ClientPolicy, Consensus, Decoder, Destination, Effect, Effects, Encoder,
    Event, ExecuteRange, HaltReason, Incarnation, Incoming, Lane, MemberVector, Observation, OperationError,
    OperationId, Origin, Position, Proposal, ProtocolStatus, RecordPlace, RecoverySpec, Refusal, Rejected, ReplayError,
    ReplicaId, Sequence, SubmitTo, Ticket, Time, Verifier, Wire, WireError,
};
use std::collections::{BTreeMap, VecDeque};

/// Something scripted peers say: a number, a lane and a payload that is shared, not copied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScriptedMessage {
    /// Its lane.
    pub lane: Lane,
    /// Its number.
    pub number: u64,
    /// Its payload.
    pub payload: Bytes,
}

impl ScriptedMessage {
    /// A message without a payload.
    #[must_use]
    pub fn new(lane: Lane, number: u64) -> ScriptedMessage {
        ScriptedMessage { lane, number, payload: Bytes::new() }
    }
}

impl Wire for ScriptedMessage {
    fn lane(&self) -> Lane {
        self.lane
    }

    fn encode(&self, encoder: &mut Encoder) {
        encoder.put_u8(self.lane as u8);
        encoder.put_u64(self.number);
        encoder.put_shared(self.payload.clone());
    }

    fn decode(mut decoder: Decoder<'_>) -> Result<ScriptedMessage, WireError> {
        let byte = decoder.u8("lane")?;
        let lane = Lane::from_wire(byte).ok_or(WireError::Meaningless { what: "lane", value: u64::from(byte) })?;
        let message = ScriptedMessage { lane, number: decoder.u64("number")?, payload: decoder.take_body() };
        decoder.finish("scripted message")?;
        Ok(message)
    }
}

/// Something scripted peers may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScriptedPromise(pub u64);

impl Wire for ScriptedPromise {
    fn lane(&self) -> Lane {
        Lane::Acknowledgement
    }

    fn encode(&self, encoder: &mut Encoder) {
        encoder.put_u64(self.0);
    }

    fn decode(mut decoder: Decoder<'_>) -> Result<ScriptedPromise, WireError> {
        let promise = ScriptedPromise(decoder.u64("number")?);
        decoder.finish("scripted promise")?;
        Ok(promise)
    }
}

/// A record: a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScriptedRecord(pub u64);

impl RecoverySpec for ScriptedRecord {
    type State = Vec<u64>;

    fn place(&self) -> RecordPlace {
        RecordPlace::Log
    }

    fn position(&self) -> Option<Position> {
        None
    }

    fn encode(&self, encoder: &mut Encoder) {
        encoder.put_u64(self.0);
    }

    fn decode(mut decoder: Decoder<'_>) -> Result<ScriptedRecord, WireError> {
        let record = ScriptedRecord(decoder.u64("number")?);
        decoder.finish("scripted record")?;
        Ok(record)
    }

    fn replay(self, state: &mut Vec<u64>) -> Result<(), ReplayError> {
        state.push(self.0);
        Ok(())
    }

    fn carry_forward(state: &Vec<u64>) -> Vec<ScriptedRecord> {
        state.iter().copied().map(ScriptedRecord).collect()
    }
}

/// Lets messages through but for two numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScriptedVerifier {
    /// Messages of this number are forged.
    pub forged: Option<u64>,
    /// Messages of this number are useless.
    pub useless: Option<u64>,
}

impl Verifier<Incoming<ScriptedMessage, ScriptedPromise>> for ScriptedVerifier {
    fn checks(
        &self,
        _from: ReplicaId,
        incoming: &Incoming<ScriptedMessage, ScriptedPromise>,
    ) -> Result<(), Rejected> {
        let number = match incoming {
            Incoming::Message(message) => message.number,
            Incoming::Promise(promise) => promise.0,
        };
        match Some(number) {
            number if number == self.forged => Err(Rejected::Forged("scripted")),
            number if number == self.useless => Err(Rejected::Useless),
            _ => Ok(()),
        }
    }
}

/// The kinds of events rules are kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // They are the framework's events, by the same names.
pub enum EventKind {
    Start,
    Message,
    PeerUp,
    PeerDown,
    Propose,
    Operate,
    Persisted,
    Executed,
    Tick,
    Other,
}

/// What the protocol was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // They are the framework's events, by the same names.
pub enum Seen {
    Start { members: MemberVector, state: Vec<u64> },
    Message { from: ReplicaId, number: u64 },
    Promise { from: ReplicaId, number: u64 },
    PeerUp(ReplicaId, Incarnation),
    PeerDown(ReplicaId),
    Propose(Vec<Sequence>),
    Operate(OperationId),
    Persisted(Ticket),
    Executed(Position),
    Tick(Time),
    Other,
}

/// What a promise or a speculative answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum After {
    /// What was recovered: nothing.
    Recovered,
    /// The record persisted last.
    Last,
    /// The record persisted as the n-th by this protocol, counted from 0.
    Record(usize),
}

/// One effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // They are the framework's effects, by the same names.
pub enum Step {
    Persist(u64),
    Send(Destination, ScriptedMessage),
    Promise(Destination, After, ScriptedPromise),
    /// Accepts the oldest proposal of this event.
    Accept(Position, BlockId),
    /// Accepts all proposals that are left of this event, at consecutive positions as blocks of [`block`] with this variant.
    AcceptAll {
        first: Position,
        variant: u64,
    },
    /// Accepts again what was accepted before.
    Reaccept(Accepted),
    /// Refuses all proposals that are left of this event.
    RefuseAll(Refusal),
    Execute {
        first: Position,
        blocks: Vec<BlockId>,
    },
    Speculate {
        base: BlockId,
        first: Position,
        blocks: Vec<BlockId>,
        after: After,
    },
    Rollback(Position),
    Forsaken(Position),
    LeaderIs(Option<ReplicaId>),
    Members(MemberVector),
    Verifier(ScriptedVerifier),
    Operated(OperationId, Result<(), OperationError>),
    Evidence(ReplicaId, String),
    Observe(Observation),
    TakeSnapshot(Position),
    Halt(String),
    /// Sets the deadline.
    Deadline(Option<Time>),
    /// From now on the invariants are broken, with this text.
    Break(String),
}

/// The block at a position; variants tell rivals apart.
#[must_use]
pub fn block(position: u64, variant: u64) -> BlockId {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&position.to_le_bytes());
    bytes[8..16].copy_from_slice(&variant.to_le_bytes());
    BlockId(bytes)
}

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
            Step::TakeSnapshot(at) => effects.push(Effect::TakeSnapshot { at }),
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
            Event::Start(start) => {
                (EventKind::Start, Seen::Start { members: start.members, state: start.state })
            }
            Event::Message { from, message } => match message.into_inner() {
                Incoming::Message(message) => (EventKind::Message, Seen::Message { from, number: message.number }),
                Incoming::Promise(promise) => (EventKind::Message, Seen::Promise { from, number: promise.0 }),
            },
            Event::PeerUp { peer, incarnation } => (EventKind::PeerUp, Seen::PeerUp(peer, incarnation)),
            Event::PeerDown { peer } => (EventKind::PeerDown, Seen::PeerDown(peer)),
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
        ClientPolicy {
            submit_to: SubmitTo::Leader,
            on_timeout: SubmitTo::RoundRobin,
            committed_replies: 1,
            mixed_replies: None,
            match_block: false,
            hint_replies: 1,
        }
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
pub fn origin_of(connection: quorate_framework::ConnectionId, frame: &quorate_framework::ClientFrame) -> Origin {
    Origin { connection, session: frame.header.session, sequence: frame.header.sequence }
}
