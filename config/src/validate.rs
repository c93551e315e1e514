//! The validator: walks the tree of a file and reports everything wrong with it at once. It touches nothing but memory.

mod relations;
mod replicas;
mod values;

use crate::error::{ConfigError, ConfigErrors, KeyHint, Place};
use crate::json::{Json, Member, Node, Position};
use crate::keys::{DefaultValue, Effect, KeySpec, Level, SETTING_KEYS, Settings};
use crate::nearest::nearest;
use crate::note::{Note, NoteKind};
use crate::replica::ReplicaAddress;
use quorate_framework::ClusterId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Faults that are listed for one file.
const FAULTS_MAX: usize = 200;

/// What a file is to be used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// It describes a cluster: identity and replicas must be there.
    Cluster,
    /// It describes settings; identity and replicas may be there.
    Template,
}

/// A file without faults.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) given: Vec<(&'static str, Value)>,
    pub(crate) settings: Settings,
    pub(crate) cluster_id: Option<ClusterId>,
    pub(crate) replicas: Option<Vec<ReplicaAddress>>,
    pub(crate) notes: Vec<Note>,
}

/// Checks the tree of `file`. The errors come in the order of the file.
pub(crate) fn validate(file: &str, root: &Node, form: Form) -> Result<Checked, ConfigErrors> {
    let mut validator = Validator::new(file);
    let Json::Object(members) = &root.value else {
        let place = validator.place(root.at, "$");
        return Err(ConfigErrors::one(ConfigError::NotAnObject { place, found: root.value.kind() }));
    };
    validator.top(root.at, members, form);
    validator.finish()
}

struct Validator<'a> {
    file: &'a str,
    errors: Vec<ConfigError>,
    notes: Vec<Note>,
    /// Values of the top level that passed, in the order of the file, without the structure keys.
    given: Vec<(&'static str, Value)>,
    /// Where each key of the top level stands that was given, valid or not.
    positions: BTreeMap<&'static str, Position>,
    /// Keys whose value was refused, so that no rule speaks about a default nobody asked for.
    refused: BTreeSet<&'static str>,
    cluster_id: Option<ClusterId>,
    replicas: Option<Vec<ReplicaAddress>>,
}

impl<'a> Validator<'a> {
    fn new(file: &'a str) -> Validator<'a> {
        Validator {
            file,
            errors: Vec::new(),
            notes: Vec::new(),
            given: Vec::new(),
            positions: BTreeMap::new(),
            refused: BTreeSet::new(),
            cluster_id: None,
            replicas: None,
        }
    }

    fn place(&self, at: Position, path: &str) -> Place {
        Place { file: self.file.to_owned(), at, path: path.to_owned() }
    }

    fn fail(&mut self, error: ConfigError) {
        if self.errors.len() <= FAULTS_MAX {
            self.errors.push(error);
        }
    }

    fn note(&mut self, at: Position, path: &str, kind: NoteKind, text: String) {
        let place = self.place(at, path);
        self.notes.push(Note { place, kind, text });
    }

    fn top(&mut self, at: Position, members: &[Member], form: Form) {
        for (spec, member) in self.known_members(members, Level::Top, "$") {
            let path = format!("$.{}", member.key);
            self.positions.insert(spec.name, member.value.at);
            match spec.name {
                "replicas" => self.replicas = self.replica_list(&member.value, Level::Replica, &path),
                "region" => self.region_list(&member.value, &path),
                _ => self.setting(spec, member, &path),
            }
        }
        let regions = self.positions.get("region").copied();
        let replicas = self.positions.get("replicas").copied();
        if let (Some(region), Some(replicas)) = (regions, replicas) {
            let place = self.place(region, "$.region");
            self.fail(ConfigError::RegionAndReplicas { place, replicas });
        }
        if form == Form::Cluster {
            self.require(at, members, "cluster_id", "32 hexadecimal digits; `quorate config new` draws them");
            if regions.is_none() {
                self.require(at, members, "replicas", "the list of replicas; `quorate config new` writes it");
            }
        }
        self.check_relations();
    }

    fn setting(&mut self, spec: &'static KeySpec, member: &Member, path: &str) {
        let Some(value) = self.value(spec, &member.value, path) else {
            self.refused.insert(spec.name);
            return;
        };
        if let Effect::None(why) = spec.effect {
            self.note(member.key_at, path, NoteKind::NoEffect, format!("the key has no effect here: {why}"));
        }
        if spec.name == "cluster_id" {
            self.cluster_id = value.as_str().and_then(values::cluster_id);
        } else {
            self.given.push((spec.name, value));
        }
    }

    fn require(&mut self, at: Position, members: &[Member], key: &'static str, needed: &str) {
        // A misspelt key is reported as such; that it is also missing would be a second error for one mistake.
        if !self.positions.contains_key(key) && !misspelt(members, key, Level::Top) {
            let place = self.place(at, "$");
            self.fail(ConfigError::Missing { place, key, needed: needed.to_owned() });
        }
    }

    /// The members whose keys are known at `level`, each key once; the others are reported.
    fn known_members<'n>(
        &mut self,
        members: &'n [Member],
        level: Level,
        path: &str,
    ) -> Vec<(&'static KeySpec, &'n Member)> {
        let mut seen: BTreeMap<&'static str, Position> = BTreeMap::new();
        let mut known = Vec::new();
        for member in members {
            if self.errors.len() > FAULTS_MAX {
                break;
            }
            let place = self.place(member.key_at, &format!("{path}.{}", shown_key(&member.key)));
            let Some(spec) = level.keys().find(|spec| spec.is_spelled(&member.key)) else {
                let hint = hint(&member.key, level);
                self.fail(ConfigError::UnknownKey { place, key: shown_key(&member.key), hint });
                continue;
            };
            if let Some(first) = seen.get(spec.name) {
                self.fail(ConfigError::DuplicateKey { place, first: *first });
                continue;
            }
            seen.insert(spec.name, member.key_at);
            known.push((spec, member));
        }
        known
    }

