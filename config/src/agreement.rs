//! What the replicas of a cluster must have in common, as bytes for the handshake to digest and to compare.

use crate::cluster::ClusterConfig;
use std::collections::BTreeMap;

/// Version of the form of the bytes: replicas of another form disagree by it.
const AGREEMENT_VERSION: &str = "1";

impl ClusterConfig {
    /// The bytes of everything that must be equal on all replicas, one `name=value` a line: cluster id, protocol, signature
    /// policy, durability, election timeout, the limits that decide how an entry is applied, and the replicas in the order of
    /// their ids. Spelling and order of the file do not matter, and neither do settings that each replica may choose.
    #[must_use]
    pub fn agreement_digest_input(&self) -> Vec<u8> {
        let settings = self.settings();
        let mut text = String::new();
        let mut line = |name: &str, value: &dyn std::fmt::Display| text.push_str(&format!("{name}={value}\n"));
        line("agreement_version", &AGREEMENT_VERSION);
        line("cluster_id", &self.cluster_id());
        line("consensus", &settings.consensus);
        line("not_need_signature", &settings.not_need_signature);
        line("recovery_enabled", &settings.recovery_enabled);
        line("election_timeout_ms", &settings.election_timeout_ms);
        line("key_size_limit_bytes", &settings.key_size_limit_bytes);
        line("value_size_limit_bytes", &settings.value_size_limit_bytes);
        line("session_table_limit", &settings.session_table_limit);
        line("session_answer_limit_bytes", &settings.session_answer_limit_bytes);
        line("session_window", &settings.session_window);
        let mut replicas: Vec<_> = self.replicas().iter().collect();
        replicas.sort_by_key(|replica| replica.id);
        for replica in replicas {
            line(&format!("replica_{}", replica.id), &replica.peer_address());
        }
        text.into_bytes()
    }
}

/// What two replicas disagree about, given the [agreement bytes](ClusterConfig::agreement_digest_input) of both: one line for
/// each name, with both values. Empty if they agree. The bytes of the other side may be anything.
#[must_use]
pub fn agreement_differences(ours: &[u8], theirs: &[u8]) -> Vec<String> {
    let (ours, theirs) = (lines(ours), lines(theirs));
    let names: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    names
        .into_iter()
        .filter(|name| ours.get(*name) != theirs.get(*name))
        .map(|name| {
            let shown = |side: &BTreeMap<String, String>| side.get(name).map_or("nothing", String::as_str).to_owned();
            format!("{name}: {} here, {} there", shown(&ours), shown(&theirs))
        })
        .collect()
}

fn lines(bytes: &[u8]) -> BTreeMap<String, String> {
    String::from_utf8_lossy(bytes)
        .lines()
        .map(|line| {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            (name.escape_debug().to_string(), value.escape_debug().to_string())
        })
        .collect()
}
