//! What the store gives away: values, views, and what syncs it from another thread.

use super::damage;
use super::figures::PersistFigures;
use super::physical::Found;
use super::write_out::write_out;
use crate::store::StoreError;
use fjall::{Database, Keyspace, Snapshot, UserValue};
use quorate_framework::Position;
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// The store as it was at a commit. While it lives the tree keeps old values.
pub struct LsmView(pub(super) Snapshot);

impl fmt::Debug for LsmView {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LsmView")
    }
}

/// A value of the store.
#[derive(Debug)]
pub enum LsmValue<'a> {
    /// Of the open batch.
    Written(&'a [u8]),
    /// Of the tree.
    Stored(UserValue),
}

impl Deref for LsmValue<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            LsmValue::Written(value) => value,
            LsmValue::Stored(value) => value,
        }
    }
}

impl<'a> From<Found<'a>> for LsmValue<'a> {
    fn from(found: Found<'a>) -> LsmValue<'a> {
        match found {
            Found::Pending(value) => LsmValue::Written(value),
            Found::Stored(value) => LsmValue::Stored(value),
        }
    }
}

/// Makes what is committed durable, on any thread: commits may go on meanwhile.
pub struct LsmPersister {
    pub(super) database: Database,
    pub(super) keyspace: Keyspace,
    pub(super) directory: PathBuf,
    pub(super) position: Position,
    pub(super) figures: Arc<PersistFigures>,
}

impl fmt::Debug for LsmPersister {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "LsmPersister {{ position: {} }}", self.position)
    }
}

impl LsmPersister {
    /// Makes everything up to the position at which this was made survive a power cut, in tables, whatever becomes of the journals; gives
    /// that position. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Medium`]; final.
    pub fn persist(self) -> Result<Position, StoreError> {
        let began = Instant::now();
        let written = write_out(&self.database, &self.keyspace);
        written.map_err(|error| damage::failed(&self.directory, &error))?;
        self.figures.persisted(began);
        Ok(self.position)
    }
}
