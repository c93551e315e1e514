//! What makes a checkpoint of the tree: its memory tables become files.

use fjall::{AbstractTree, Database, Keyspace, PersistMode};

/// Writes out everything that is committed; when this returns it stands in tables that survive a power cut, and no journal is
/// needed for it. Blocks. Commits go on meanwhile, but for the moments in which the crate names the new table.
///
/// The crate syncs in this order (lsm-tree 3.1.10): the table and the directory of tables (`table/writer/mod.rs`, `finish`), the
/// file that lists the tables and its directory (`version/persist.rs`), and the file that names that list, which it replaces by
/// renaming (`file.rs`, `rewrite_atomic`).
///
/// It is done here and not by the tree's own thread, which may be at a long merge, and whose failures nobody would hear of. That
/// thread finds nothing left to do then.
///
/// # Errors
/// The crate's, also if that thread has failed before.
pub(super) fn write_out(database: &Database, keyspace: &Keyspace) -> Result<(), fjall::Error> {
    // For its error alone: the crate's thread fails in silence, and then says so here. Nothing is synced by it.
    database.persist(PersistMode::Buffer)?;
    // Between two batches, never inside one: both hold the journal meanwhile.
    keyspace.rotate_memtable()?;
    write_out_set_aside(database, keyspace)
}

/// Writes out the memory tables that were set aside, and syncs as [`write_out`] does. Blocks.
///
/// # Errors
/// The crate's.
pub(super) fn write_out_set_aside(database: &Database, keyspace: &Keyspace) -> Result<(), fjall::Error> {
    let turn = keyspace.tree.get_flush_lock();
    let oldest_read = database.supervisor.snapshot_tracker.get_seqno_safe_to_gc();
    keyspace.tree.flush(&turn, oldest_read)?;
    Ok(())
}
