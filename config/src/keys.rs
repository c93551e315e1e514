//! The table of keys: the one source of what a configuration may say. The validator, the schema, the defaults and the typed
//! [`Settings`](crate::Settings) are all made from it.

mod structure;
mod table;

use structure::{DUCKDB_KEYS, LEVELDB_KEYS, REGION_KEYS, REGION_REPLICA_KEYS, REPLICA_KEYS, STRUCTURE_KEYS};
use table::IGNORED_KEYS;
pub(crate) use table::SETTING_KEYS;
pub use table::Settings;

/// What a key may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Bool,
    /// An integer from `min` to `max`, both included.
    Integer {
        min: u64,
        max: u64,
    },
    /// The name of a consensus protocol.
    Protocol,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A folder or file name: not empty, without NUL, without a leading tilde.
    Path,
    /// The name or address of a host.
    Host,
    /// 32 hexadecimal digits.
    ClusterId,
    /// An object with keys of its own.
    Object(Level),
    /// A list of objects with keys of their own.
    List(Level),
    /// Anything: a value of another system that is never looked at here.
    Anything,
}

/// What stands for a key that is absent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DefaultValue {
    /// Nothing: the key has no effect here, or it must be given.
    None,
    Bool(bool),
    Integer(u64),
    Text(&'static str),
    /// The effective value of another key.
    SameAs(&'static str),
}

/// What a key does here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// It does what its documentation says.
    Used,
    /// It is accepted and does nothing; the text says why, as the second half of a sentence.
    None(&'static str),
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpec {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) default: DefaultValue,
    pub(crate) effect: Effect,
    pub(crate) required: bool,
    pub(crate) doc: &'static str,
}

impl KeySpec {
    /// The key's second spelling, as the JSON form of protocol buffers has it: `maxProcessTxn` for `max_process_txn`.
    pub(crate) fn camel_case(&self) -> String {
        let mut spelling = String::with_capacity(self.name.len());
        let mut raise = false;
        for character in self.name.chars() {
            if character == '_' {
                raise = true;
            } else if raise {
                spelling.push(character.to_ascii_uppercase());
                raise = false;
            } else {
                spelling.push(character);
            }
        }
        spelling
    }

    /// Whether `key` is one of the two spellings of this key.
    pub(crate) fn is_spelled(&self, key: &str) -> bool {
        self.name == key || self.camel_case() == key
    }

    /// Whether `key` would be a spelling of this key if capitals did not matter.
    pub(crate) fn is_spelled_in_another_case(&self, key: &str) -> bool {
        self.name.eq_ignore_ascii_case(key) || self.camel_case().eq_ignore_ascii_case(key)
    }

    /// The documentation as one paragraph.
    pub(crate) fn doc_text(&self) -> String {
        self.doc.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// What the key may hold, as an error says it.
    pub(crate) fn allowed(&self) -> String {
        match self.kind {
            Kind::Bool => "true or false".to_owned(),
            Kind::Integer { min, max } if min == max => format!("only {min}"),
            Kind::Integer { min, max } => format!("an integer from {min} to {max}"),
            Kind::Protocol => "the name of a consensus protocol: \"raft\"".to_owned(),
            Kind::Choice(words) => words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or "),
            Kind::Path => "the name of a folder as a string".to_owned(),
            Kind::Host => "a host name or an IP address as a string".to_owned(),
            Kind::ClusterId => "32 hexadecimal digits as a string".to_owned(),
            Kind::Object(_) => "an object".to_owned(),
            Kind::List(_) => "a list of objects".to_owned(),
            Kind::Anything => "anything".to_owned(),
        }
    }
}

/// An object of the file that has keys of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Top,
    Replica,
    Region,
    RegionReplica,
    Leveldb,
    Duckdb,
}

impl Level {
    pub(crate) const ALL: [Level; 6] =
        [Level::Top, Level::Replica, Level::Region, Level::RegionReplica, Level::Leveldb, Level::Duckdb];

    /// The keys that may stand in such an object.
    pub(crate) fn keys(self) -> impl Iterator<Item = &'static KeySpec> + Clone {
        let (first, second, third): (&[KeySpec], &[KeySpec], &[KeySpec]) = match self {
            Level::Top => (SETTING_KEYS, STRUCTURE_KEYS, IGNORED_KEYS),
            Level::Replica => (REPLICA_KEYS, &[], &[]),
            Level::Region => (REGION_KEYS, &[], &[]),
            Level::RegionReplica => (REGION_REPLICA_KEYS, &[], &[]),
            Level::Leveldb => (LEVELDB_KEYS, &[], &[]),
            Level::Duckdb => (DUCKDB_KEYS, &[], &[]),
        };
        first.iter().chain(second).chain(third)
    }

    /// Where such an object stands, as the end of "this key belongs …".
    pub(crate) fn whereabouts(self) -> &'static str {
        match self {
            Level::Top => "at the top of the file",
            Level::Replica => "into an element of \"replicas\"",
            Level::Region => "into the element of \"region\"",
            Level::RegionReplica => "into an element of \"replica_info\" in \"region\"",
            Level::Leveldb => "into \"leveldb_info\"",
            Level::Duckdb => "into \"duckdb_info\"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_spelling_names_two_keys_of_one_level() {
        for level in Level::ALL {
            let mut spellings = BTreeSet::new();
            for spec in level.keys() {
                let camel_case = spec.camel_case();
                assert!(spellings.insert(spec.name.to_owned()), "{}", spec.name);
                assert!(camel_case == spec.name || spellings.insert(camel_case), "{}", spec.name);
            }
        }
    }

    #[test]
    fn every_default_lies_in_the_range_of_its_key() {
        for spec in Level::Top.keys() {
            match (spec.kind, spec.default) {
                (Kind::Integer { min, max }, DefaultValue::Integer(value)) => {
                    assert!((min..=max).contains(&value), "{}", spec.name);
                }
                (Kind::Integer { .. }, DefaultValue::SameAs(other)) => {
                    assert!(SETTING_KEYS.iter().any(|spec| spec.name == other), "{}", spec.name);
                }
                (Kind::Choice(words), DefaultValue::Text(word)) => assert!(words.contains(&word), "{}", spec.name),
                (Kind::Bool, DefaultValue::Bool(_))
                | (Kind::Protocol | Kind::Path, DefaultValue::Text(_))
                | (_, DefaultValue::None) => {}
                _ => panic!("{} has a default of another kind", spec.name),
            }
        }
    }

    #[test]
    fn the_second_spelling_is_the_one_of_protocol_buffers() {
        let spelling = |name: &str| Level::Top.keys().find(|spec| spec.name == name).unwrap().camel_case();
        assert_eq!(spelling("recovery_ckpt_time_s"), "recoveryCkptTimeS");
        assert_eq!(spelling("enable_viewchange"), "enableViewchange");
        assert_eq!(spelling("region"), "region");
    }
}
