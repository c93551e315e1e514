//! Generations whose files were emptied or removed: what a look and an opening say of each.
#![allow(missing_docs, clippy::unwrap_used)]

use quorate_executor::lsm::{LsmOpenError, LsmOptions, LsmStore, generation_path, look_at_generation};
use quorate_executor::{KeyValue, OrderedStore, ReplicatedLimits};
use quorate_framework::Position;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// What is done to the directory of a tree.
type Change<'a> = &'a dyn Fn(&Path);

/// A generation with an entry in a table, closed, and the directory of its tree.
fn generation() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let executor = LsmStore::create(directory.path(), 1, LsmOptions::default(), ReplicatedLimits::default()).unwrap();
    let mut store = executor.into_store();
    store.put(b"key", b"value").unwrap();
    store.commit(Position(1)).unwrap();
    store.persist().unwrap();
    let tree = generation_path(directory.path(), 1).join("lsm");
    (directory, tree)
}

fn open(directory: &Path) -> Result<Position, LsmOpenError> {
    LsmStore::open(directory, 1, LsmOptions::default(), Position::ZERO).map(|(_, report)| report.position)
}

fn empty(path: &Path) {
    assert!(path.exists(), "{}", path.display());
    fs::write(path, "").unwrap();
}

/// The file that lists the tables of the state.
fn list_of_tables(tree: &Path) -> PathBuf {
    let keyspace = tree.join("keyspaces/1");
    let number = fs::read(keyspace.join("current")).unwrap()[..8].try_into().unwrap();
    keyspace.join(format!("v{}", u64::from_le_bytes(number)))
}

#[test]
fn a_file_that_a_tree_cannot_do_without_is_missed_by_a_look_and_an_opening_in_the_same_words() {
    let kinds: [(Change<'_>, &str); 9] = [
        (&|tree| fs::remove_dir_all(tree).unwrap(), "its files are missing"),
        (&|tree| fs::remove_file(tree.join("version")).unwrap(), "lsm/version is missing"),
        (&|tree| empty(&tree.join("version")), "lsm/version is empty"),
        (&|tree| fs::remove_dir_all(tree.join("keyspaces")).unwrap(), "lsm/keyspaces/0/current is missing"),
        (&|tree| fs::remove_file(tree.join("keyspaces/1/current")).unwrap(), "lsm/keyspaces/1/current is missing"),
        (&|tree| fs::write(tree.join("keyspaces/1/current"), "short").unwrap(), "lsm/keyspaces/1/current is cut short"),
        (&|tree| empty(&list_of_tables(tree)), " is empty"),
        (&|tree| fs::remove_file(list_of_tables(tree)).unwrap(), " is missing"),
        (&|tree| fs::write(tree.with_file_name("rebuild"), "a table is damaged").unwrap(), "a table is damaged"),
    ];
    for (change, said) in kinds {
        let (directory, tree) = generation();
        look_at_generation(directory.path(), 1).unwrap();
        change(&tree);
        let looked = look_at_generation(directory.path(), 1).unwrap_err();
        assert!(looked.must_rebuild() && looked.to_string().ends_with(said), "{said}: {looked}");
        assert!(looked.to_string().starts_with("the store's files are damaged: "), "{looked}");
        assert_eq!(open(directory.path()).unwrap_err().to_string(), looked.to_string());
    }
}

#[test]
fn an_empty_table_is_damage_and_no_invalid_argument_alone() {
    let (directory, tree) = generation();
    for entry in fs::read_dir(tree.join("keyspaces/1/tables")).unwrap() {
        empty(&entry.unwrap().path());
    }
    look_at_generation(directory.path(), 1).unwrap();
    let error = open(directory.path()).unwrap_err();
    assert!(error.must_rebuild(), "{error}");
    let said = "the store's files are damaged: a file is empty or cut short (Invalid argument (os error 22))";
    assert_eq!(error.to_string(), said);
}

#[test]
fn a_missing_lock_of_a_tree_is_made_again_since_it_holds_nothing() {
    let (directory, tree) = generation();
    fs::remove_file(tree.join("lock")).unwrap();
    look_at_generation(directory.path(), 1).unwrap();
    assert_eq!(open(directory.path()).unwrap(), Position(1));
    assert!(tree.join("lock").exists());
}
