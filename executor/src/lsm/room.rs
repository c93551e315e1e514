//! Room for the next batch, so that the crate never waits inside a commit.
//!
//! With four memory tables set aside, or thirty runs of tables on its first level, a commit of the crate waits until its own thread has
//! written them out or merged them (fjall 3.1.13, `keyspace/mod.rs`, `local_backpressure`). When that thread has failed, as on a full disk,
//! it waits for ever, and whoever waits for the commit with it. So the waiting is done here, before the commit, and ends with an error then.

use super::write_out::write_out_set_aside;
use fjall::{AbstractTree, Database, Keyspace, PersistMode};
use std::thread;
use std::time::Duration;

/// Memory tables set aside from which on they are written out here. Another one may be set aside by the crate's thread while the commit
/// is at it, and one by a checkpoint: still below the four.
const SET_ASIDE: usize = 2;
/// Runs on the first level from which on the crate's thread is waited for. From 20 on the crate slows commits down by itself.
const FIRST_LEVEL_RUNS: usize = 25;
/// How often it is looked whether that thread goes on, or has failed.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Makes room before a commit. Blocks.
///
/// # Errors
/// The crate's, also if its thread has failed.
pub(super) fn make_room(database: &Database, keyspace: &Keyspace) -> Result<(), fjall::Error> {
    if keyspace.tree.sealed_memtable_count() >= SET_ASIDE {
        write_out_set_aside(database, keyspace)?;
    }
    while keyspace.tree.l0_run_count() >= FIRST_LEVEL_RUNS {
        // For its error alone: it knows whether the thread has failed.
        database.persist(PersistMode::Buffer)?;
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
