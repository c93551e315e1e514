//! Opening a generation and making a new one.

use super::damage::{self, in_words, is_damage};
use super::generation::{generation_path, sync_directory};
use super::journals;
use super::keys;
use super::mark::{self, Mark};
use super::outline::{self, KEYSPACES_DIRECTORY, TREE_DIRECTORY};
use super::physical::Source;
use super::store::{LsmStore, Tree};
use crate::executor::KvExecutor;
use crate::replicated_limits::ReplicatedLimits;
use crate::session::{RecordError, SessionStamps, SessionTable, StoredSessions};
use crate::store::OrderedStore;
use fjall::compaction::Leveled;
use fjall::{Database, KeyspaceCreateOptions, LsmError};
use quorate_framework::{ClusterId, Position, next_step};
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// The one keyspace.
const KEYSPACE: &str = "state";

/// Whose state it is, and how much memory and disk the tree may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LsmOptions {
    /// The cluster. A store of another one is not opened.
    pub cluster: ClusterId,
    /// Cache of blocks read from disk, in bytes.
    pub cache_bytes: u64,
    /// A memory table becomes a file at this size, in bytes; some may wait for that at the same time.
    pub memory_table_bytes: u64,
    /// Journals on disk at most, in bytes; at least 64 MiB.
    pub journal_bytes: u64,
    /// A merge begins another file at this size, in bytes. A file is synced when it is complete: large ones keep the device busy for long,
    /// and what waits for it meanwhile, a sync of the log above all.
    pub table_bytes: u64,
}

impl Default for LsmOptions {
    fn default() -> LsmOptions {
        LsmOptions {
            cluster: ClusterId::default(),
            cache_bytes: 8 << 20,
            memory_table_bytes: 8 << 20,
            journal_bytes: 128 << 20,
            table_bytes: 16 << 20,
        }
    }
}

/// What was found when a generation was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenReport {
    /// The position whose state it holds.
    pub position: Position,
    /// Keys, estimated.
    pub entries: u64,
    /// Sessions.
    pub sessions: u64,
    /// Stored answers.
    pub answers: u64,
    /// Bytes on disk.
    pub disk_bytes: u64,
}

/// A generation cannot be opened or made.
#[derive(Debug, Error)]
pub enum LsmOpenError {
    /// Its files are damaged or missing. Opening this generation again gives the same: the state must come from the log or a snapshot,
    /// into a fresh one.
    #[error("the store's files are damaged: {reason}")]
    Damaged {
        /// What is wrong.
        reason: String,
    },
    /// It is sound but lacks what the log no longer has. To be rebuilt as well.
    #[error("the store ends at {applied}, and the log begins after {needed}")]
    Behind {
        /// The position of its state.
        applied: Position,
        /// The least position from which the log goes on.
        needed: Position,
    },
    /// It is another cluster's.
    #[error("the store belongs to cluster {found}, not to {expected}: put the directories right")]
    Foreign {
        /// Whose it is.
        found: ClusterId,
        /// Who asks.
        expected: ClusterId,
    },
    /// It was written by another version of this program.
    #[error(
        "the store has format version {found}, this program reads version {known}: use the version of this program that wrote it"
    )]
    OtherVersion {
        /// Its version.
        found: u32,
        /// The one that is understood.
        known: u32,
    },
    /// Another process has it open.
    #[error("the store is in use by another process; stop that one first")]
    InUse,
    /// The limits allow keys that this store cannot hold.
    #[error("the store holds keys of at most {limit} bytes; the cluster allows {given}")]
    KeysTooLong {
        /// What the cluster allows, in bytes.
        given: u32,
        /// What the store holds, in bytes.
        limit: usize,
    },
    /// The disk or the operating system failed.
    #[error("the store cannot be opened: {}; {}", .0, next_step(.0))]
    Io(#[from] io::Error),
    /// The tree failed in a way that says nothing of its files.
    #[error("the store cannot be opened: {0}")]
    Failed(String),
}

impl LsmOpenError {
    /// Whether the way on is a fresh generation, filled from a snapshot and the log.
    #[must_use]
    pub fn must_rebuild(&self) -> bool {
        matches!(self, LsmOpenError::Damaged { .. } | LsmOpenError::Behind { .. })
    }

