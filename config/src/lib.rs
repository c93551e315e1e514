//! The JSON configuration of a Quorate cluster: types, limits, validation, schema.
//!
//! One JSON file describes a cluster: settings, the cluster's identity and its first members. A *template* is such a file
//! without identity, and as a rule without members; [`new_cluster`] makes a cluster from it. ResilientDB's keys are accepted
//! under their names, in snake_case and camelCase, with `//` and `/* */` comments; those without effect here yield a [`Note`].
//!
//! Everything wrong with a file is reported at once ([`ConfigErrors`]), each fault with its file, line, JSON path, the value
//! found and what is allowed. Nothing is created or changed by reading and checking.
//!
//! The keys stand in one table (`keys`), from which the validator, the defaults, the typed [`Settings`] and the [`schema`] are
//! made.

mod agreement;
mod choice;
mod cluster;
mod create;
mod error;
mod host;
mod json;
mod keys;
mod load;
mod nearest;
mod note;
mod protocol;
mod replica;
mod schema;
mod validate;
mod write;

pub use agreement::agreement_differences;
pub use choice::{StoreKind, WalSync};
pub use cluster::{ClusterConfig, TemplateConfig, UnknownReplica};
pub use create::{CreateError, Hosts, PortChoice, new_cluster};
pub use error::{ConfigError, ConfigErrors, FileProblem, HostProblem, KeyHint, Place};
pub use json::Position;
pub use keys::Settings;
pub use load::{Accepted, load_cluster, load_template, parse_cluster, parse_template};
pub use note::{Note, NoteKind};
pub use protocol::Protocol;
pub use replica::{PortRole, ReplicaAddress};
pub use schema::schema;
pub use write::{WriteError, write_cluster};
