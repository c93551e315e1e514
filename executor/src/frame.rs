//! One client frame: first its session, then its commands, all or (if the body is malformed) none.

use crate::command::{Command, Commands};
use crate::replicated_limits::ReplicatedLimits;
use crate::result::{CommandResult, NUMBER_RESULT_BYTES};
use crate::session::{Admission, SessionTable, StoredAnswer};
use crate::store::{KeyValue, StoreError};
use quorate_framework::{ClientFrame, Position, RequestHeader, Sequence, SessionId, Status};
use std::io::Write;

/// What came of a frame.
pub(crate) struct FrameOutcome {
    pub(crate) session: SessionId,
    pub(crate) sequence: Sequence,
    pub(crate) answer: StoredAnswer,
    /// Commands executed now: none for a repetition or a refusal.
    pub(crate) commands: u32,
}

/// The state a frame is applied to: the store itself or one seen through an overlay, and what goes with it.
pub(crate) struct State<'s, K> {
    pub(crate) store: &'s mut K,
    pub(crate) sessions: &'s mut SessionTable,
    pub(crate) limits: &'s ReplicatedLimits,
    /// Scratch for results, kept for its memory.
    pub(crate) results: &'s mut Vec<u8>,
}

impl<K: KeyValue> State<'_, K> {
    /// Applies the frame that stands at `position`.
    pub(crate) fn apply(&mut self, position: Position, payload: &[u8]) -> Result<FrameOutcome, StoreError> {
        let Ok((header, body)) = ClientFrame::read(payload) else {
            return Ok(outcome(SessionId::NONE, Sequence(0), Status::Invalid));
        };
        if header.session.is_none() {
            return Ok(self.open_session(position, &header, body));
        }
        let (session, sequence) = (header.session, header.sequence);
        match self.sessions.admit(session, sequence, header.acknowledged, self.limits) {
            Admission::Refuse(status) => Ok(outcome(session, sequence, status)),
            Admission::Replay(answer) => Ok(FrameOutcome { session, sequence, answer, commands: 0 }),
            Admission::Apply(admitted) => {
                let parsed = Commands::parse(body, header.count);
                let (status, commands) = match parsed {
                    Ok(commands) if header.count <= self.limits.commands_per_frame => {
                        self.execute(commands)?;
                        (Status::Ok, header.count)
                    }
                    _ => {
                        self.results.clear();
                        (Status::Invalid, 0)
                    }
                };
                let answer = StoredAnswer::new(status, self.results);
                self.sessions.record(admitted, answer.clone(), self.limits);
                Ok(FrameOutcome { session, sequence, answer, commands })
            }
        }
    }

    fn open_session(&mut self, position: Position, header: &RequestHeader, body: &[u8]) -> FrameOutcome {
        if header.count != 0 || !body.is_empty() {
            return outcome(SessionId::NONE, header.sequence, Status::Invalid);
        }
        let id = SessionId { position, offset: 0 };
        let session = self.sessions.open(id, header.nonce(), header.ordered, self.limits);
        outcome(session, header.sequence, Status::Ok)
    }

    /// Executes the commands of a frame; their results are then in `results`.
    fn execute(&mut self, mut commands: Commands<'_>) -> Result<(), StoreError> {
        self.results.clear();
        while let Some(command) = commands.next() {
            self.command(command, commands.len())?;
        }
        Ok(())
    }

    /// Executes one command; `behind` more follow in its frame.
    #[inline]
    fn command(&mut self, command: Command<'_>, behind: usize) -> Result<(), StoreError> {
        let key = command.key();
        if key.is_empty() || key.len() > self.limits.key_bytes as usize {
            return self.plain(Status::Invalid);
        }
        match command {
            Command::Put { value, .. } => {
                if self.oversized(value.len()) {
                    return self.plain(Status::Invalid);
                }
                self.store.put(key, value)?;
                self.plain(Status::Ok)
            }
            Command::Get { .. } => self.get(key, behind),
            Command::Exists { .. } => {
                let present = self.store.get(key)?.is_some();
                self.plain(if present { Status::Ok } else { Status::NotFound })
            }
            Command::Delete { .. } => {
                let present = self.store.delete(key)?;
                self.plain(if present { Status::Ok } else { Status::NotFound })
            }
            Command::Append { value, .. } => self.append(key, value),
            Command::Increment { by, .. } => self.increment(key, by),
            Command::CompareAndSet { expected, new, .. } => self.compare_and_set(key, expected, new),
        }
    }

    fn get(&mut self, key: &[u8], behind: usize) -> Result<(), StoreError> {
        // No value may take the room that the results behind it may need.
        let taken = self.results.len() + behind * NUMBER_RESULT_BYTES;
        let room = (self.limits.answer_bytes as usize).saturating_sub(taken);
        let result = match self.store.get(key)? {
            None => CommandResult::plain(Status::NotFound),
            Some(value) => {
                let result = CommandResult::bytes(&value);
                if result.encoded_bytes() <= room {
                    result.encode(self.results);
                    return Ok(());
                }
                CommandResult::plain(Status::Invalid)
            }
        };
        result.encode(self.results);
        Ok(())
    }

    fn append(&mut self, key: &[u8], tail: &[u8]) -> Result<(), StoreError> {
        let length = self.store.get(key)?.map_or(0, |value| value.len()).saturating_add(tail.len());
        if self.oversized(length) {
            return self.plain(Status::Invalid);
        }
        self.store.append(key, tail)?;
        CommandResult::number(length as i64).encode(self.results);
        Ok(())
    }

    fn increment(&mut self, key: &[u8], by: i64) -> Result<(), StoreError> {
        let present = self.store.get(key)?.map_or(Some(0), |value| parse_number(&value));
        let Some(sum) = present.and_then(|number| number.checked_add(by)) else {
            return self.plain(Status::Conflict);
        };
        let mut digits = Digits::default();
        let text = digits.format(sum);
        if self.oversized(text.len()) {
            return self.plain(Status::Invalid);
        }
        self.store.put(key, text)?;
        CommandResult::number(sum).encode(self.results);
        Ok(())
    }

    fn compare_and_set(&mut self, key: &[u8], expected: Option<&[u8]>, new: &[u8]) -> Result<(), StoreError> {
        if self.oversized(new.len()) || self.oversized(expected.map_or(0, <[u8]>::len)) {
            return self.plain(Status::Invalid);
        }
        if self.store.get(key)?.as_deref() != expected {
            return self.plain(Status::Conflict);
        }
        self.store.put(key, new)?;
        self.plain(Status::Ok)
    }

    #[inline]
    fn oversized(&self, length: usize) -> bool {
        length > self.limits.value_bytes as usize
    }

    #[inline]
    fn plain(&mut self, status: Status) -> Result<(), StoreError> {
        CommandResult::plain(status).encode(self.results);
        Ok(())
    }
}

