//! The JSON schema of a configuration file, made from the table of keys.

use crate::keys::{DefaultValue, Effect, KeySpec, Kind, Level};
use crate::protocol::Protocol;
use serde_json::{Map, Value, json};

/// The JSON schema (draft 2020-12) of cluster files and templates, for editors and other tools. The validator is stricter: it
/// also checks rules between keys, and it wants `cluster_id` and `replicas` of a cluster's file.
#[must_use]
pub fn schema() -> Value {
    let mut schema = object_schema(Level::Top);
    schema.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
    schema.insert("title".to_owned(), "Quorate cluster file or template".into());
    Value::Object(schema)
}

fn object_schema(level: Level) -> Map<String, Value> {
    let mut properties = Map::new();
    for spec in level.keys() {
        let property = key_schema(spec);
        let camel_case = spec.camel_case();
        if camel_case != spec.name {
            properties.insert(camel_case, property.clone());
        }
        properties.insert(spec.name.to_owned(), property);
    }
    let required: Vec<&str> = level.keys().filter(|spec| spec.required).map(|spec| spec.name).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("additionalProperties".to_owned(), false.into());
    // The second spelling would satisfy the validator but not this list, so only keys of one spelling are on it.
    let one_spelling: Vec<&str> = required.into_iter().filter(|name| !name.contains('_')).collect();
    if !one_spelling.is_empty() {
        schema.insert("required".to_owned(), one_spelling.into());
    }
    schema
}

fn key_schema(spec: &KeySpec) -> Value {
    let mut schema = match spec.kind {
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Integer { min, max } => json!({"type": "integer", "minimum": min, "maximum": max}),
        Kind::Host => json!({"type": "string", "minLength": 1}),
        Kind::Path => json!({"type": "string", "minLength": 1, "pattern": "^[^~]"}),
        Kind::Protocol => {
            json!({"enum": Protocol::ALL.iter().map(|protocol| protocol.name()).collect::<Vec<_>>()})
        }
        Kind::Choice(words) => json!({"enum": words}),
        Kind::ClusterId => json!({"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}),
        Kind::Object(level) => Value::Object(object_schema(level)),
        Kind::List(level) => json!({"type": "array", "minItems": 1, "items": Value::Object(object_schema(level))}),
        Kind::Anything => json!({}),
    };
    let mut description = spec.doc_text();
    if let Effect::None(why) = spec.effect {
        description = format!("{description} No effect here: {why}.");
    }
    let default = match spec.default {
        DefaultValue::Bool(value) => Some(value.into()),
        DefaultValue::Integer(value) => Some(value.into()),
        DefaultValue::Text(value) => Some(value.into()),
        DefaultValue::SameAs(other) => {
            description = format!("{description} Default: the value of {other}.");
            None
        }
        DefaultValue::None => None,
    };
    if let Value::Object(object) = &mut schema {
        object.insert("description".to_owned(), description.into());
        if let Some(default) = default {
            object.insert("default".to_owned(), default);
        }
    }
    schema
}