    pub(super) fn damaged(reason: impl Into<String>) -> LsmOpenError {
        LsmOpenError::Damaged { reason: reason.into() }
    }

    fn of_tree(error: fjall::Error) -> LsmOpenError {
        match error {
            fjall::Error::Locked => LsmOpenError::InUse,
            error if is_damage(&error) => LsmOpenError::damaged(in_words(&error)),
            fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)) => LsmOpenError::Io(error),
            error => LsmOpenError::Failed(in_words(&error)),
        }
    }

    /// Of a tree that was made before. The crate reads the end of each file first, and what is shorter than that is an invalid argument to
    /// the operating system.
    fn of_opening(error: fjall::Error) -> LsmOpenError {
        match LsmOpenError::of_tree(error) {
            LsmOpenError::Io(error) if error.kind() == ErrorKind::InvalidInput => {
                LsmOpenError::damaged(format!("a file is empty or cut short ({error})"))
            }
            other => other,
        }
    }
}

fn open_database(directory: &Path, options: LsmOptions) -> Result<Database, fjall::Error> {
    Database::builder(directory.join(TREE_DIRECTORY))
        .cache_size(options.cache_bytes)
        .max_journaling_size(options.journal_bytes)
        .worker_threads(1)
        .open()
}

/// An empty tree in a directory that must not exist.
pub(super) fn create_tree(
    data_directory: &Path,
    generation: u64,
    options: LsmOptions,
    limits: &ReplicatedLimits,
) -> Result<Tree, LsmOpenError> {
    if limits.key_bytes as usize > keys::KEY_BYTES_MAX {
        return Err(LsmOpenError::KeysTooLong { given: limits.key_bytes, limit: keys::KEY_BYTES_MAX });
    }
    let directory = generation_path(data_directory, generation);
    std::fs::create_dir(&directory)?;
    let database = open_database(&directory, options).map_err(LsmOpenError::of_tree)?;
    let merges = Arc::new(Leveled::default().with_table_target_size(options.table_bytes));
    let settings = || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(options.memory_table_bytes)
            .compaction_strategy(Arc::clone(&merges) as Arc<_>)
    };
    let keyspace = database.keyspace(KEYSPACE, settings).map_err(LsmOpenError::of_tree)?;
    Ok(Tree { directory, options, database, keyspace })
}

/// Makes the names of a generation durable. The crate does not sync the directory in which it makes those of its keyspaces.
pub(super) fn sync_names(directory: &Path) -> io::Result<()> {
    let tree = directory.join(TREE_DIRECTORY);
    sync_directory(&tree.join(KEYSPACES_DIRECTORY))?;
    sync_directory(&tree)?;
    sync_directory(directory)?;
    directory.parent().map_or(Ok(()), sync_directory)
}

fn open_tree(data_directory: &Path, generation: u64, options: LsmOptions) -> Result<Tree, LsmOpenError> {
    let directory = generation_path(data_directory, generation);
    outline::look(data_directory, generation)?;
    let tree = directory.join(TREE_DIRECTORY);
    journals::empty(&tree).map_err(LsmOpenError::of_tree)?;
    let database = open_database(&directory, options).map_err(LsmOpenError::of_opening)?;
    if !database.keyspace_exists(KEYSPACE) {
        return Err(LsmOpenError::damaged("its keyspace is missing"));
    }
    let keyspace = database.keyspace(KEYSPACE, KeyspaceCreateOptions::default).map_err(LsmOpenError::of_opening)?;
    Ok(Tree { directory, options, database, keyspace })
}

impl LsmStore {
    /// An executor over a fresh, empty generation, before the first position. Synced when it returns. Blocks.
    ///
    /// # Errors
    /// [`LsmOpenError`]; [`LsmOpenError::Io`] also if the generation exists.
    pub fn create(
        data_directory: &Path,
        generation: u64,
        options: LsmOptions,
        limits: ReplicatedLimits,
    ) -> Result<KvExecutor<LsmStore>, LsmOpenError> {
        let tree = create_tree(data_directory, generation, options, &limits)?;
        let mark = Mark::first(options.cluster, limits);
        let mut store = LsmStore::new(tree, mark, SessionStamps::starting_at(0));
        store.write_mark().map_err(|error| LsmOpenError::Failed(error.to_string()))?;
        store.persist().map_err(|error| LsmOpenError::Failed(error.to_string()))?;
        sync_names(store.directory())?;
        Ok(KvExecutor::new(store, limits))
    }

