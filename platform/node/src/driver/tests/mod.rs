//! Tests of the turn, with the scripted protocols.

use super::scripted::{EventKind, Scripted, ScriptedMessage, ScriptedPromise, Seen, Step, block};
use super::*;
use bytes::Bytes;
use quorate_framework::{
    Answer, BlockId, ClientFrame, ClientReply, ConnectionId, Destination, Encoder, FormingMessage, FrameClass,
    Incarnation, Lane, MemberClaim, PeerFrame, ReplyKind, RequestHeader, Sequence, SessionId, Status, TicketSequence,
    Wire,
};

mod effects;
mod inbound;
mod requests;
mod speculation;
mod world;

fn id(number: u32) -> ReplicaId {
    ReplicaId(number)
}

/// The claim of replica `replica` in its life `life`: by convention, life 0 is the one the cluster forms with.
fn claim(replica: u32, life: u64) -> MemberClaim {
    let incarnation = u64::from(replica) * 10 + life;
    MemberClaim {
        incarnation: Incarnation(incarnation),
        formed_on: None,
        start_counter: 1,
        start_nonce: 1_000 + incarnation,
    }
}

fn forming(replica: u32, count: u32) -> Forming {
    Forming::new(id(replica), claim(replica, 0), (1..=count).map(id).collect(), None)
}

/// A client's frame of 40 bytes, with nothing but a sequence.
fn request(sequence: u64) -> ClientFrame {
    let mut bytes = Vec::new();
    RequestHeader { sequence: Sequence(sequence), ..RequestHeader::open(0, false) }.encode(&mut bytes);
    ClientFrame::parse(Bytes::from(bytes)).unwrap()
}

/// The n-th ticket a replica gives out, from 1.
fn ticket(number: u64) -> Ticket {
    let mut sequence = TicketSequence::default();
    (0..number).map(|_| sequence.next_ticket()).last().unwrap_or(Ticket::RECOVERED)
}

fn answer(position: u64, variant: u64, sequence: u64, kind: ReplyKind) -> Answer {
    Answer {
        position: Position(position),
        block: block(position, variant),
        kind,
        session: SessionId::NONE,
        sequence: Sequence(sequence),
        status: Status::Ok,
        body: Bytes::from_static(b"result"),
    }
}

fn outcome(executed: u64, answers: Vec<Answer>) -> Outcome {
    Outcome { executed: Position(executed), transactions: answers.len() as u64, answers, digest: None }
}

/// Replica 1 with its input and output, and what a test wants to say to it.
struct Replica {
    driver: Driver<Scripted>,
    input: TurnInput,
    output: TurnOutput<Scripted>,
    now: Time,
}

impl Replica {
    /// Replica 1 of `count`, forming.
    fn new(core: Scripted, count: u32, change: impl FnOnce(&mut DriverSettings)) -> Replica {
        let mut settings = DriverSettings::new(Durability::InMemory);
        change(&mut settings);
        Replica {
            driver: Driver::new(core, settings, forming(1, count), Box::new(|| 7)),
            input: TurnInput::new(),
            output: TurnOutput::new(),
            now: Time::ZERO,
        }
    }

    /// Replica 1 of three, formed with links 2 and 3 to replicas 2 and 3; its output is empty.
    fn formed(core: Scripted) -> Replica {
        Replica::formed_with(core, |_| {})
    }

    fn formed_with(core: Scripted, change: impl FnOnce(&mut DriverSettings)) -> Replica {
        let mut replica = Replica::new(core, 3, change);
        replica.connect(2, 2, 0);
        replica.connect(3, 3, 0);
        replica.turn();
        if replica.driver.settings.durability == Durability::External {
            replica.persisted(1);
        }
        assert_eq!(replica.driver.forming().status(), quorate_framework::FormingStatus::Formed);
        replica.output.clear();
        replica
    }

    fn connect(&mut self, peer: u32, link: u64, life: u64) {
        self.input.push(Inbound::PeerConnected { peer: id(peer), link: LinkId(link), claim: claim(peer, life) });
    }

    fn disconnect(&mut self, peer: u32, link: u64) {
        self.input.push(Inbound::PeerDisconnected { peer: id(peer), link: LinkId(link) });
    }

    fn frame(&mut self, peer: u32, link: u64, class: FrameClass, lane: Lane, head: Bytes, body: Bytes) {
        let frame = ReceivedFrame { peer: id(peer), link: LinkId(link), lane, class, head, body };
        self.input.push(Inbound::PeerFrame(frame));
    }

    fn alive(&mut self, peer: u32, link: u64) {
        self.input.push(Inbound::PeerAlive { peer: id(peer), link: LinkId(link) });
    }

    fn message(&mut self, peer: u32, link: u64, lane: Lane, number: u64) {
        let (head, body) = encoded(&ScriptedMessage::new(lane, number));
        self.frame(peer, link, FrameClass::Message, lane, head, body);
    }

    fn acknowledgement(&mut self, peer: u32, link: u64, number: u64) {
        let (head, body) = encoded(&ScriptedPromise(number));
        self.frame(peer, link, FrameClass::Promise, Lane::Acknowledgement, head, body);
    }

    fn ask(&mut self, connection: u64, sequence: u64) {
        self.input.push(Inbound::ClientRequest { connection: ConnectionId(connection), frame: request(sequence) });
    }

    /// A turn whose output is added to what is there.
    fn turn(&mut self) {
        self.driver.turn(self.now, &mut self.input, &mut self.output);
        assert!(self.input.is_empty());
    }

    /// A turn whose output replaces what was there.
    fn fresh_turn(&mut self) {
        self.output.clear();
        self.turn();
    }

    fn persisted(&mut self, number: u64) {
        self.input.persisted = Some(ticket(number));
        self.fresh_turn();
    }

    fn executed(&mut self, outcome: Outcome) {
        self.output.clear();
        self.driver.executed(outcome, &mut self.output);
    }

    fn seen(&self) -> &[Seen] {
        &self.driver.core().seen
    }

    /// What was seen after `count` things.
    fn seen_after(&self, count: usize) -> &[Seen] {
        &self.driver.core().seen[count..]
    }

    /// Connection, sequence and status of the replies.
    fn replies(&self) -> Vec<(u64, u64, Status)> {
        let told = |reply: &ClientReply| (reply.connection.0, reply.header.sequence.0, reply.header.status);
        self.output.replies.iter().map(told).collect()
    }

    /// Destinations and number of the scripted frames.
    fn frames(&self) -> Vec<(Vec<u32>, u64)> {
        let told = |frame: &PeerFrame| {
            let number = &frame.encoded.head[frame.encoded.head.len() - 8..];
            (frame.to.iter().map(|to| to.0).collect(), u64::from_le_bytes(*number.first_chunk().unwrap()))
        };
        self.output.frames.iter().filter(|frame| frame.class != FrameClass::Forming).map(told).collect()
    }
}

fn encoded(message: &impl Wire) -> (Bytes, Bytes) {
    let mut encoder = Encoder::new();
    message.encode(&mut encoder);
    let encoded = encoder.finish();
    (encoded.head, Bytes::from(encoded.body.concat()))
}

/// What a replica sees when it is formed by [`Replica::formed`]: start and two peers, up.
const FORMED: usize = 3;
