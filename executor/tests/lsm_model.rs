//! The store on disk beside a map that is told the same: reopened, merged and restored anywhere in between.
#![allow(missing_docs, clippy::unwrap_used)]

mod support;

use proptest::prelude::*;
use quorate_executor::lsm::{LsmOptions, LsmStore};
use quorate_executor::snapshot::RestorableStore;
use quorate_executor::{KeyValue, KvExecutor, OrderedStore, Restore};
use quorate_framework::{ClusterId, Position, SnapshotBase};
use std::collections::BTreeMap;
use std::ops::Bound;
use support::files::file;
use support::workload::limits;
use tempfile::TempDir;

const CLUSTER: ClusterId = ClusterId([7; 16]);

/// Small memory tables, so that a few thousand writes reach the files.
fn options() -> LsmOptions {
    LsmOptions { cache_bytes: 1 << 20, memory_table_bytes: 256 << 10, journal_bytes: 64 << 20, ..LsmOptions::default() }
}

/// One step of the model test.
#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Append(Vec<u8>, Vec<u8>),
    Range(Vec<u8>, Vec<u8>),
    Commit,
    Reopen,
    Merge,
    Restore,
}

/// Short keys that meet often, and long ones that differ before or behind the place where they are cut.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let long = (0..3_u8, 64_998..65_003_usize, 0..3_u8).prop_map(|(first, length, last)| {
        let mut key = vec![b'l'; length];
        (key[0], key[length - 1]) = (b'l' + first, b'l' + last);
        key
    });
    let short = prop::collection::vec(prop_oneof![Just(0), Just(b'l'), Just(b'm'), Just(255)], 1..4);
    prop_oneof![3 => short, 1 => long]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let value = || prop::collection::vec(any::<u8>(), 0..2_000);
    let step = prop_oneof![
        20 => (keys(), value()).prop_map(|(key, value)| Step::Put(key, value)),
        10 => keys().prop_map(Step::Delete),
        6 => (keys(), value()).prop_map(|(key, tail)| Step::Append(key, tail)),
        8 => (keys(), keys()).prop_map(|(from, to)| Step::Range(from, to)),
        10 => Just(Step::Commit),
        2 => Just(Step::Reopen),
        1 => Just(Step::Merge),
        1 => Just(Step::Restore),
    ];
    prop::collection::vec(step, 1..120)
}

struct Modelled {
    directory: TempDir,
    generation: u64,
    store: Option<LsmStore>,
    /// What is committed, and that with the open batch.
    committed: BTreeMap<Vec<u8>, Vec<u8>>,
    now: BTreeMap<Vec<u8>, Vec<u8>>,
    applied: u64,
}

impl Modelled {
    fn new() -> Modelled {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let store = LsmStore::create(directory.path(), 1, options(), limits()).expect("a fresh generation");
        let store = Some(store.into_store());
        let (committed, now) = (BTreeMap::new(), BTreeMap::new());
        Modelled { directory, generation: 1, store, committed, now, applied: 0 }
    }

    fn store(&mut self) -> &mut LsmStore {
        self.store.as_mut().expect("open")
    }

    fn commit(&mut self) {
        self.applied += 1;
        let position = Position(self.applied);
        self.store().commit(position).expect("a position that rises");
        self.committed = self.now.clone();
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Put(key, value) => {
                self.store().put(&key, &value).expect("put");
                self.now.insert(key, value);
            }
            Step::Delete(key) => {
                let was_there = self.now.remove(&key).is_some();
                assert_eq!(self.store().delete(&key), Ok(was_there));
            }
            Step::Append(key, tail) => {
                self.store().append(&key, &tail).expect("append");
                self.now.entry(key).or_default().extend(tail);
            }
            Step::Range(from, to) => {
                let (lower, upper) = (Bound::Excluded(&from[..]), Bound::Included(&to[..]));
                let inside = |key: &Vec<u8>| *key > from && *key <= to;
                let expected: Vec<_> = self.now.iter().filter(|(key, _)| inside(key)).collect();
                let found = self.store.as_ref().expect("open").range(lower, upper, usize::MAX).expect("a range");
                assert_eq!(found.iter().map(|(key, value)| (key, value)).collect::<Vec<_>>(), expected);
            }
            Step::Commit => self.commit(),
            Step::Reopen => {
                // The open batch is lost, and nothing else.
                self.store = None;
                let opened = LsmStore::open(self.directory.path(), self.generation, options(), Position::ZERO);
                self.store = Some(opened.expect("opened again").0.into_store());
                self.now = self.committed.clone();
            }
            Step::Merge => {
                self.commit();
                self.store().merge_everything().expect("merged");
            }
            Step::Restore => {
                self.commit();
                self.generation += 1;
                let mut executor = KvExecutor::new(self.store.take().expect("open"), limits());
                let position = Position(self.applied);
                let base = SnapshotBase { position, protocol: vec![1], membership: vec![2] };
                let mut writer = executor.snapshot(CLUSTER, base.clone()).expect("at the executed position");
                let mut bytes = Vec::new();
                while writer.step(executor.store(), 1, &mut bytes).expect("a step").is_none() {}
                let loader = executor.store().fresh(self.generation).expect("a fresh generation");
                let restoring = Restore::begin(file(&bytes), CLUSTER, &base, loader).expect("a snapshot");
                self.store = Some(restoring.finish().expect("restored").0.into_store());
            }
        }
        let applied = Position(self.applied);
        assert_eq!(self.store().applied(), applied);
    }

    fn compare(&self) {
        let store = self.store.as_ref().expect("open");
        let found = store.range(Bound::Unbounded, Bound::Unbounded, usize::MAX).expect("everything");
        assert!(found.iter().map(|(key, value)| (key, value)).eq(self.now.iter()), "all entries, in order");
        for (key, value) in &self.now {
            assert_eq!(store.get(key).expect("get").as_deref(), Some(&value[..]));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_done_to_it_the_store_holds_what_the_model_holds(steps in steps()) {
        let mut modelled = Modelled::new();
        for step in steps {
            modelled.take(step);
        }
        modelled.compare();
        modelled.take(Step::Reopen);
        modelled.compare();
    }
}
