//! What a check found, as text and as JSON.

use super::Refusal;
use quorate_executor::snapshot::{SnapshotError, SnapshotSummary};
use quorate_node::durable::DurableReason;
use quorate_node::durable::kept_state::{KeptState, generation_name, snapshot_name};
use quorate_recovery::{CheckReport, Metadata, RecoveryError};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

const IN_USE: &str = "a process uses this directory: what it is just writing may look torn, missing or damaged";

fn line(text: &mut String, label: &str, value: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{label:<12} {value}");
}

fn yes_or_no(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

fn sync_name(metadata: &Metadata) -> &'static str {
    if metadata.log_is_synced { "always" } else { "never" }
}

fn settings_text(metadata: &Metadata) -> String {
    let settings = metadata.replicated_settings.iter().map(|(name, value)| format!("{name} {value}"));
    let settings: Vec<String> = settings.collect();
    if settings.is_empty() { "no settings".to_owned() } else { settings.join(", ") }
}

/// What the metadata says.
pub(super) fn metadata_text(metadata: &Metadata) -> String {
    let mut text = String::new();
    line(&mut text, "replica", metadata.identity());
    line(&mut text, "applied by", settings_text(metadata));
    let (incarnation, starts) = (metadata.incarnation, metadata.start_counter);
    line(&mut text, "incarnation", format_args!("{incarnation}, started {starts} times"));
    let members = match &metadata.members {
        None => "none yet: the cluster is forming".to_owned(),
        Some(members) => members.keys().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    line(&mut text, "formed with", members);
    let clean = yes_or_no(metadata.stopped_cleanly);
    line(&mut text, "last run", format_args!("wal_sync {}, stopped cleanly: {clean}", sync_name(metadata)));
    match &metadata.snapshot {
        None => line(&mut text, "snapshot", "none"),
        Some(base) => {
            let generation = metadata.store_generation;
            line(&mut text, "snapshot", format_args!("at position {}, store generation {generation}", base.position));
        }
    }
    text
}

/// What the log holds, and what a start would make of it.
pub(super) fn log_text(found: &CheckReport, is_in_use: bool) -> String {
    let mut text = log_lines(found);
    verdict(&mut text, is_in_use, "a start will accept this log");
    text
}

fn log_lines(found: &CheckReport) -> String {
    let mut text = String::new();
    let CheckReport { records, groups, segments, unused_segments, bytes, .. } = found;
    line(&mut text, "log", format_args!("{records} records in {groups} groups, {bytes} bytes in {segments} segments"));
    line(&mut text, "unused", format_args!("{unused_segments} segments"));
    line(&mut text, "position", format_args!("last {}", found.last_position));
    let (last, vouched) = (found.last_group, found.vouched_group);
    line(&mut text, "groups", format_args!("last {last}, known to be synced up to {vouched}"));
    let torn = match found.torn_bytes {
        0 => "none".to_owned(),
        bytes => format!("{bytes} bytes, never known to be synced: a start will cut them"),
    };
    line(&mut text, "torn tail", torn);
    found.anomalies.iter().for_each(|anomaly| line(&mut text, "odd", anomaly));
    text
}

fn verdict(text: &mut String, is_in_use: bool, sound: &str) {
    if is_in_use {
        line(text, "note", IN_USE);
    }
    line(text, "sound", format_args!("yes: {sound}"));
}

/// All of a check.
pub(super) fn text(found: &CheckReport, state: Option<&KeptState>, is_in_use: bool) -> String {
    let mut text = metadata_text(&found.metadata) + &log_lines(found);
    let mut sound = "a start will accept this log";
    if let Some(generation) = state.and_then(|state| state.generation) {
        let name = generation_name(generation);
        line(
            &mut text,
            "state",
            format_args!("{} is there with the files it needs; what they hold is not checked here", name.display()),
        );
        sound = "a start will accept this log; what the store's files hold was not checked";
    }
    if let Some(snapshot) = state.and_then(|state| state.snapshot) {
        let name = snapshot_name(snapshot.position);
        let SnapshotSummary { entries, sessions, answers, file_bytes, .. } = snapshot;
        let held = format!("{entries} entries, {sessions} sessions, {answers} answers, {file_bytes} bytes");
        line(&mut text, "state", format_args!("{}: {held}, whole", name.display()));
        sound = "a start will accept this log and this snapshot";
    }
    verdict(&mut text, is_in_use, sound);
    text
}

fn metadata_json(metadata: &Metadata) -> Map<String, Value> {
    let members = metadata.members.as_ref().map(|members| {
        let member = |(id, incarnation): (&quorate_framework::ReplicaId, &quorate_framework::Incarnation)| {
            json!({ "id": id.0, "incarnation": incarnation.to_string() })
        };
        members.iter().map(member).collect::<Vec<Value>>()
    });
    let fields = json!({
        "cluster_id": metadata.cluster.to_string(),
        "replica": metadata.replica.0,
        "protocol": metadata.protocol,
        "replicated_settings": metadata.replicated_settings,
        "incarnation": metadata.incarnation.to_string(),
        "start_counter": metadata.start_counter,
        "members": members,
        "snapshot_position": metadata.snapshot.as_ref().map(|base| base.position.0),
        "store_generation": metadata.store_generation,
        "log_exists": metadata.log_exists,
        "first_group": metadata.first_group,
        "wal_sync": sync_name(metadata),
        "stopped_cleanly": metadata.stopped_cleanly,
    });
    object(fields)
}

fn log_json(found: &CheckReport, is_in_use: bool) -> Map<String, Value> {
    let fields = json!({
        "sound": true,
        "in_use": is_in_use,
        "records": found.records,
        "groups": found.groups,
        "segments": found.segments,
        "unused_segments": found.unused_segments,
        "bytes": found.bytes,
        "last_group": found.last_group,
        "vouched_group": found.vouched_group,
        "last_position": found.last_position.0,
        "torn_bytes": found.torn_bytes,
        "anomalies": found.anomalies,
    });
    object(fields)
}

fn object(value: Value) -> Map<String, Value> {
    if let Value::Object(fields) = value { fields } else { Map::new() }
}

fn named(what: &str, mut fields: Map<String, Value>) -> String {
    fields.insert("what".to_owned(), what.into());
    format!("{}\n", Value::Object(fields))
}

/// Null if the metadata name no state; the log then holds all of it.
fn state_json(state: Option<&KeptState>) -> Value {
    let Some(KeptState { snapshot, generation }) = state else { return Value::Null };
    let snapshot = snapshot.map(|snapshot| {
        json!({
            "file": snapshot_name(snapshot.position).display().to_string(),
            "position": snapshot.position.0,
            "entries": snapshot.entries,
            "sessions": snapshot.sessions,
            "answers": snapshot.answers,
            "bytes": snapshot.file_bytes,
        })
    });
    let store = generation.map(
        |generation| json!({ "directory": generation_name(generation).display().to_string(), "files_checked": false }),
    );
    json!({ "snapshot": snapshot, "store": store })
}

/// All of a check as one object.
pub(super) fn json(found: &CheckReport, state: Option<&KeptState>, is_in_use: bool) -> Value {
    let mut fields = log_json(found, is_in_use);
    fields.insert("metadata".to_owned(), metadata_json(&found.metadata).into());
    fields.insert("state".to_owned(), state_json(state));
    Value::Object(fields)
}

fn refused_json(refusal: &Refusal, is_in_use: bool) -> Map<String, Value> {
    let place = match refusal {
        Refusal::Recovery(
            RecoveryError::Damaged { file, offset, .. }
            | RecoveryError::Record { file, offset, .. }
            | RecoveryError::Replay { file, offset, .. },
        ) => Some((file.display().to_string(), *offset)),
        Refusal::State(DurableReason::Snapshot { position, error: SnapshotError::Damaged { offset, .. } }) => {
            Some((snapshot_name(*position).display().to_string(), *offset))
        }
        _ => None,
    };
    object(json!({
        "sound": false,
        "in_use": is_in_use,
        "error": refusal.text(),
        "file": place.as_ref().map(|(file, _)| file),
        "offset": place.as_ref().map(|(_, offset)| offset),
    }))
}

/// Why there is no report, as one object.
pub(super) fn refused(refusal: &Refusal, is_in_use: bool) -> Value {
    Value::Object(refused_json(refusal, is_in_use))
}

/// The first line of a dump.
pub(super) fn metadata_line(metadata: &Metadata) -> String {
    named("metadata", metadata_json(metadata))
}

/// The last line of a dump of a whole log.
pub(super) fn end_line(found: &CheckReport, is_in_use: bool) -> String {
    named("end", log_json(found, is_in_use))
}

/// The last line of a dump of a damaged log.
pub(super) fn refused_line(refusal: &Refusal, is_in_use: bool) -> String {
    named("end", refused_json(refusal, is_in_use))
}