/// Appends the keys of a frame's commands, as far as the frame is well formed.
pub(crate) fn keys_of<'f>(payload: &'f [u8], keys: &mut Vec<&'f [u8]>) {
    if let Ok((header, body)) = ClientFrame::read(payload) {
        keys.extend(Commands::unchecked(body, header.count).map(|command| command.key()));
    }
}

/// The outcome of a frame that carries no results and is not stored.
fn outcome(session: SessionId, sequence: Sequence, status: Status) -> FrameOutcome {
    FrameOutcome { session, sequence, answer: StoredAnswer::new(status, &[]), commands: 0 }
}

/// Room for the digits of any number.
#[derive(Default)]
struct Digits([u8; 20]);

impl Digits {
    fn format(&mut self, number: i64) -> &[u8] {
        let mut rest = &mut self.0[..];
        write!(rest, "{number}").expect("20 bytes hold every number of 64 bits");
        let length = 20 - rest.len();
        &self.0[..length]
    }
}

/// A number as increment writes it: no sign but a minus, no zero in front, no space. Anything else is not a number.
fn parse_number(value: &[u8]) -> Option<i64> {
    let number = std::str::from_utf8(value).ok()?.parse().ok()?;
    (Digits::default().format(number) == value).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_form_that_increment_writes_is_a_number() {
        for number in [0, 7, -1, i64::MAX, i64::MIN] {
            assert_eq!(parse_number(number.to_string().as_bytes()), Some(number));
        }
        for text in ["", "+1", "01", "-0", " 1", "1 ", "1.0", "9223372036854775808", "\u{663}"] {
            assert_eq!(parse_number(text.as_bytes()), None, "{text:?}");
        }
    }
}