    fn finish(mut self) -> Result<Checked, ConfigErrors> {
        let more = self.errors.len() > FAULTS_MAX;
        self.errors.truncate(FAULTS_MAX);
        self.errors.sort_by_key(ConfigError::position);
        if more {
            self.errors.push(ConfigError::TooMany { file: self.file.to_owned(), limit: FAULTS_MAX });
        }
        if let Some(errors) = ConfigErrors::from_list(std::mem::take(&mut self.errors)) {
            return Err(errors);
        }
        let settings = Settings::from_values(|key| self.effective(key));
        self.notes.sort_by_key(|note| note.place.at);
        let Validator { given, cluster_id, replicas, notes, .. } = self;
        Ok(Checked { given, settings, cluster_id, replicas, notes })
    }

    /// The value of a setting: the one given or else its default.
    fn effective(&self, key: &str) -> Value {
        if let Some((_, value)) = self.given.iter().find(|(given, _)| *given == key) {
            return value.clone();
        }
        let spec = SETTING_KEYS.iter().find(|spec| spec.name == key);
        match spec.map(|spec| spec.default) {
            Some(DefaultValue::Bool(value)) => value.into(),
            Some(DefaultValue::Integer(value)) => value.into(),
            Some(DefaultValue::Text(value)) => value.into(),
            Some(DefaultValue::SameAs(other)) => self.effective(other),
            Some(DefaultValue::None) | None => Value::Null,
        }
    }
}

impl ConfigError {
    /// Where in the file the fault stands; a fault of the whole file stands before its start.
    fn position(&self) -> Position {
        match self {
            ConfigError::File { .. } | ConfigError::TooMany { .. } => Position { line: 0, column: 0 },
            ConfigError::Syntax { at, .. } => *at,
            ConfigError::NotAnObject { place, .. }
            | ConfigError::UnknownKey { place, .. }
            | ConfigError::DuplicateKey { place, .. }
            | ConfigError::WrongType { place, .. }
            | ConfigError::NotAllowed { place, .. }
            | ConfigError::ProtocolNotBuilt { place, .. }
            | ConfigError::Missing { place, .. }
            | ConfigError::BadHost { place, .. }
            | ConfigError::DuplicateReplica { place, .. }
            | ConfigError::DuplicateAddress { place, .. }
            | ConfigError::ReplicaCount { place, .. }
            | ConfigError::RegionCount { place, .. }
            | ConfigError::RegionAndReplicas { place, .. }
            | ConfigError::Contradiction { place, .. } => place.at,
        }
    }
}

/// What an unknown key of `level` was probably meant to be.
fn hint(key: &str, level: Level) -> KeyHint {
    if let Some(spec) = level.keys().find(|spec| spec.is_spelled_in_another_case(key)) {
        return KeyHint::Case(spec.name.to_owned());
    }
    let elsewhere = Level::ALL.into_iter().find(|other| other.keys().any(|spec| spec.is_spelled(key)));
    if let Some(other) = elsewhere {
        return KeyHint::Level(other.whereabouts().to_owned());
    }
    match nearest(key, level.keys().map(|spec| spec.name)) {
        Some(name) => KeyHint::Nearest(name.to_owned()),
        None => KeyHint::Nothing,
    }
}

/// Whether one of the unknown keys among `members` was probably meant to be `key`.
fn misspelt(members: &[Member], key: &str, level: Level) -> bool {
    members.iter().filter(|member| !level.keys().any(|spec| spec.is_spelled(&member.key))).any(
        |member| matches!(hint(&member.key, level), KeyHint::Case(meant) | KeyHint::Nearest(meant) if meant == key),
    )
}

/// A key as an error shows it: escaped, and cut to a length that fits a line.
fn shown_key(key: &str) -> String {
    let quoted = crate::json::quoted(key);
    quoted[1..quoted.len() - 1].to_owned()
}