    /// An executor over the state that a generation holds; the log must go on at the latest after `needed`. Its limits are those it
    /// holds. Blocks; reads the session table, not the entries.
    ///
    /// # Errors
    /// [`LsmOpenError`].
    pub fn open(
        data_directory: &Path,
        generation: u64,
        options: LsmOptions,
        needed: Position,
    ) -> Result<(KvExecutor<LsmStore>, OpenReport), LsmOpenError> {
        let tree = open_tree(data_directory, generation, options)?;
        let pending = super::pending::Pending::default();
        let source = Source::Now { keyspace: &tree.keyspace, pending: &pending };
        let found = source.get(&keys::MARK).map_err(|error| tree_failed(&tree, error))?;
        if let Some(found) = found.as_ref().and_then(|found| Mark::version(found.bytes()))
            && found != mark::VERSION
        {
            return Err(LsmOpenError::OtherVersion { found, known: mark::VERSION });
        }
        let mark = found.as_ref().and_then(|found| Mark::decode(found.bytes()));
        let mark = mark.ok_or_else(|| LsmOpenError::damaged("it does not say which state it holds"))?;
        if mark.cluster != options.cluster {
            return Err(LsmOpenError::Foreign { found: mark.cluster, expected: options.cluster });
        }
        if mark.position < needed {
            return Err(LsmOpenError::Behind { applied: mark.position, needed });
        }
        let (sessions, stamps, answers) = read_sessions(&tree, &source, mark.next_stamp)?;
        let store = LsmStore::new(tree, mark, stamps);
        let report = OpenReport {
            position: mark.position,
            entries: store.keys(),
            sessions: sessions.len() as u64,
            answers,
            disk_bytes: store.figures().disk_bytes,
        };
        Ok((KvExecutor::restore(store, sessions, mark.limits, mark.block), report))
    }
}

fn tree_failed(tree: &Tree, error: fjall::Error) -> LsmOpenError {
    damage::failed(&tree.directory, &error);
    LsmOpenError::of_tree(error)
}

/// Why the records of sessions cannot be read.
enum Unreadable {
    Record(RecordError),
    Key,
}

/// The session table, its stamps, and how many answers it has.
fn read_sessions(
    tree: &Tree,
    source: &Source<'_>,
    next_stamp: u64,
) -> Result<(SessionTable, SessionStamps, u64), LsmOpenError> {
    let mut stored = StoredSessions::default();
    let mut answers = 0;
    for prefix in [keys::SESSIONS, keys::ANSWERS] {
        let mut unreadable = None;
        let (from, to) = keys::all(prefix);
        let scanned = source.scan(from, to, &mut |key, value| {
            let read = match keys::read_session(&key[1..]) {
                Some((id, [])) if prefix == keys::SESSIONS => stored.session(id, value).map_err(Unreadable::Record),
                Some((id, rest)) if prefix == keys::ANSWERS && rest.len() == 8 => {
                    answers += 1;
                    let sequence = rest.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
                    stored.answer(id, sequence, value).map_err(Unreadable::Record)
                }
                _ => Err(Unreadable::Key),
            };
            unreadable = read.err();
            if unreadable.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let _ = scanned.map_err(|error| tree_failed(tree, error))?;
        match unreadable {
            Some(Unreadable::Record(error)) => return Err(LsmOpenError::damaged(error.to_string())),
            Some(Unreadable::Key) => return Err(LsmOpenError::damaged("a key among the sessions has no meaning")),
            None => {}
        }
    }
    let (table, stamps) = stored.finish(next_stamp).map_err(|error| LsmOpenError::damaged(error.to_string()))?;
    Ok((table, stamps, answers))
}
