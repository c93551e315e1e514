//! How requests end. The only place where a client is told anything.

use super::waiters::Verdict;
use super::{Driver, Ended, TurnOutput};
use bytes::Bytes;
use quorate_framework::{
    Answer, ClientReply, Consensus, Origin, Position, Refusal, ReplicaId, ReplyHeader, ReplyKind, Status, Ticket,
};

impl<C: Consensus> Driver<C> {
    /// Why a request cannot even be shown to the protocol, if so.
    pub(super) fn refusal_without_protocol(&self) -> Option<Refusal> {
        match (&self.ended, self.started) {
            (Some(Ended::Stopped | Ended::Halted(_)), _) => Some(Refusal::Stopped),
            (None, false) => Some(Refusal::NotLeader { hint: None }),
            (None, true) => None,
        }
    }

    /// Tells a client that its request was not proposed.
    pub(super) fn refuse(&mut self, origin: Origin, refusal: Refusal, output: &mut TurnOutput<C>) {
        let (status, hint) = match refusal {
            Refusal::NotLeader { hint } => (Status::NotLeader, hint.or(self.other_leader())),
            Refusal::Busy => (Status::Busy, None),
            Refusal::Unsupported => (Status::Unsupported, None),
            Refusal::Stopped => (Status::Stopped, None),
        };
        self.counters.refused(status);
        output.replies.push(without_result(origin, status, hint));
    }

    /// The leader, unless it is this replica.
    fn other_leader(&self) -> Option<ReplicaId> {
        self.leader.filter(|leader| *leader != self.forming.replica())
    }

    /// Tells those whose request may or may not have happened.
    pub(super) fn tell_unknown(&mut self, output: &mut TurnOutput<C>) {
        self.waiters.drain_unknown(&mut self.unknown);
        self.counters.unknown += self.unknown.len() as u64;
        output.replies.extend(self.unknown.drain(..).map(|origin| without_result(origin, Status::Unknown, None)));
    }

    /// Passes an answer of the executor on to whoever waits for it.
    pub(super) fn answer(&mut self, answer: Answer, output: &mut TurnOutput<C>) {
        match self.waiters.answer(&answer, self.gate.durable()) {
            Verdict::Nobody => {}
            Verdict::Reply(origin) => self.reply(origin, answer, output),
            Verdict::Hold(after) => self.held_answers.push((after, answer)),
            Verdict::Unknown(origin) => {
                self.unknown.push(origin);
                self.tell_unknown(output);
            }
        }
    }

    /// Lets the speculative answers go whose tickets are durable.
    pub(super) fn release_answers(&mut self, output: &mut TurnOutput<C>) {
        if self.held_answers.is_empty() {
            return;
        }
        let durable = self.gate.durable();
        let mut held = std::mem::take(&mut self.held_answers);
        for (_, answer) in held.extract_if(.., |(after, _)| *after <= durable) {
            if let Some(origin) = self.waiters.release(&answer, durable) {
                self.reply(origin, answer, output);
            }
        }
        self.held_answers = held;
    }

    /// What was executed ahead above `to` is undone: its answers must not leave.
    pub(super) fn roll_back_answers(&mut self, to: Position) {
        self.waiters.rollback(to);
        self.held_answers.retain(|(_, answer): &(Ticket, Answer)| answer.position <= to);
    }

    fn reply(&mut self, origin: Origin, answer: Answer, output: &mut TurnOutput<C>) {
        match answer.kind {
            ReplyKind::Committed => self.counters.answered += 1,
            ReplyKind::Speculative => self.counters.answered_speculatively += 1,
        }
        let header = ReplyHeader {
            status: answer.status,
            kind: answer.kind,
            hint: None,
            session: answer.session,
            sequence: answer.sequence,
            position: answer.position,
        };
        output.replies.push(ClientReply { connection: origin.connection, header, body: answer.body });
    }
}

/// A reply that carries no result.
fn without_result(origin: Origin, status: Status, hint: Option<ReplicaId>) -> ClientReply {
    let header = ReplyHeader {
        status,
        kind: ReplyKind::Committed,
        hint,
        session: origin.session,
        sequence: origin.sequence,
        position: Position::ZERO,
    };
    ClientReply { connection: origin.connection, header, body: Bytes::new() }
}
