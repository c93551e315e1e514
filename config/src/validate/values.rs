//! Single values: kind and range.

use super::Validator;
use crate::error::ConfigError;
use crate::host::check_host;
use crate::json::{Json, Node, quoted};
use crate::keys::{KeySpec, Kind};
use crate::protocol::{NOT_BUILT, Protocol};
use quorate_framework::ClusterId;
use serde_json::Value;

impl Validator<'_> {
    /// The value of `node` if it is what `spec` allows; otherwise the fault is reported.
    pub(super) fn value(&mut self, spec: &KeySpec, node: &Node, path: &str) -> Option<Value> {
        match (spec.kind, &node.value) {
            (Kind::Bool, Json::Bool(value)) => Some((*value).into()),
            (Kind::Integer { min, max }, Json::Number(text)) => self.integer(spec, node, path, text, min, max),
            (Kind::Protocol | Kind::Choice(_) | Kind::Path | Kind::Host | Kind::ClusterId, Json::Text(text)) => {
                self.text(spec, node, path, text)
            }
            (Kind::Object(level), Json::Object(members)) => {
                let mut object = serde_json::Map::new();
                for (spec, member) in self.known_members(members, level, path) {
                    let value = self.value(spec, &member.value, &format!("{path}.{}", member.key))?;
                    object.insert(spec.name.to_owned(), value);
                }
                Some(Value::Object(object))
            }
            (Kind::Anything, _) => self.anything(spec, node, path),
            _ => {
                self.wrong_type(spec, node, path);
                None
            }
        }
    }

    pub(super) fn wrong_type(&mut self, spec: &KeySpec, node: &Node, path: &str) {
        let place = self.place(node.at, path);
        let (found, kind) = (node.value.shown(), node.value.kind());
        self.fail(ConfigError::WrongType { place, found, kind, allowed: spec.allowed() });
    }

    fn not_allowed(&mut self, spec: &KeySpec, node: &Node, path: &str) {
        let place = self.place(node.at, path);
        self.fail(ConfigError::NotAllowed { place, found: node.value.shown(), allowed: spec.allowed() });
    }

    fn integer(&mut self, spec: &KeySpec, node: &Node, path: &str, text: &str, min: u64, max: u64) -> Option<Value> {
        match text.parse::<u64>() {
            Ok(value) if (min..=max).contains(&value) => Some(value.into()),
            _ => {
                self.not_allowed(spec, node, path);
                None
            }
        }
    }

    fn text(&mut self, spec: &KeySpec, node: &Node, path: &str, text: &str) -> Option<Value> {
        let accepted = match spec.kind {
            Kind::Host => {
                if let Err(problem) = check_host(text) {
                    let place = self.place(node.at, path);
                    self.fail(ConfigError::BadHost { place, host: quoted(text), problem });
                    return None;
                }
                true
            }
            Kind::Protocol if NOT_BUILT.contains(&text) => {
                let place = self.place(node.at, path);
                self.fail(ConfigError::ProtocolNotBuilt { place, name: text.to_owned() });
                return None;
            }
            Kind::Protocol => Protocol::from_name(text).is_some(),
            Kind::Choice(words) => words.contains(&text),
            Kind::Path => !text.is_empty() && !text.contains('\0') && !text.starts_with('~'),
            Kind::ClusterId => cluster_id(text).is_some(),
            _ => !text.is_empty(),
        };
        if !accepted {
            self.not_allowed(spec, node, path);
            return None;
        }
        Some(text.into())
    }

    /// A value that is kept without being looked at; only what no other reader could keep is a fault.
    fn anything(&mut self, spec: &KeySpec, node: &Node, path: &str) -> Option<Value> {
        Some(match &node.value {
            Json::Null => Value::Null,
            Json::Bool(value) => (*value).into(),
            Json::Number(text) => match text.parse::<serde_json::Number>() {
                Ok(number) => Value::Number(number),
                Err(_) => {
                    self.not_allowed(spec, node, path);
                    return None;
                }
            },
            Json::Text(text) => text.as_str().into(),
            Json::Array(items) => {
                let mut list = Vec::new();
                for (place, item) in items.iter().enumerate() {
                    list.push(self.anything(spec, item, &format!("{path}[{place}]"))?);
                }
                Value::Array(list)
            }
            Json::Object(members) => {
                let mut object = serde_json::Map::new();
                for member in members {
                    let path = format!("{path}.{}", super::shown_key(&member.key));
                    if object.contains_key(&member.key) {
                        let first = members.iter().find(|other| other.key == member.key).unwrap_or(member).key_at;
                        let place = self.place(member.key_at, &path);
                        self.fail(ConfigError::DuplicateKey { place, first });
                        continue;
                    }
                    let value = self.anything(spec, &member.value, &path)?;
                    object.insert(member.key.clone(), value);
                }
                Value::Object(object)
            }
        })
    }
}

/// The cluster id of 32 hexadecimal digits, unless all of them are zero: that is a placeholder, not an identity.
pub(crate) fn cluster_id(text: &str) -> Option<ClusterId> {
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let number = u128::from_str_radix(text, 16).ok()?;
    (number != 0).then(|| ClusterId(number.to_be_bytes()))
}
