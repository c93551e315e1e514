//! A simulated client: opens a session, sends frames in it, retries inside it, and keeps account of what it was told.

use crate::plan::Plan;
use crate::random::SimulatedRandom;
use bytes::Bytes;
use quorate_executor::{Command, CommandResults, CommandWriter, ResultValue};
use quorate_framework::{
    ClientFrame, ClientReply, ConnectionId, ReplicaId, ReplyKind, RequestHeader, Sequence, SessionId, Status, Time,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a first attempt waits for its answer; each further one waits twice as long, or a slow cluster would be buried under
/// repetitions.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(400);
/// How often that is doubled at most.
const DOUBLINGS: u32 = 4;
/// How long a client waits after a refusal.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(40));
/// Frames in flight in a session.
const PIPELINE: usize = 3;

/// A marker that one append writes; it must be found exactly once, at most once, or never.
pub type Token = String;

/// What is known of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Sent; nothing final was heard.
    Unknown,
    /// Answered `Ok`.
    Acknowledged,
}

/// A frame that was not answered for good.
#[derive(Clone, Debug)]
struct Outstanding {
    body: Bytes,
    count: u32,
    tokens: Vec<Token>,
    retry_at: Time,
    attempts: u32,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Its number; also its connection at each replica.
    pub number: u32,
    random: SimulatedRandom,
    replicas: u32,
    is_patient: bool,
    target: ReplicaId,
    nonce: u128,
    session: Option<SessionId>,
    open_at: Time,
    next_sequence: u64,
    answered: Vec<u64>,
    low_mark: u64,
    outstanding: BTreeMap<u64, Outstanding>,
    written: u64,
    /// Whether it starts new work.
    pub works: bool,
    /// The fate of each token, and the key it was appended to.
    pub tokens: BTreeMap<Token, (Vec<u8>, Fate)>,
    /// What the last read of a key gave: only while it reads.
    pub read: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Keys it is asked to read.
    pub to_read: Vec<Vec<u8>>,
    /// Something a correct service never says.
    pub complaint: Option<String>,
    /// Frames answered.
    pub frames_answered: u64,
}

impl Client {
    /// A client that has said nothing yet.
    #[must_use]
    pub fn new(number: u32, plan: &Plan, mut random: SimulatedRandom) -> Client {
        let replicas = plan.replicas;
        let target = ReplicaId(random.between(1, u64::from(replicas)) as u32);
        let nonce = u128::from(random.draw()) << 64 | u128::from(random.draw());
        Client {
            number,
            random,
            replicas,
            is_patient: plan.patient_clients,
            target,
            nonce,
            session: None,
            open_at: Time::ZERO,
            next_sequence: 1,
            answered: Vec::new(),
            low_mark: 0,
            outstanding: BTreeMap::new(),
            written: 0,
            works: true,
            tokens: BTreeMap::new(),
            read: BTreeMap::new(),
            to_read: Vec::new(),
            complaint: None,
            frames_answered: 0,
        }
    }

