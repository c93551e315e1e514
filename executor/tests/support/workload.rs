//! A random order of frames: sessions that come, go and repeat themselves, and commands of every kind.

use super::{open, raw, session};
use bytes::Bytes;
use quorate_executor::{Command, CommandWriter, ReplicatedLimits};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

pub struct Workload {
    random: ChaCha8Rng,
    /// Position of each open that was sent, and the next sequence of its session.
    sessions: Vec<(u64, u64)>,
    position: u64,
}

/// Limits small enough that sessions are driven out and low marks rise.
pub fn limits() -> ReplicatedLimits {
    ReplicatedLimits {
        session_window_frames: 64,
        sessions: 6,
        session_answer_bytes: 20_000,
        ..ReplicatedLimits::default()
    }
}

impl Workload {
    pub fn new(seed: u64) -> Workload {
        Workload { random: ChaCha8Rng::seed_from_u64(seed), sessions: Vec::new(), position: 0 }
    }

    /// The frame of the next position.
    pub fn frame(&mut self) -> Bytes {
        self.position += 1;
        if self.sessions.is_empty() || self.random.random_range(0..40) == 0 {
            self.sessions.push((self.position, 1));
            return open(u128::from(self.position) << 64 | 5, self.random.random_range(0..4) == 0);
        }
        let count = self.sessions.len();
        let chosen = self.random.random_range(count.saturating_sub(10)..count);
        let (id, next) = self.sessions[chosen];
        // Mostly the next sequence, sometimes one that was used before or one out of order.
        let sequence = match self.random.random_range(0..10) {
            0 => self.random.random_range(1..=next),
            1 => next + self.random.random_range(0..4),
            _ => next,
        };
        self.sessions[chosen].1 = next.max(sequence + 1);
        let acknowledged = if self.random.random_range(0..3) == 0 { sequence.saturating_sub(6) } else { 0 };
        if self.random.random_range(0..50) == 0 {
            return raw(session(id), sequence, acknowledged, 2, b"not a body");
        }
        let mut body = Vec::new();
        let mut writer = CommandWriter::new(&mut body);
        let commands = self.random.random_range(1..6);
        for _ in 0..commands {
            self.command(&mut writer);
        }
        raw(session(id), sequence, acknowledged, commands, &body)
    }

    fn command(&mut self, writer: &mut CommandWriter<'_>) {
        let key = format!("key {:03}", self.random.random_range(0..200)).into_bytes();
        let counter = format!("counter {}", self.random.random_range(0..8)).into_bytes();
        let value = vec![self.random.random::<u8>(); self.random.random_range(0..300)];
        let (key, value) = (&key[..], &value[..]);
        writer.push(match self.random.random_range(0..8) {
            0 | 1 => Command::Put { key, value },
            2 => Command::Append { key, value },
            3 => Command::Delete { key },
            4 => Command::Get { key },
            5 => Command::CompareAndSet { key, expected: None, new: value },
            _ => Command::Increment { key: &counter, by: 3 },
        });
    }

    pub fn frames(&mut self, count: usize) -> Vec<Bytes> {
        (0..count).map(|_| self.frame()).collect()
    }
}

/// A frame that appends its own number to a list and counts it.
pub fn append_and_count(session_position: u64, sequence: u64) -> Bytes {
    let number = format!("{sequence} ");
    let commands =
        [Command::Append { key: b"list", value: number.as_bytes() }, Command::Increment { key: b"count", by: 1 }];
    let mut body = Vec::new();
    let mut writer = CommandWriter::new(&mut body);
    commands.iter().for_each(|command| writer.push(*command));
    raw(session(session_position), sequence, sequence.saturating_sub(20), 2, &body)
}
