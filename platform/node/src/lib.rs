//! A Quorate replica put together: the driver's turn, its async shell, threads, status.
//!
//! ```text
//! serve ─▶ registry ─▶ Replica<C> ─▶ Shell<C>: wait ─▶ drain lanes ─▶ Driver::turn ─▶ send ─▶ execute ─▶ reply
//!   │                                   │ publishes a snapshot when somebody asks
//!   └─▶ http (a thread of its own) ─▶ StatusBoard
//! ```
//! [`driver`] and [`snapshots::coordinator`] are synchronous and pure, and the simulator drives the same ones; [`shell`] moves bytes and
//! calls the async traits; [`registry`] is the one place where the protocol's type is forgotten; [`mod@serve`] is the whole of a
//! replica's process.

pub mod beginning;
pub mod clock;
pub mod data_directory;
mod descriptors;
pub mod driver;
pub mod durable;
pub mod held_log;
pub mod http;
pub mod listeners;
pub mod process;
pub mod registry;
pub mod replica;
pub mod replicated_settings;
pub mod serve;
pub mod settings;
pub mod shell;
pub mod snapshots;
pub mod state_machine;
pub mod status;

pub use serve::{ServeError, ServeOptions, serve};