    /// Whether nothing is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.outstanding.is_empty() && self.to_read.is_empty()
    }

    /// What it sends now, and when it wants to act again.
    pub fn act(&mut self, now: Time) -> (Vec<(ReplicaId, ClientFrame)>, Time) {
        let mut sent = Vec::new();
        let Some(session) = self.session else {
            if now >= self.open_at {
                self.open_at = now + ATTEMPT_TIMEOUT;
                let mut bytes = Vec::new();
                RequestHeader::open(self.nonce, false).encode(&mut bytes);
                sent.extend(self.to_target(bytes));
                // If no answer comes, the next attempt goes elsewhere.
                self.turn_elsewhere(None);
            }
            return (sent, self.open_at.max(now + BACK_OFF.0));
        };
        self.start_work(now);
        let due: Vec<u64> =
            self.outstanding.iter().filter(|(_, frame)| frame.retry_at <= now).map(|(sequence, _)| *sequence).collect();
        for sequence in due {
            let bytes = self.encode(session, sequence);
            if let Some(frame) = self.outstanding.get_mut(&sequence) {
                if frame.retry_at > Time::ZERO {
                    // The attempt before was not answered.
                    let elsewhere = self.random.between(1, u64::from(self.replicas)) as u32;
                    self.target = ReplicaId(elsewhere);
                }
                let doublings = if self.is_patient { frame.attempts.min(DOUBLINGS) } else { 0 };
                frame.retry_at = now + ATTEMPT_TIMEOUT * 2u32.pow(doublings);
                frame.attempts += 1;
            }
            sent.extend(self.to_target(bytes));
        }
        let pause = self.random.duration_between(Duration::from_millis(1), Duration::from_millis(80));
        (sent, now + pause)
    }

    fn to_target(&self, bytes: Vec<u8>) -> Option<(ReplicaId, ClientFrame)> {
        ClientFrame::parse(Bytes::from(bytes)).ok().map(|frame| (self.target, frame))
    }

    fn turn_elsewhere(&mut self, hint: Option<ReplicaId>) {
        self.target = hint.unwrap_or_else(|| ReplicaId(self.random.between(1, u64::from(self.replicas)) as u32));
    }

    fn start_work(&mut self, _now: Time) {
        while self.outstanding.len() < PIPELINE {
            if let Some(key) = self.to_read.first().cloned() {
                if !self.outstanding.is_empty() {
                    return;
                }
                self.add(|writer| writer.push(Command::Get { key: &key }), Vec::new());
                return;
            }
            if !self.works || self.random.chance(300) {
                return;
            }
            self.write_something();
        }
    }

    fn write_something(&mut self) {
        let count = self.random.between(1, 3);
        let mut commands = Vec::new();
        let mut tokens = Vec::new();
        for _ in 0..count {
            self.written += 1;
            let token = format!("[{}.{}]", self.number, self.written);
            let key =
                if self.random.chance(500) { b"shared".to_vec() } else { format!("own {}", self.number).into_bytes() };
            self.tokens.insert(token.clone(), (key.clone(), Fate::Unknown));
            commands.push((key, token.clone()));
            tokens.push(token);
        }
        self.add(
            |writer| {
                commands.iter().for_each(|(key, token)| writer.push(Command::Append { key, value: token.as_bytes() }));
            },
            tokens,
        );
    }

    fn add(&mut self, write: impl FnOnce(&mut CommandWriter<'_>), tokens: Vec<Token>) {
        let mut body = Vec::new();
        let mut writer = CommandWriter::new(&mut body);
        write(&mut writer);
        let count = writer.count();
        let frame = Outstanding { body: Bytes::from(body), count, tokens, retry_at: Time::ZERO, attempts: 0 };
        self.outstanding.insert(self.next_sequence, frame);
        self.next_sequence += 1;
    }

    fn encode(&self, session: SessionId, sequence: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Some(frame) = self.outstanding.get(&sequence) else { return bytes };
        let header = RequestHeader {
            session,
            sequence: Sequence(sequence),
            acknowledged: Sequence(self.low_mark),
            count: frame.count,
            signature_length: 0,
            ordered: false,
        };
        header.encode(&mut bytes);
        bytes.extend_from_slice(&frame.body);
        bytes
    }

    /// Nobody listens at a replica: what was just sent there goes elsewhere, soon.
    pub fn on_refused_connection(&mut self, now: Time, sequence: Sequence) {
        self.turn_elsewhere(None);
        let retry_at = now + self.back_off();
        if let Some(frame) = self.outstanding.get_mut(&sequence.0) {
            frame.retry_at = retry_at;
        }
    }

    /// An answer has come.
    pub fn on_reply(&mut self, now: Time, reply: &ClientReply) {
        debug_assert_eq!(reply.connection, ConnectionId(u64::from(self.number)));
        let header = reply.header;
        if self.session.is_none() {
            let own = header.sequence == RequestHeader::open(self.nonce, false).sequence;
            match header.status {
                Status::Ok if own => self.session = Some(header.session),
                Status::NotLeader if own => {
                    self.turn_elsewhere(header.hint);
                    self.open_at = now + self.back_off();
                }
                _ => {}
            }
            return;
        }
        if self.session != Some(header.session) || !self.outstanding.contains_key(&header.sequence.0) {
            return;
        }
        match header.status {
            Status::Ok => self.on_done(header.sequence.0, &reply.body, header.kind),
            Status::NotLeader | Status::Busy | Status::Unknown | Status::Stopped => {
                if header.status != Status::Busy {
                    self.turn_elsewhere(header.hint);
                }
                let retry_at = now + self.back_off();
                if let Some(frame) = self.outstanding.get_mut(&header.sequence.0) {
                    frame.retry_at = retry_at;
                }
            }
            Status::Expired => {
                // What was under way stays unknown; a new session begins.
                self.session = None;
                self.outstanding.clear();
                self.answered.clear();
                (self.next_sequence, self.low_mark) = (1, 0);
                self.nonce = u128::from(self.random.draw()) << 64 | u128::from(self.random.draw());
            }
            other => self.complaint = Some(format!("client {}: frame {} got {other:?}", self.number, header.sequence)),
        }
    }

    fn back_off(&mut self) -> Duration {
        self.random.duration_between(BACK_OFF.0, BACK_OFF.1)
    }

    fn on_done(&mut self, sequence: u64, body: &Bytes, kind: ReplyKind) {
        let Some(frame) = self.outstanding.remove(&sequence) else { return };
        self.frames_answered += 1;
        for (at, result) in CommandResults::new(body, frame.count).enumerate() {
            match result {
                Ok(result) if result.status == Status::Ok || result.status == Status::NotFound => {
                    if let Some((_, fate)) = frame.tokens.get(at).and_then(|token| self.tokens.get_mut(token)) {
                        // A speculative answer of one replica alone promises nothing.
                        if kind == ReplyKind::Committed {
                            *fate = Fate::Acknowledged;
                        }
                    } else if let Some(key) = (!self.to_read.is_empty()).then(|| self.to_read.remove(0)) {
                        let value = match result.value {
                            ResultValue::Bytes(value) => value.to_vec(),
                            _ => Vec::new(),
                        };
                        self.read.insert(key, value);
                    }
                }
                other => {
                    self.complaint = Some(format!("client {}: command of frame {sequence} got {other:?}", self.number))
                }
            }
        }
        self.answered.push(sequence);
        while let Some(at) = self.answered.iter().position(|answered| *answered == self.low_mark + 1) {
            self.answered.swap_remove(at);
            self.low_mark += 1;
        }
    }
}
