//! Rules between two settings: what cannot work is a fault, what works poorly is a warning.

use super::Validator;
use crate::error::ConfigError;
use crate::note::NoteKind;
use quorate_framework::limits;

/// Below this many heartbeats in an election timeout one lost message is enough for an election.
const HEARTBEATS_PER_ELECTION_TIMEOUT_GOOD: u64 = 5;
/// Room for the headers of a frame around a key and a value, in bytes.
const HEADER_ROOM_BYTES: u64 = 64 << 10;

impl Validator<'_> {
    pub(super) fn check_relations(&mut self) {
        self.check_elections();
        self.check_sizes();
        self.check_load();
        self.check_recovery();
    }

    fn check_elections(&mut self) {
        if let Some([election, heartbeat]) = self.numbers(["election_timeout_ms", "heartbeat_interval_ms"]) {
            let keys = ["election_timeout_ms", "heartbeat_interval_ms"];
            let values = format!("election_timeout_ms is {election}, heartbeat_interval_ms is {heartbeat}");
            if election < 2 * heartbeat {
                self.contradiction(
                    keys,
                    format!("the election timeout must be at least twice the heartbeat; {values}"),
                );
            } else if election < HEARTBEATS_PER_ELECTION_TIMEOUT_GOOD * heartbeat {
                let rule = format!(
                    "fewer than {HEARTBEATS_PER_ELECTION_TIMEOUT_GOOD} heartbeats in an election timeout make needless elections likely; {values}"
                );
                self.warning(keys, rule);
            }
        }
        let keys = ["raft_follower_batch_timeout_ms", "election_timeout_ms"];
        if let Some([linger, election]) = self.numbers(keys)
            && linger >= election
        {
            self.contradiction(
                keys,
                format!("raft_follower_batch_timeout_ms {linger} must be below election_timeout_ms {election}"),
            );
        }
        let keys = ["disk_stall_timeout_ms", "election_timeout_ms"];
        if let Some([stall, election]) = self.numbers(keys)
            && stall < 2 * election
        {
            let rule = format!(
                "disk_stall_timeout_ms {stall} is less than twice election_timeout_ms {election}, so a slow disk passes for a hung one"
            );
            self.warning(keys, rule);
        }
        let keys = ["reconnect_backoff_ms_min", "reconnect_backoff_ms_max"];
        if let Some([least, most]) = self.numbers(keys)
            && least > most
        {
            let rule = format!("reconnect_backoff_ms_min {least} is above reconnect_backoff_ms_max {most}");
            self.contradiction(keys, rule);
        }
        if self.given_value("not_need_signature") == Some(&false.into()) {
            let text = "the messages of Raft are not signed here, although not_need_signature is false".to_owned();
            self.warning(["not_need_signature"], text);
        }
    }

    fn check_sizes(&mut self) {
        self.check_at_least("max_in_flight_bytes_per_follower", "max_append_bytes", "one append must fit its window");
        self.check_at_least(
            "log_memory_limit_bytes",
            "max_in_flight_bytes_per_follower",
            "what is in flight must be in the log",
        );
        let keys = ["value_size_limit_bytes", "key_size_limit_bytes"];
        let Some([value, key]) = self.numbers(keys) else { return };
        let entry = value + key + HEADER_ROOM_BYTES;
        let payload = limits::PAYLOAD_BYTES as u64;
        if entry > payload {
            let rule = format!(
                "value_size_limit_bytes {value} and key_size_limit_bytes {key} with headers exceed a payload of {payload} bytes"
            );
            self.contradiction(keys, rule);
        }
        for limit in ["log_memory_limit_bytes", "client_admission_bytes"] {
            let keys = [limit, "value_size_limit_bytes", "key_size_limit_bytes"];
            if let Some([room, _, _]) = self.numbers(keys)
                && room < entry
            {
                let rule = format!(
                    "{limit} {room} has no room for one entry with the largest key and value, which takes {entry} bytes with headers"
                );
                self.contradiction(keys, rule);
            }
        }
    }

    fn check_at_least(&mut self, larger: &'static str, smaller: &'static str, why: &str) {
        if let Some([large, small]) = self.numbers([larger, smaller])
            && large < small
        {
            self.contradiction([larger, smaller], format!("{larger} {large} is below {smaller} {small}; {why}"));
        }
    }

    fn check_load(&mut self) {
        let keys = ["max_process_txn", "client_admission_frames"];
        if let Some([window, admission]) = self.numbers(keys)
            && window > admission
        {
            let rule = format!(
                "max_process_txn {window} is above client_admission_frames {admission}, so a full window is answered with Busy"
            );
            self.warning(keys, rule);
        }
        let replicas = self.replicas.as_ref().map_or(0, Vec::len) as u64;
        if let Some([connections]) = self.numbers(["max_connections"])
            && connections <= replicas
        {
            let rule = format!("max_connections {connections} leaves no room for clients beside {replicas} replicas");
            self.contradiction(["max_connections"], rule);
        }
    }

    fn check_recovery(&mut self) {
        if self.given_value("recovery_enabled") != Some(&false.into()) {
            return;
        }
        let durable_only = [
            "recovery_path",
            "recovery_ckpt_time_s",
            "checkpoint_transactions",
            "checkpoint_log_bytes",
            "wal_sync",
            "wal_flush_wait_us",
            "wal_flush_batch",
            "wal_segment_bytes",
            "disk_stall_timeout_ms",
        ];
        for key in durable_only {
            if let (Some(at), Some(_)) = (self.positions.get(key).copied(), self.given_value(key)) {
                let text = "the key has no effect here: recovery_enabled is false".to_owned();
                self.note(at, &format!("$.{key}"), NoteKind::NoEffect, text);
            }
        }
    }

    fn given_value(&self, key: &str) -> Option<&serde_json::Value> {
        self.given.iter().find(|(given, _)| *given == key).map(|(_, value)| value)
    }

    /// The effective values of `keys`, unless one of them was refused: then a rule would speak about a value nobody wrote.
    fn numbers<const COUNT: usize>(&self, keys: [&'static str; COUNT]) -> Option<[u64; COUNT]> {
        let mut numbers = [0; COUNT];
        for (number, key) in numbers.iter_mut().zip(keys) {
            if self.refused.contains(key) {
                return None;
            }
            *number = self.effective(key).as_u64()?;
        }
        Some(numbers)
    }

    fn contradiction<const COUNT: usize>(&mut self, keys: [&'static str; COUNT], rule: String) {
        let (at, key) = self.first_given(keys);
        let place = self.place(at, &format!("$.{key}"));
        let found = self.effective(key).to_string();
        self.fail(ConfigError::Contradiction { place, found, rule });
    }

    fn warning<const COUNT: usize>(&mut self, keys: [&'static str; COUNT], text: String) {
        let (at, key) = self.first_given(keys);
        self.note(at, &format!("$.{key}"), NoteKind::Warning, text);
    }

    /// The first of `keys` that stands in the file. Defaults alone break no rule, so there is one.
    fn first_given<const COUNT: usize>(&self, keys: [&'static str; COUNT]) -> (crate::json::Position, &'static str) {
        keys.into_iter()
            .find_map(|key| self.positions.get(key).map(|at| (*at, key)))
            .unwrap_or((crate::json::Position { line: 1, column: 1 }, keys[0]))
    }
}
