//! The validated configuration of a cluster, and of a template from which clusters are made.

use crate::keys::Settings;
use crate::replica::ReplicaAddress;
use crate::validate::Checked;
use quorate_framework::{ClusterId, ReplicaId};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A cluster: its settings, its identity and its first members. It exists only without faults, and it never changes.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterConfig {
    /// Settings as the file gives them, in its order: what is written again.
    given: Vec<(&'static str, Value)>,
    settings: Settings,
    cluster_id: ClusterId,
    replicas: Vec<ReplicaAddress>,
}

/// Settings without a cluster. Replicas may be among them, for a cluster to be made of the same machines.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateConfig {
    given: Vec<(&'static str, Value)>,
    settings: Settings,
    replicas: Option<Vec<ReplicaAddress>>,
}

/// An id that no replica of the cluster has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("replica id {id} is not in the cluster file; its ids are {}", known_text(known))]
pub struct UnknownReplica {
    /// The id that was asked for.
    pub id: u64,
    /// The ids of the file, in its order.
    pub known: Vec<ReplicaId>,
}

fn known_text(known: &[ReplicaId]) -> String {
    known.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl ClusterConfig {
    /// Takes over what the validator found without fault. Both identity and replicas are there: it required them.
    pub(crate) fn from_checked(checked: Checked) -> ClusterConfig {
        ClusterConfig {
            given: checked.given,
            settings: checked.settings,
            cluster_id: checked.cluster_id.expect("the validator requires it of a cluster"),
            replicas: checked.replicas.expect("the validator requires it of a cluster"),
        }
    }

    /// Puts a cluster together from parts that were checked one by one.
    pub(crate) fn from_parts(template: &TemplateConfig, id: ClusterId, replicas: Vec<ReplicaAddress>) -> ClusterConfig {
        ClusterConfig { given: template.given.clone(), settings: template.settings.clone(), cluster_id: id, replicas }
    }

    /// The effective settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The cluster's identity.
    #[must_use]
    pub fn cluster_id(&self) -> ClusterId {
        self.cluster_id
    }

    /// The first members, in the order of the file; at least one.
    #[must_use]
    pub fn replicas(&self) -> &[ReplicaAddress] {
        &self.replicas
    }

    /// The replica with that number. A number that no replica has is answered with those that there are.
    pub fn replica(&self, id: u64) -> Result<&ReplicaAddress, UnknownReplica> {
        self.replicas
            .iter()
            .find(|replica| u64::from(replica.id.0) == id)
            .ok_or_else(|| UnknownReplica { id, known: self.replicas.iter().map(|replica| replica.id).collect() })
    }

    /// The folder of one replica's data as an absolute path: `replica-ID` in `recovery_path`, which counts from the folder of
    /// `cluster_file` if it is relative. Creates nothing. Fails only if the working directory is gone.
    pub fn data_directory(&self, cluster_file: &Path, id: ReplicaId) -> io::Result<PathBuf> {
        let folder = cluster_file.parent().unwrap_or(Path::new(""));
        std::path::absolute(folder.join(&self.settings.recovery_path).join(format!("replica-{id}")))
    }

    /// Every effective value, defaults included, for start-up messages and results.
    #[must_use]
    pub fn effective_settings(&self) -> Value {
        let mut object: serde_json::Map<String, Value> =
            self.settings.to_values().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        object.insert("cluster_id".to_owned(), self.cluster_id.to_string().into());
        object.insert("replicas".to_owned(), self.replicas.iter().map(replica_json).collect());
        Value::Object(object)
    }

    /// The text of the cluster's file: the settings that were given, the identity, and one line for each replica. Reading it
    /// back gives an equal configuration.
    #[must_use]
    pub fn to_json_pretty(&self) -> String {
        let mut text = String::from("{\n");
        for (key, value) in &self.given {
            text.push_str(&format!("  {}: {value},\n", json!(key)));
        }
        text.push_str(&format!("  \"cluster_id\": \"{}\",\n  \"replicas\": [\n", self.cluster_id));
        for (index, replica) in self.replicas.iter().enumerate() {
            let comma = if index + 1 < self.replicas.len() { "," } else { "" };
            text.push_str(&format!(
                "    {{ \"id\": {}, \"host\": {}, \"port\": {}, \"http_port\": {}, \"resp_port\": {} }}{comma}\n",
                replica.id,
                json!(replica.host),
                replica.port,
                replica.http_port,
                replica.resp_port
            ));
        }
        text.push_str("  ]\n}\n");
        text
    }
}

impl TemplateConfig {
    /// The template of a file without keys: defaults only.
    #[must_use]
    pub fn defaults() -> TemplateConfig {
        crate::load::parse_template("defaults", b"{}").expect("an object without keys has no faults").config
    }

    /// Takes over what the validator found without fault. The identity of another cluster is not taken over.
    pub(crate) fn from_checked(checked: Checked) -> TemplateConfig {
        TemplateConfig { given: checked.given, settings: checked.settings, replicas: checked.replicas }
    }

    /// The effective settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The replicas, if the template names them.
    #[must_use]
    pub fn replicas(&self) -> Option<&[ReplicaAddress]> {
        self.replicas.as_deref()
    }

    /// The settings that the template gives, in its order, under their snake_case names.
    #[must_use]
    pub fn given(&self) -> &[(&'static str, Value)] {
        &self.given
    }
}

fn replica_json(replica: &ReplicaAddress) -> Value {
    json!({
        "id": replica.id.0,
        "host": replica.host,
        "port": replica.port,
        "http_port": replica.http_port,
        "resp_port": replica.resp_port,
    })
}
