//! The store on disk: a log-structured merge tree, from the crate fjall, in one directory a generation.
//!
//! It is never the authority: what a power cut takes from it the write-ahead log has. Its layout is in `docs/SNAPSHOT-FORMAT.md`, section
//! 6. Entries, session table, limits and position lie in one keyspace and change in one atomic batch, so that what a start finds is the
//! whole state of one moment, whatever reached the disk. All calls block; writes are held up while the tree catches up.

mod damage;
mod figures;
mod generation;
mod handles;
mod journals;
mod keys;
mod loader;
mod mark;
mod open;
mod outline;
mod pending;
mod physical;
mod room;
mod store;
mod write_out;

#[cfg(test)]
mod tests;

pub use figures::LsmFigures;
pub use generation::{generation_path, generations, remove_other_generations};
pub use handles::{LsmPersister, LsmValue, LsmView};
pub use loader::LsmLoader;
pub use open::{LsmOpenError, LsmOptions, OpenReport};
pub use outline::look as look_at_generation;
pub use store::LsmStore;
