//! A small JSON reader that keeps what the usual ones throw away: the position of every key and value, and keys that
//! appear twice. It exists so that the validator can report all faults of a file at once, each with its line.
//!
//! Beyond the standard it accepts `//` and `/* */` comments and a UTF-8 byte-order mark, and nothing else.

mod reader;
#[cfg(test)]
mod reader_tests;

pub(crate) use reader::{SyntaxProblem, read};

/// A place in a text; both parts count from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// A value and where it starts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Position,
    pub(crate) value: Json,
}

/// A JSON value. Numbers keep their text, because their range is the validator's business.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    Array(Vec<Node>),
    Object(Vec<Member>),
}

/// One `"key": value` of an object, in the order of the file, duplicates included.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) key_at: Position,
    pub(crate) value: Node,
}

/// Characters of a found value that an error shows.
const SHOWN_CHARACTERS_MAX: usize = 60;

impl Json {
    /// The value as an error shows it: scalars as written, containers by their kind.
    pub(crate) fn shown(&self) -> String {
        match self {
            Json::Null => "null".to_owned(),
            Json::Bool(value) => value.to_string(),
            Json::Number(text) => shortened(text),
            Json::Text(text) => quoted(text),
            Json::Array(_) => "a list".to_owned(),
            Json::Object(_) => "an object".to_owned(),
        }
    }

    /// The name of the value's kind, with its article.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Number(_) => "a number",
            Json::Text(_) => "a string",
            Json::Array(_) => "a list",
            Json::Object(_) => "an object",
        }
    }
}

/// A string in double quotes with control characters escaped, cut to a length that fits an error line.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", shortened(&text.escape_debug().to_string()))
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= SHOWN_CHARACTERS_MAX {
        return text.to_owned();
    }
    let head: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    format!("{head}…")
}
