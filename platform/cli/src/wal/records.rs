//! Records of each protocol, as lines and as JSON.

use quorate_framework::entry::{EntryKind, decode_group};
use quorate_framework::{Position, RecoverySpec};
use quorate_raft::RaftRecord;
use quorate_recovery::{DumpedRecord, RecordKind};
use quorate_recovery_pbft::{PbftRecord, ViewMode};
use serde_json::{Value, json};

/// A record that can be shown.
pub(super) trait Shown {
    /// One line for people.
    fn line(&self) -> String;

    /// One object for programs.
    fn json(&self) -> Value;
}

impl Shown for DumpedRecord<'_, RaftRecord> {
    fn line(&self) -> String {
        quorate_recovery_raft::describe(self)
    }

    fn json(&self) -> Value {
        placed(self, raft_json)
    }
}

impl Shown for DumpedRecord<'_, PbftRecord> {
    fn line(&self) -> String {
        let what = match (self.kind, self.record) {
            (RecordKind::Seal, _) | (_, None) => "seal".to_owned(),
            (RecordKind::Carried, Some(record)) => format!("carried {}", pbft_text(record)),
            (RecordKind::Protocol, Some(record)) => pbft_text(record),
        };
        let DumpedRecord { file, offset, group, synced_upto, .. } = self;
        format!("{} {offset} group {group} (synced up to {synced_upto}): {what}", file.display())
    }

    fn json(&self) -> Value {
        placed(self, pbft_json)
    }
}

/// A record with its place.
fn placed<S: RecoverySpec>(dumped: &DumpedRecord<'_, S>, record_json: fn(&S) -> Value) -> Value {
    json!({
        "what": "record",
        "file": dumped.file.display().to_string(),
        "offset": dumped.offset,
        "group": dumped.group,
        "synced_upto": dumped.synced_upto,
        "kind": match dumped.kind {
            RecordKind::Protocol => "protocol",
            RecordKind::Carried => "carried",
            RecordKind::Seal => "seal",
        },
        "record": dumped.record.map(record_json),
    })
}

fn raft_json(record: &RaftRecord) -> Value {
    match record {
        RaftRecord::Entries { count, last, chunks } => {
            let first = Position((last.0 + 1).saturating_sub(u64::from(*count)));
            let bytes: usize = chunks.iter().map(bytes::Bytes::len).sum();
            json!({ "type": "entries", "first": first.0, "last": last.0, "bytes": bytes,
                "entries": entries_json(first, *count, chunks) })
        }
        RaftRecord::Truncate { from } => json!({ "type": "truncate", "from": from.0 }),
        RaftRecord::HardState(state) => {
            json!({ "type": "hard_state", "term": state.term.0, "voted_for": state.voted_for.map(|replica| replica.0) })
        }
        RaftRecord::Reset { position, term } => json!({ "type": "reset", "position": position.0, "term": term.0 }),
    }
}

/// The entries one by one; null if they are not such, which the replay refuses as well.
fn entries_json(first: Position, count: u32, chunks: &[bytes::Bytes]) -> Option<Vec<Value>> {
    let entries = decode_group(chunks.concat().into(), count).ok()?;
    let shown = entries.iter().zip(first.0..).map(|(entry, position)| {
        let term = entry.head().first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
        let kind = match entry.kind() {
            EntryKind::Request => "request",
            EntryKind::NoOperation => "no_operation",
            EntryKind::Membership => "membership",
        };
        json!({ "position": position, "term": term, "kind": kind, "payload_bytes": entry.payload().len() })
    });
    Some(shown.collect())
}

fn pbft_text(record: &PbftRecord) -> String {
    match record {
        PbftRecord::ViewState { view, mode: ViewMode::Normal } => format!("view {view}"),
        PbftRecord::ViewState { view, mode: ViewMode::Changing { to } } => format!("view {view}, changing to {to}"),
        PbftRecord::PrePrepare { view, position, body, .. } => {
            format!("pre-prepare {position} in view {view}, {} bytes", body.len())
        }
        PbftRecord::Prepared { view, position, signatures, .. } => {
            format!("prepared {position} in view {view}, {} signatures", signatures.len())
        }
        PbftRecord::Committed { view, position, .. } => format!("committed {position} in view {view}"),
        PbftRecord::StableCheckpoint { position, signatures, .. } => {
            format!("stable checkpoint {position}, {} signatures", signatures.len())
        }
        PbftRecord::ViewChangeSent { to, message } => format!("view change to {to} sent, {} bytes", message.len()),
        PbftRecord::NewView { view, message } => format!("new view {view}, {} bytes", message.len()),
    }
}

fn pbft_json(record: &PbftRecord) -> Value {
    let position = record.position().map(|position| position.0);
    match record {
        PbftRecord::ViewState { view, mode } => {
            let to = if let ViewMode::Changing { to } = mode { Some(to) } else { None };
            json!({ "type": "view_state", "view": view, "changing_to": to })
        }
        PbftRecord::PrePrepare { view, body, .. } => {
            json!({ "type": "pre_prepare", "view": view, "position": position, "bytes": body.len() })
        }
        PbftRecord::Prepared { view, signatures, .. } => {
            json!({ "type": "prepared", "view": view, "position": position, "signatures": signatures.len() })
        }
        PbftRecord::Committed { view, .. } => json!({ "type": "committed", "view": view, "position": position }),
        PbftRecord::StableCheckpoint { signatures, .. } => {
            json!({ "type": "stable_checkpoint", "position": position, "signatures": signatures.len() })
        }
        PbftRecord::ViewChangeSent { to, message } => {
            json!({ "type": "view_change_sent", "to": to, "bytes": message.len() })
        }
        PbftRecord::NewView { view, message } => json!({ "type": "new_view", "view": view, "bytes": message.len() }),
    }
}
