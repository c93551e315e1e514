//! The driver's turn: everything of a replica that is neither protocol nor I/O.
//!
//! A synchronous struct without tokio, clock, thread or I/O, which the node's async shell and the simulator both run. It owns the
//! protocol and its forming machine, feeds events to them in a fixed order, and turns their effects into lists of things to be done
//! ([`TurnOutput`]).
//!
//! # A turn
//! 1. New links of peers, 2. the timer, 3. what became durable, 4. what was executed, and what became of snapshots, 5. signs of life of peers
//!    whose long messages are still arriving, 6. the lanes in their order: votes and heartbeats, acknowledgements, replication, the
//!    client lane with all requests of the turn as one event, snapshots; 7. operators' wishes, 8. lost links, 9. clients that are
//!    gone. Lost links come late so that a peer's last words (a hand-over of leadership,
//!    say) are still heard.
//! 2. With [`Durability::InMemory`] everything is durable at once: the turn goes on until the protocol persists nothing more.
//!
//! # Rules
//! - A promise leaves only once its ticket is durable ([`gate`]).
//! - Frames of a peer reach the protocol only while forming counts the peer, and only from its present link.
//! - A request ends once: refused before it was proposed, or as its result, or as unknown ([`waiters`]). Success is said in one
//!   place, from an answer of the executor.
//! - After a halt nothing is promised, proposed or executed any more.

pub mod admission;
mod answers;
mod carry_out;
pub mod gate;
mod inbound;
pub mod input;
pub mod output;
#[cfg(any(test, feature = "testing"))]
pub mod scripted;
pub mod settings;
pub mod snapshots;
#[cfg(any(test, feature = "testing"))]
pub mod speculating;
pub mod status;
mod turn;
pub mod waiters;

#[cfg(test)]
mod tests;

pub use input::{Inbound, ReceivedFrame, TurnInput};
pub use output::{Disconnect, TurnOutput};
pub use settings::{DriverSettings, Durability};
pub use snapshots::{PlacedOrder, SnapshotEvent, SnapshotOrder, SnapshotTask};
pub use status::{DriverCounters, DriverStatus};
pub use turn::PERSIST_ROUNDS;

use admission::{Admission, Load};
use gate::PromiseGate;
use quorate_framework::{
    Answer, Consensus, Digest, Effect, Effects, Event, ExecutedAt, Forming, FormingEffect, HaltReason, LinkId, Origin,
    Outcome, Position, RandomSource, RecoverySpec, ReplicaId, Ticket, Time,
};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use waiters::Waiters;

/// Why the driver does nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ended {
    Stopped,
    Halted(HaltReason),
}

/// A replica without its shell.
pub struct Driver<C: Consensus> {
    settings: DriverSettings,
    core: C,
    /// What was recovered, until the protocol is started with it.
    recovered: Option<<C::Record as RecoverySpec>::State>,
    /// Where the executor's state ended then.
    began_at: ExecutedAt,
    started: bool,
    verifier: C::Verifier,
    effects: Effects<C>,
    /// Scratch: the effects being carried out.
    effect_list: Vec<Effect<C>>,
    /// Events that carrying out effects has caused, for the protocol, in order.
    follow_up: VecDeque<Event<C>>,
    forming: Forming,
    forming_started: bool,
    forming_effects: Vec<FormingEffect>,
    /// The ticket of the member vector that is on its way to be durable.
    identity_ticket: Option<Ticket>,
    /// The present link of each linked peer.
    links: BTreeMap<ReplicaId, LinkId>,
    /// The peers the protocol knows to be up, ascending.
    counted: Vec<ReplicaId>,
    leader: Option<ReplicaId>,
    gate: PromiseGate,
    /// The last ticket that was given out.
    issued: Ticket,
    admission: Admission,
    waiters: Waiters,
    /// Speculative answers whose ticket is not durable yet.
    held_answers: Vec<(Ticket, Answer)>,
    /// What was executed since the last turn, for the protocol.
    executed: Vec<(Position, Option<Digest>)>,
    executed_position: Position,
    /// Scratch: origins whose request ended as unknown.
    unknown: Vec<Origin>,
    ended: Option<Ended>,
    counters: DriverCounters,
}

