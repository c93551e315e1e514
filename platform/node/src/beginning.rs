//! What a replica begins with: what it was before, or nothing.

use crate::durable::load_memory;
use crate::held_log::HeldLog;
use crate::settings::replicated_limits;
use crate::shell::storage::NamedSnapshot;
use crate::snapshots::{Directory, LoadState, RemoveGeneration, Scratch};
use crate::state_machine::{Keeping, LocalMachine};
use quorate_config::Settings;
use quorate_executor::{KvExecutor, MemoryStore};
use quorate_framework::vfs::Vfs;
use quorate_framework::{ClusterId, ExecutedAt, Incarnation, MemberVector, RecoverySpec};
use quorate_recovery::RecoveryReport;
use std::fmt;
use std::io;
use std::sync::Arc;

/// What a replica begins with.
pub struct Beginning<R: RecoverySpec, M> {
    /// Which life of its data this is.
    pub incarnation: Incarnation,
    /// How many times this incarnation was started.
    pub start_counter: u64,
    /// The vector the cluster was formed on, if it was.
    pub members: Option<MemberVector>,
    /// What the protocol starts from.
    pub state: R::State,
    /// The state machine.
    pub machine: M,
    /// Where its state ends.
    pub executed: ExecutedAt,
    /// The log; none with recovery off.
    pub log: Option<HeldLog<R>>,
    /// What was recovered; none with recovery off.
    pub report: Option<RecoveryReport>,
    /// Where snapshots are kept.
    pub snapshots: Directory,
    /// What makes a state machine of a fetched one.
    pub load: LoadState<M>,
    /// What removes a generation of the store that is no longer live.
    pub remove_generation: RemoveGeneration,
    /// The snapshot that the metadata name.
    pub named: Option<NamedSnapshot>,
}

impl<R: RecoverySpec, M> fmt::Debug for Beginning<R, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Beginning")
            .field("incarnation", &self.incarnation)
            .field("start_counter", &self.start_counter)
            .field("executed", &self.executed)
            .finish_non_exhaustive()
    }
}

/// A replica with recovery off: nothing was before, and nothing will be left.
#[must_use]
pub fn in_memory<R: RecoverySpec>(cluster: ClusterId, settings: &Settings) -> Beginning<R, LocalMachine<MemoryStore>> {
    let limits = replicated_limits(settings);
    let executor = KvExecutor::new(MemoryStore::new(), limits);
    let scratch = Scratch::default();
    let open = move || -> io::Result<Box<dyn Vfs>> { Ok(Box::new(scratch.clone())) };
    Beginning {
        incarnation: Incarnation(rand::random()),
        start_counter: 1,
        members: None,
        state: R::State::default(),
        machine: LocalMachine::new(executor, cluster, Keeping::InSnapshots),
        executed: ExecutedAt::default(),
        log: None,
        report: None,
        snapshots: Directory { open: Arc::new(open), keeps_files: false },
        load: load_memory(cluster, limits),
        remove_generation: Arc::new(|_| ()),
        named: None,
    }
}
