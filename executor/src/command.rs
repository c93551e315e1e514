//! Commands as they stand in the body of a client's frame, one behind the other. Decoding borrows and allocates nothing.
//!
//! ```text
//! | tag | key        | what the command needs                                  |
//! | 1   | key        |                                                         |  get
//! | 2   | key        | value                                                   |  put
//! | 3   | key        |                                                         |  delete
//! | 4   | key        | value                                                   |  append
//! | 5   | key        | number: 8 bytes, signed, little-endian                  |  increment
//! | 6   | key        | 0, new value   or   1, expected value, new value        |  compare and set
//! | 7   | key        |                                                         |  exists
//! ```
//! Keys and values stand with their length (one byte up to 254, else 0xff and four). Tags from 16 on are kept for commands over
//! more than one key (scan, mget, mput, atomic batch); tag 0 never has a meaning.

use crate::lengths::{LengthError, encoded_bytes, put_bytes, take_bytes, take_number};
use thiserror::Error;

const GET: u8 = 1;
const PUT: u8 = 2;
const DELETE: u8 = 3;
const APPEND: u8 = 4;
const INCREMENT: u8 = 5;
const COMPARE_AND_SET: u8 = 6;
const EXISTS: u8 = 7;

/// Why a body is not what its header announced. The whole frame is then `Invalid` and nothing of it is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MalformedBody {
    /// The body ends inside a command.
    #[error("the body ends inside a command")]
    CutShort,
    /// A length is written in a form that is not the shortest.
    #[error("a length is not written in its shortest form")]
    WrongLengthForm,
    /// A tag that this version does not know.
    #[error("there is no command with tag {0}")]
    UnknownCommand(u8),
    /// A flag that is neither 0 nor 1.
    #[error("a flag is {0}, neither 0 nor 1")]
    UnknownFlag(u8),
    /// Bytes behind the last announced command.
    #[error("{0} bytes follow the last announced command")]
    Trailing(usize),
}

impl From<LengthError> for MalformedBody {
    fn from(error: LengthError) -> MalformedBody {
        match error {
            LengthError::CutShort => MalformedBody::CutShort,
            LengthError::WrongForm => MalformedBody::WrongLengthForm,
        }
    }
}

/// One command, borrowed from its frame.
///
/// Structure only: whether a key or a value is within limits is decided when the command is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Command<'a> {
    /// The value of a key: `Ok` with the value (an empty one is a value), or `NotFound`.
    Get {
        /// The key.
        key: &'a [u8],
    },
    /// Sets a key: `Ok`.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its value from now on; may be empty.
        value: &'a [u8],
    },
    /// Removes a key: `Ok` if it was there, `NotFound` if not.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Appends to the value of a key, a missing one counting as empty: `Ok` with the new length in bytes as a number.
    Append {
        /// The key.
        key: &'a [u8],
        /// What is appended; may be empty.
        value: &'a [u8],
    },
    /// Adds to the decimal number that is the value of a key, a missing one counting as 0: `Ok` with the sum as a number;
    /// `Conflict` if the value is no number or the sum does not fit 64 bits.
    Increment {
        /// The key.
        key: &'a [u8],
        /// What is added; may be negative.
        by: i64,
    },
    /// Sets a key if its value is the expected one: `Ok`, or `Conflict` with nothing changed.
    CompareAndSet {
        /// The key.
        key: &'a [u8],
        /// What the value must be; `None` means that the key must not be there.
        expected: Option<&'a [u8]>,
        /// The value from then on; may be empty.
        new: &'a [u8],
    },
    /// Whether a key is there: `Ok` or `NotFound`, without its value.
    Exists {
        /// The key.
        key: &'a [u8],
    },
}

