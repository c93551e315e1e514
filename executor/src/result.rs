//! Results as they stand in the body of an answer with status `Ok`: one a command, in the commands' order.
//!
//! ```text
//! 0        1
//! | status |                                       no value
//! | status + 0x40 | value with its length |        a byte string: get
//! | status + 0x80 | number: 8 bytes, LE   |        a number: append (the new length in bytes), increment (the sum)
//! ```
//! A result says itself what follows, so an answer can be read knowing only how many commands were asked. `Ok` without a value is
//! one zero byte: the answer to 100 puts is 100 bytes.

use crate::lengths::{LengthError, encoded_bytes, put_bytes, take_bytes, take_number};
use quorate_framework::{Status, WireError};

const SHAPE_BYTES: u8 = 0x40;
const SHAPE_NUMBER: u8 = 0x80;
const SHAPE_MASK: u8 = 0xc0;

/// Bytes of a result with a number: the most that a result other than that of a get takes.
pub const NUMBER_RESULT_BYTES: usize = 9;

/// What a command gives back beside its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResultValue<'a> {
    /// Nothing.
    None,
    /// A byte string; may be empty.
    Bytes(&'a [u8]),
    /// A number.
    Number(i64),
}

/// The result of one command, borrowed from its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommandResult<'a> {
    /// The outcome.
    pub status: Status,
    /// What it gives back.
    pub value: ResultValue<'a>,
}

impl<'a> CommandResult<'a> {
    /// A status alone.
    #[must_use]
    pub fn plain(status: Status) -> CommandResult<'a> {
        CommandResult { status, value: ResultValue::None }
    }

    /// `Ok` with a byte string.
    #[must_use]
    pub fn bytes(value: &'a [u8]) -> CommandResult<'a> {
        CommandResult { status: Status::Ok, value: ResultValue::Bytes(value) }
    }

    /// `Ok` with a number.
    #[must_use]
    pub fn number(value: i64) -> CommandResult<'a> {
        CommandResult { status: Status::Ok, value: ResultValue::Number(value) }
    }

    /// Bytes that [`CommandResult::encode`] appends.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        match self.value {
            ResultValue::None => 1,
            ResultValue::Bytes(value) => 1 + encoded_bytes(value.len()),
            ResultValue::Number(_) => NUMBER_RESULT_BYTES,
        }
    }

    /// Appends the result's bytes to an answer's body.
    #[inline]
    pub fn encode(&self, output: &mut Vec<u8>) {
        match self.value {
            ResultValue::None => output.push(self.status as u8),
            ResultValue::Bytes(value) => {
                output.push(self.status as u8 | SHAPE_BYTES);
                put_bytes(output, value);
            }
            ResultValue::Number(value) => {
                output.push(self.status as u8 | SHAPE_NUMBER);
                output.extend_from_slice(&value.to_le_bytes());
            }
        }
    }

    fn take(rest: &mut &'a [u8]) -> Result<CommandResult<'a>, WireError> {
        const WHAT: &str = "command result";
        let short = WireError::Short { what: WHAT, needed: rest.len() + 1, present: rest.len() };
        let (&first, tail) = rest.split_first().ok_or_else(|| short.clone())?;
        *rest = tail;
        let misread = |error| match error {
            LengthError::CutShort => short,
            LengthError::WrongForm => WireError::Meaningless { what: "length form", value: u64::from(u8::MAX) },
        };
        let value = match first & SHAPE_MASK {
            0 => ResultValue::None,
            SHAPE_BYTES => ResultValue::Bytes(take_bytes(rest).map_err(misread)?),
            SHAPE_NUMBER => ResultValue::Number(take_number(rest).map_err(misread)?),
            _ => return Err(WireError::Meaningless { what: WHAT, value: u64::from(first) }),
        };
        Ok(CommandResult { status: Status::from_wire(first & !SHAPE_MASK)?, value })
    }
}

/// The results of an answer, one for each command of the request. After the last one it checks that nothing follows; after an
/// error it ends.
#[derive(Clone, Debug)]
pub struct CommandResults<'a> {
    rest: &'a [u8],
    remaining: u32,
}

impl<'a> CommandResults<'a> {
    /// The results in `body` for a request of `count` commands. Nothing is read yet and nothing allocated.
    #[must_use]
    pub fn new(body: &'a [u8], count: u32) -> CommandResults<'a> {
        CommandResults { rest: body, remaining: count }
    }
}

impl<'a> Iterator for CommandResults<'a> {
    type Item = Result<CommandResult<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = if self.remaining > 0 {
            self.remaining -= 1;
            CommandResult::take(&mut self.rest)
        } else if self.rest.is_empty() {
            return None;
        } else {
            Err(WireError::Trailing { what: "answer", count: self.rest.len() })
        };
        if item.is_err() {
            *self = CommandResults::new(&[], 0);
        }
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(results: &[CommandResult<'_>]) -> Vec<u8> {
        let mut output = Vec::new();
        results.iter().for_each(|result| result.encode(&mut output));
        assert_eq!(output.len(), results.iter().map(CommandResult::encoded_bytes).sum::<usize>());
        output
    }

    #[test]
    fn results_read_back_and_an_empty_value_is_not_a_missing_one() {
        let results = [
            CommandResult::bytes(b""),
            CommandResult::plain(Status::NotFound),
            CommandResult::plain(Status::Gap),
            CommandResult::number(i64::MIN),
            CommandResult::bytes(&[9; 300]),
        ];
        let bytes = body(&results);
        assert_eq!(CommandResults::new(&bytes, 5).collect::<Result<Vec<_>, _>>(), Ok(results.to_vec()));
    }

    #[test]
    fn the_answer_to_a_hundred_puts_is_a_hundred_zero_bytes() {
        assert_eq!(body(&[CommandResult::plain(Status::Ok); 100]), [0; 100]);
    }

    #[test]
    fn cut_overlong_and_meaningless_answers_are_refused_and_end_the_reading() {
        let bytes = body(&[CommandResult::number(1), CommandResult::bytes(b"v")]);
        for end in 0..bytes.len() {
            let read: Vec<_> = CommandResults::new(&bytes[..end], 2).collect();
            assert!(matches!(read.last(), Some(Err(WireError::Short { .. }))), "cut at {end}");
        }
        let read: Vec<_> = CommandResults::new(&bytes, 1).collect();
        assert!(matches!(read[..], [Ok(_), Err(WireError::Trailing { count: 3, .. })]));
        for first in [0xc0, 0x3f, 0x0b] {
            let body = [first];
            let read: Vec<_> = CommandResults::new(&body, 1).collect();
            assert!(matches!(read[..], [Err(WireError::Meaningless { .. })]), "{first:#x}");
        }
    }
}