impl<C: Consensus> fmt::Debug for Driver<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Driver")
            .field("settings", &self.settings)
            .field("core", &self.core)
            .field("forming", &self.forming)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl<C: Consensus> Driver<C> {
    /// A driver that has recovered nothing. The protocol gets its first event once the replica is formed.
    #[must_use]
    pub fn new(core: C, settings: DriverSettings, forming: Forming, random: Box<dyn RandomSource>) -> Driver<C> {
        let limit = Load { frames: settings.admission_frames, bytes: settings.admission_bytes };
        Driver {
            settings,
            verifier: core.verifier(),
            core,
            recovered: Some(Default::default()),
            began_at: ExecutedAt::default(),
            started: false,
            effects: Effects::new(random),
            effect_list: Vec::new(),
            follow_up: VecDeque::new(),
            forming,
            forming_started: false,
            forming_effects: Vec::new(),
            identity_ticket: None,
            links: BTreeMap::new(),
            counted: Vec::new(),
            leader: None,
            gate: PromiseGate::default(),
            issued: Ticket::RECOVERED,
            admission: Admission::new(limit),
            waiters: Waiters::default(),
            held_answers: Vec::new(),
            executed: Vec::new(),
            executed_position: Position::ZERO,
            unknown: Vec::new(),
            ended: None,
            counters: DriverCounters::default(),
        }
    }

    /// The same, with what was recovered. All of it must be durable.
    #[must_use]
    pub fn with_recovered(mut self, state: <C::Record as RecoverySpec>::State) -> Driver<C> {
        self.recovered = Some(state);
        self
    }

    /// The same, over an executor whose state ends here.
    #[must_use]
    pub fn with_executed(mut self, executed: ExecutedAt) -> Driver<C> {
        (self.began_at, self.executed_position) = (executed, executed.position);
        self
    }

    /// A ticket for something that the shell itself makes durable. It must be submitted before any record of a later turn.
    pub fn issue_ticket(&mut self) -> Ticket {
        self.issued = self.effects.driver_ticket();
        self.issued
    }

    /// The protocol, to look at.
    #[must_use]
    pub fn core(&self) -> &C {
        &self.core
    }

    /// Whether the protocol was started, and nothing has ended since.
    #[must_use]
    pub fn is_started(&self) -> bool {
        self.started && self.ended.is_none()
    }

    /// The forming machine, to look at; its claim is what handshakes say.
    #[must_use]
    pub fn forming(&self) -> &Forming {
        &self.forming
    }

    /// What came of the executor's commands: answers whoever waits. The protocol hears of it in the next turn (see
    /// [`Driver::next_deadline`]).
    pub fn executed(&mut self, outcome: Outcome, output: &mut TurnOutput<C>) {
        if self.ended.is_some() {
            return;
        }
        self.counters.transactions += outcome.transactions;
        for answer in outcome.answers {
            self.answer(answer, output);
        }
        self.waiters.executed(outcome.executed);
        self.tell_unknown(output);
        if outcome.executed > self.executed_position || outcome.digest.is_some() {
            self.executed_position = self.executed_position.max(outcome.executed);
            match self.executed.last_mut() {
                Some((position, digest @ None)) => (*position, *digest) = (outcome.executed, outcome.digest),
                _ => self.executed.push((outcome.executed, outcome.digest)),
            }
        }
    }

    /// When the next turn is due if nothing comes in before: at [`Time::ZERO`], which means at once, if something waits already.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        if self.ended.is_some() {
            return None;
        }
        if !self.forming_started || !self.executed.is_empty() {
            return Some(Time::ZERO);
        }
        self.core.next_deadline().filter(|_| self.started)
    }

    /// A picture for operators. May cost; not for every turn.
    #[must_use]
    pub fn status(&self) -> DriverStatus {
        let (waiting, undecided) = (self.waiters.load(), self.admission.undecided());
        DriverStatus {
            replica: self.forming.replica(),
            protocol: self.core.status(),
            forming: self.forming.status(),
            leader: self.leader,
            unbound_peers: self.forming.unbound_peers().collect(),
            waiting: self.waiters.waiting(),
            admitted_frames: waiting.frames + undecided.frames,
            admitted_bytes: waiting.bytes + undecided.bytes,
            promises_waiting: self.gate.waiting(),
            stopped: self.ended.as_ref().map(|ended| match ended {
                Ended::Stopped => "stopped".to_owned(),
                Ended::Halted(reason) => reason.to_string(),
            }),
            counters: DriverCounters { promises_dropped: self.gate.dropped(), ..self.counters },
        }
    }

    /// Stops for good: those that wait are told `Unknown`, later requests are refused as `Stopped`.
    pub fn stop(&mut self, output: &mut TurnOutput<C>) {
        self.end(Ended::Stopped, output);
    }

    /// Stops for good because of a failure outside (storage, executor). Those that wait are told `Unknown`; nothing further is
    /// promised. The first reason stays.
    pub fn halt(&mut self, reason: HaltReason, output: &mut TurnOutput<C>) {
        self.end(Ended::Halted(reason), output);
        self.report_halt(output);
    }

    fn end(&mut self, ended: Ended, output: &mut TurnOutput<C>) {
        if self.ended.is_some() {
            return;
        }
        self.ended = Some(ended);
        self.gate.clear();
        self.held_answers.clear();
        self.executed.clear();
        self.follow_up.clear();
        self.waiters.forsake(Position::ZERO);
        self.waiters.drain_unknown(&mut self.unknown);
        self.admission.abandon(&mut self.unknown);
        self.tell_unknown(output);
    }

    fn report_halt(&self, output: &mut TurnOutput<C>) {
        if let Some(Ended::Halted(reason)) = &self.ended {
            output.halt = Some(reason.clone());
        }
    }
}