impl<'a> Command<'a> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        match *self {
            Command::Get { key }
            | Command::Put { key, .. }
            | Command::Delete { key }
            | Command::Append { key, .. }
            | Command::Increment { key, .. }
            | Command::CompareAndSet { key, .. }
            | Command::Exists { key } => key,
        }
    }

    /// Whether it can change a key.
    #[must_use]
    pub fn writes(&self) -> bool {
        !matches!(self, Command::Get { .. } | Command::Exists { .. })
    }

    /// Bytes that [`Command::encode`] appends.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        let operand = match *self {
            Command::Get { .. } | Command::Delete { .. } | Command::Exists { .. } => 0,
            Command::Put { value, .. } | Command::Append { value, .. } => encoded_bytes(value.len()),
            Command::Increment { .. } => 8,
            Command::CompareAndSet { expected, new, .. } => {
                1 + expected.map_or(0, |value| encoded_bytes(value.len())) + encoded_bytes(new.len())
            }
        };
        1 + encoded_bytes(self.key().len()) + operand
    }

    /// Appends the command's bytes to a frame's body.
    pub fn encode(&self, output: &mut Vec<u8>) {
        let tag = match self {
            Command::Get { .. } => GET,
            Command::Put { .. } => PUT,
            Command::Delete { .. } => DELETE,
            Command::Append { .. } => APPEND,
            Command::Increment { .. } => INCREMENT,
            Command::CompareAndSet { .. } => COMPARE_AND_SET,
            Command::Exists { .. } => EXISTS,
        };
        output.push(tag);
        put_bytes(output, self.key());
        match *self {
            Command::Get { .. } | Command::Delete { .. } | Command::Exists { .. } => {}
            Command::Put { value, .. } | Command::Append { value, .. } => put_bytes(output, value),
            Command::Increment { by, .. } => output.extend_from_slice(&by.to_le_bytes()),
            Command::CompareAndSet { expected, new, .. } => {
                output.push(u8::from(expected.is_some()));
                if let Some(expected) = expected {
                    put_bytes(output, expected);
                }
                put_bytes(output, new);
            }
        }
    }

    /// Takes a command off the front of `rest`. Inlined, so that checking the structure builds no command.
    #[inline(always)]
    fn take(rest: &mut &'a [u8]) -> Result<Command<'a>, MalformedBody> {
        let (&tag, tail) = rest.split_first().ok_or(MalformedBody::CutShort)?;
        if !(GET..=EXISTS).contains(&tag) {
            return Err(MalformedBody::UnknownCommand(tag));
        }
        *rest = tail;
        let key = take_bytes(rest)?;
        Ok(match tag {
            GET => Command::Get { key },
            PUT => Command::Put { key, value: take_bytes(rest)? },
            DELETE => Command::Delete { key },
            APPEND => Command::Append { key, value: take_bytes(rest)? },
            INCREMENT => Command::Increment { key, by: take_number(rest)? },
            COMPARE_AND_SET => {
                let (&flag, tail) = rest.split_first().ok_or(MalformedBody::CutShort)?;
                *rest = tail;
                let expected = match flag {
                    0 => None,
                    1 => Some(take_bytes(rest)?),
                    other => return Err(MalformedBody::UnknownFlag(other)),
                };
                Command::CompareAndSet { key, expected, new: take_bytes(rest)? }
            }
            _ => Command::Exists { key },
        })
    }
}

/// The commands of a body whose structure was checked to its last byte.
#[derive(Clone, Copy, Debug)]
pub struct Commands<'a> {
    rest: &'a [u8],
    remaining: u32,
}

impl<'a> Commands<'a> {
    /// Checks that `body` is exactly `count` commands. Allocates nothing.
    ///
    /// # Errors
    /// [`MalformedBody`]; then no command of the body may be applied.
    pub fn parse(body: &'a [u8], count: u32) -> Result<Commands<'a>, MalformedBody> {
        let mut rest = body;
        // A count beyond the bytes ends here too: each command takes at least two of them.
        for _ in 0..count {
            Command::take(&mut rest)?;
        }
        if rest.is_empty() {
            Ok(Commands { rest: body, remaining: count })
        } else {
            Err(MalformedBody::Trailing(rest.len()))
        }
    }

    /// The commands of a body that nobody has checked: they end where it is malformed.
    pub(crate) fn unchecked(body: &'a [u8], count: u32) -> Commands<'a> {
        Commands { rest: body, remaining: count }
    }
}

impl<'a> Iterator for Commands<'a> {
    type Item = Command<'a>;

    #[inline]
    fn next(&mut self) -> Option<Command<'a>> {
        self.remaining = self.remaining.checked_sub(1)?;
        // Where the structure was checked this is always a command.
        Command::take(&mut self.rest).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining as usize, Some(self.remaining as usize))
    }
}

