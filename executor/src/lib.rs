//! The key-value state machine: commands, sessions, ordered stores, overlays, digests.

pub mod command;
mod lengths;
pub mod result;

pub use command::{Command, CommandWriter, Commands, MalformedBody};
pub use result::{CommandResult, CommandResults, ResultValue};
