//! What can be wrong with a configuration, typed, and the list of everything wrong with one file.

use crate::json::Position;
use std::fmt;
use thiserror::Error;

/// Where in which file something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file's name as it was given.
    pub file: String,
    /// Line and column.
    pub at: Position,
    /// The way to the value from the top of the file, as in `$.replicas[1].port`.
    pub path: String,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}: {}", self.file, self.at.line, self.at.column, self.path)
    }
}

/// Why a path could not be read as a configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FileProblem {
    /// There is nothing at the path.
    #[error("no such file")]
    NotFound,
    /// The path is a folder.
    #[error("this is a folder; a configuration file is needed")]
    Directory,
    /// The path is a pipe, whose content cannot be read again by the next process.
    #[error("this is a pipe; a regular file is needed, because every replica reads it again")]
    Pipe,
    /// The path is a socket or a device.
    #[error("this is {0}; a regular file is needed")]
    Special(&'static str),
    /// The path is a symbolic link to nothing.
    #[error("this is a symbolic link to {target}, which does not exist")]
    BrokenLink {
        /// What the link names.
        target: String,
    },
    /// The file is longer than any configuration.
    #[error("longer than {limit_bytes} bytes, so it is no configuration file")]
    TooLarge {
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// The operating system refused.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The text is in another encoding than UTF-8.
    #[error("the text is in {0}; save it as UTF-8")]
    Encoding(&'static str),
    /// The bytes are no UTF-8.
    #[error("the text is not UTF-8: line {line} has the byte 0x{byte:02x} where no character can be")]
    NotUtf8 {
        /// Line, from 1.
        line: u32,
        /// The first byte that fits no character.
        byte: u8,
    },
    /// There is no value in the file.
    #[error("the file is empty; it must hold one JSON object: {{ … }}")]
    Empty,
}

/// One fault of a configuration. Its text names the file, the line, the JSON path, what was found and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The file cannot be read as text.
    #[error("{file}: {problem}")]
    File {
        /// The file's name as it was given.
        file: String,
        /// Why.
        problem: FileProblem,
    },
    /// The text is no JSON.
    #[error("{file}:{}:{}: not JSON: {problem}", at.line, at.column)]
    Syntax {
        /// The file's name as it was given.
        file: String,
        /// Line and column.
        at: Position,
        /// What was expected and found.
        problem: String,
    },
    /// The file holds a value that is no object.
    #[error("{place}: the top of the file is {found}; it must be one JSON object: {{ … }}")]
    NotAnObject {
        /// Where the value starts.
        place: Place,
        /// The kind of value found.
        found: &'static str,
    },
    /// A key that is not known at its place.
    #[error("{place}: unknown key \"{key}\"; {hint}")]
    UnknownKey {
        /// Where the key stands.
        place: Place,
        /// The key as written.
        key: String,
        /// What was probably meant.
        hint: KeyHint,
    },
    /// A key that is given twice in one object, in whichever spelling.
    #[error("{place}: the key is given twice, first at line {}, column {}", first.line, first.column)]
    DuplicateKey {
        /// Where it stands the second time.
        place: Place,
        /// Where it stands the first time.
        first: Position,
    },
    /// A value of the wrong kind.
    #[error("{place}: found {}; allowed: {allowed}", found_text(found, kind))]
    WrongType {
        /// Where the value stands.
        place: Place,
        /// The value found.
        found: String,
        /// Its kind.
        kind: &'static str,
        /// What is allowed.
        allowed: String,
    },
    /// A value of the right kind that is not allowed.
    #[error("{place}: {found} is not allowed; allowed: {allowed}")]
    NotAllowed {
        /// Where the value stands.
        place: Place,
        /// The value found.
        found: String,
        /// What is allowed.
        allowed: String,
    },
    /// A protocol that this version does not contain yet.
    #[error("{place}: \"{name}\" is not built yet in this version; use \"raft\"")]
    ProtocolNotBuilt {
        /// Where the value stands.
        place: Place,
        /// The protocol's name.
        name: String,
    },
    /// A key that must be there.
    #[error("{place}: the key \"{key}\" is missing; needed: {needed}")]
    Missing {
        /// The object that lacks it.
        place: Place,
        /// The missing key.
        key: &'static str,
        /// What it must hold.
        needed: String,
    },
    /// A host name that cannot be dialled.
    #[error("{place}: the host {host} {problem}")]
    BadHost {
        /// Where the value stands.
        place: Place,
        /// The host, in quotes.
        host: String,
        /// What is wrong with it.
        problem: HostProblem,
    },
    /// Two replicas with one id.
    #[error("{place}: replica id {id} is given twice, first at line {}: {}", first.at.line, first.path)]
    DuplicateReplica {
        /// Where it stands the second time.
        place: Place,
        /// Where it stands the first time.
        first: Place,
        /// The id.
        id: u64,
    },
    /// Two listeners on one host and port.
    #[error("{place}: {address} is used twice, first at line {}: {}", first.at.line, first.path)]
    DuplicateAddress {
        /// Where it stands the second time.
        place: Place,
        /// Where it stands the first time.
        first: Place,
        /// Host and port.
        address: String,
    },
    /// More or fewer replicas than a cluster can have.
    #[error("{place}: {found} replicas; allowed: 1 to {limit}")]
    ReplicaCount {
        /// Where the list stands.
        place: Place,
        /// Replicas in the list.
        found: usize,
        /// Replicas at most.
        limit: usize,
    },
    /// More than one region.
    #[error("{place}: {found} regions; a cluster has exactly one here")]
    RegionCount {
        /// Where the list stands.
        place: Place,
        /// Regions in the list.
        found: usize,
    },
    /// Both forms of the replica list in one file.
    #[error("{place}: \"region\" and \"replicas\" both list the replicas, \"replicas\" at line {}; keep one", replicas.line)]
    RegionAndReplicas {
        /// Where `region` stands.
        place: Place,
        /// Where `replicas` stands.
        replicas: Position,
    },
    /// Two settings, each allowed by itself, that cannot work together.
    #[error("{place}: {found} cannot work: {rule}")]
    Contradiction {
        /// Where the later-named of the two stands, or the other if that one is a default.
        place: Place,
        /// The value found there.
        found: String,
        /// The rule, with the effective values of both.
        rule: String,
    },
    /// Reporting stopped here.
    #[error("{file}: more than {limit} faults; the rest is not listed")]
    TooMany {
        /// The file's name as it was given.
        file: String,
        /// Faults that are listed.
        limit: usize,
    },
}

/// The value and its kind, unless the value is shown by its kind alone.
fn found_text(found: &str, kind: &str) -> String {
    if found == kind { found.to_owned() } else { format!("{found}, which is {kind}") }
}

/// What an unknown key was probably meant to be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyHint {
    /// The key is right but for its capital letters.
    #[error("keys are case-sensitive: write \"{0}\"")]
    Case(String),
    /// The key is right, but belongs elsewhere.
    #[error("this key belongs {0}")]
    Level(String),
    /// A known key is near.
    #[error("did you mean \"{0}\"?")]
    Nearest(String),
    /// Nothing is near.
    #[error("no known key is near it; `quorate config schema` lists them all")]
    Nothing,
}

