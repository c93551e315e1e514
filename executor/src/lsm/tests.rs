//! How large the files are that merges make: a large one keeps the device from the log for long.

use super::write_out::write_out;
use super::{LsmOptions, LsmStore};
use crate::ReplicatedLimits;
use crate::store::{KeyValue, OrderedStore};
use fjall::AbstractTree;
use quorate_framework::Position;
use std::time::{Duration, Instant};

/// So many tables of what was written last are left alone by merges.
const UNMERGED: usize = 3;

/// Writes a mebibyte as one table, again and again under the same keys, until nothing is left to be merged; gives the sizes of
/// the tables that merges made.
fn sizes_after_merges(store: &mut LsmStore) -> Vec<u64> {
    for round in 0..8 {
        for key in 0..1_024_u32 {
            store.put(&key.to_be_bytes(), &[round; 1_020]).unwrap();
        }
        store.commit(store.applied().next()).unwrap();
        write_out(&store.tree.database, &store.tree.keyspace).unwrap();
    }
    let keyspace = &store.tree.keyspace;
    let end = Instant::now() + Duration::from_secs(30);
    while keyspace.l0_table_count() > UNMERGED {
        assert!(Instant::now() < end, "nothing is merged");
        // The tree's own thread may be at it already.
        keyspace.tree.compact(keyspace.config.compaction_strategy.clone(), 0).unwrap();
        std::thread::yield_now();
    }
    let tables = keyspace.path().join("tables");
    let of = |id: u64| std::fs::metadata(tables.join(id.to_string())).unwrap().len();
    let version = keyspace.tree.current_version();
    version
        .iter_levels()
        .skip(1)
        .flat_map(|level| level.iter())
        .flat_map(|run| run.iter())
        .map(|t| of(t.id()))
        .collect()
}

#[test]
fn merges_make_files_of_the_size_that_was_ordered_when_the_generation_was_made() {
    assert_eq!(LsmOptions::default().table_bytes, 16 << 20, "for which docs/PERFORMANCE.md has figures");
    let directory = tempfile::tempdir().unwrap();
    let ordered = LsmOptions { table_bytes: 128 << 10, ..LsmOptions::default() };
    let executor = LsmStore::create(directory.path(), 1, ordered, ReplicatedLimits::default()).unwrap();
    let fresh = sizes_after_merges(&mut executor.into_store());
    let (executor, _) = LsmStore::open(directory.path(), 1, LsmOptions::default(), Position::ZERO).unwrap();
    let reopened = sizes_after_merges(&mut executor.into_store());
    for sizes in [fresh, reopened] {
        assert!(sizes.len() >= 8, "{sizes:?}");
        // The last block may go beyond; what follows the blocks comes on top.
        assert!(sizes.iter().all(|size| *size < 160 << 10), "{sizes:?}");
    }
}