impl ExactSizeIterator for Commands<'_> {}

/// Appends commands to a frame's body and counts them for its header.
#[derive(Debug)]
pub struct CommandWriter<'a> {
    output: &'a mut Vec<u8>,
    count: u32,
}

impl<'a> CommandWriter<'a> {
    /// A writer behind what `output` already holds (a frame's header, say).
    #[must_use]
    pub fn new(output: &'a mut Vec<u8>) -> CommandWriter<'a> {
        CommandWriter { output, count: 0 }
    }

    /// Appends a command.
    pub fn push(&mut self, command: Command<'_>) {
        command.encode(self.output);
        self.count += 1;
    }

    /// Commands appended: the count for the frame's header.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Command<'_>; 8] = [
        Command::Get { key: b"a" },
        Command::Put { key: b"b", value: b"" },
        Command::Delete { key: b"c" },
        Command::Append { key: b"d", value: b"tail" },
        Command::Increment { key: b"e", by: -3 },
        Command::CompareAndSet { key: b"f", expected: None, new: b"new" },
        Command::CompareAndSet { key: b"g", expected: Some(b""), new: b"new" },
        Command::Exists { key: b"\0\n" },
    ];

    fn body(commands: &[Command<'_>]) -> Vec<u8> {
        let mut output = Vec::new();
        let mut writer = CommandWriter::new(&mut output);
        commands.iter().for_each(|command| writer.push(*command));
        assert_eq!(writer.count() as usize, commands.len());
        output
    }

    #[test]
    fn every_command_reads_back_and_takes_the_bytes_foretold() {
        let bytes = body(&ALL);
        assert_eq!(bytes.len(), ALL.iter().map(Command::encoded_bytes).sum::<usize>());
        assert_eq!(Commands::parse(&bytes, 8).map(Iterator::collect::<Vec<_>>), Ok(ALL.to_vec()));
    }

    #[test]
    fn a_put_has_exactly_these_bytes() {
        assert_eq!(body(&[Command::Put { key: b"k1", value: b"value" }]), b"\x02\x02k1\x05value");
    }

    #[test]
    fn every_cut_of_a_body_is_malformed() {
        let bytes = body(&ALL);
        for end in 0..bytes.len() {
            assert_eq!(Commands::parse(&bytes[..end], 8).err(), Some(MalformedBody::CutShort), "cut at {end}");
        }
    }

    #[test]
    fn a_count_that_is_not_the_number_of_commands_is_malformed() {
        let bytes = body(&ALL);
        assert_eq!(Commands::parse(&bytes, 9).err(), Some(MalformedBody::CutShort));
        assert_eq!(Commands::parse(&bytes, 7).err(), Some(MalformedBody::Trailing(4)));
        assert_eq!(Commands::parse(&bytes, u32::MAX).err(), Some(MalformedBody::CutShort));
    }

    #[test]
    fn unknown_tags_and_flags_are_malformed() {
        assert_eq!(Commands::parse(b"\x00\x01k", 1).err(), Some(MalformedBody::UnknownCommand(0)));
        assert_eq!(Commands::parse(b"\x08\x01k", 1).err(), Some(MalformedBody::UnknownCommand(8)));
        assert_eq!(Commands::parse(b"\x06\x01k\x02\x00", 1).err(), Some(MalformedBody::UnknownFlag(2)));
    }

    #[test]
    fn a_length_beyond_the_body_is_malformed_and_nothing_is_allocated_for_it() {
        assert_eq!(Commands::parse(b"\x01\xff\xff\xff\xff\xffk", 1).err(), Some(MalformedBody::CutShort));
    }
}