/// What is wrong with a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HostProblem {
    /// No characters.
    #[error("is empty; write a host name or an IP address")]
    Empty,
    /// White space in it.
    #[error("has white space in it; write a host name or an IP address")]
    WhiteSpace,
    /// Longer than a name can be.
    #[error("is longer than 253 characters")]
    TooLong,
    /// A port behind a colon.
    #[error("has a port in it; the port has a key of its own")]
    HasPort,
    /// Brackets around an IPv6 address.
    #[error("has brackets; write an IPv6 address without them")]
    Brackets,
    /// A scheme or a path.
    #[error("is a URL; write only the host name or the IP address")]
    Url,
    /// Four numbers that are no IPv4 address.
    #[error("looks like an IPv4 address but is none")]
    NotIpv4,
    /// An address that means "all of this machine".
    #[error("means every address of a machine; write the one under which the others reach it")]
    Unspecified,
    /// A character that host names do not have.
    #[error("has a character that host names do not have; allowed: letters, digits, '-', '_' and '.'")]
    Character,
}

/// Everything that is wrong with one configuration, in the order of the file; never empty. Displays as one fault a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    errors: Vec<ConfigError>,
}

impl ConfigErrors {
    /// A list of one.
    #[must_use]
    pub fn one(error: ConfigError) -> ConfigErrors {
        ConfigErrors { errors: vec![error] }
    }

    /// The list, unless it is empty.
    pub(crate) fn from_list(errors: Vec<ConfigError>) -> Option<ConfigErrors> {
        (!errors.is_empty()).then_some(ConfigErrors { errors })
    }

    /// The faults, at least one.
    #[must_use]
    pub fn as_slice(&self) -> &[ConfigError] {
        &self.errors
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, error) in self.errors.iter().enumerate() {
            if place > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

impl IntoIterator for ConfigErrors {
    type Item = ConfigError;
    type IntoIter = std::vec::IntoIter<ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.into_iter()
    }
}
