//! Snapshots of the world: taken in steps, moved in chunks over the network, loaded and installed.

use super::World;
use super::storage::digest_of;
use crate::event::Happening;
use crate::fault::About;
use crate::oracle::Violation;
use crate::plan::CrashMode;
use crate::protocol::SimulatedProtocol;
use crate::snapshots::{ChunkWanted, Errand, Served};
use quorate_executor::SnapshotName;
use quorate_framework::vfs::Vfs;
use quorate_framework::{Position, ReplicaId, SnapshotBase, SnapshotId};
use quorate_node::driver::SnapshotTask;
use quorate_node::shell::storage::NamedSnapshot;
use quorate_node::snapshots::coordinator::NamingOrder;
use quorate_recovery::{MetadataChange, Submission};
use std::time::Duration;

/// Between two pieces of a snapshot that is written.
const PIECE_TIME: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));
/// Time to check and load a snapshot.
const LOAD_TIME: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(20));
/// How long a chunk is waited for before it is asked for again.
const CHUNK_PATIENCE: Duration = Duration::from_millis(300);
/// Snapshot files of a replica at most: the one that is named, two changes on their way, one being written, one being fetched under
/// either of its names, and one that a loader which was given up has renamed.
const SNAPSHOT_FILES: usize = 7;

impl<P: SimulatedProtocol> World<P> {
    pub(super) fn carry_out_tasks(&mut self, replica: ReplicaId) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica) else { return };
        let Some(running) = process.running.as_mut() else { return };
        let tasks = std::mem::take(&mut running.output.tasks);
        for task in &tasks {
            match task {
                SnapshotTask::Offer { .. } => self.coverage.count("snapshot: asked for"),
                SnapshotTask::ForgetLog(_) => self.coverage.count("snapshot: log forgotten"),
                SnapshotTask::Cancel => self.coverage.count("snapshot: fetch cancelled"),
                SnapshotTask::Withdraw(_) | SnapshotTask::Fetch { .. } => {}
            }
            let members = running.driver.forming().vector();
            running.snapshots.task(now, task, |peer| members.and_then(|members| members.get(&peer).copied()));
        }
        if !tasks.is_empty() {
            self.has_lost_power(replica);
        }
    }

    /// Names in the metadata what is to be named.
    pub(super) fn name_snapshots(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        while let Some(running) = self.running_mut(replica) {
            let driver = &mut running.driver;
            let order = running.snapshots.submit_naming(|| driver.issue_ticket());
            let Some(NamingOrder { ticket, snapshot }) = order else { break };
            let NamedSnapshot { base, store_generation, released } = snapshot;
            let change = MetadataChange::Snapshot { base, store_generation, released };
            self.submit_one(replica, Submission::metadata(ticket, change))?;
        }
        Ok(())
    }

    pub(super) fn take_snapshot(&mut self, replica: ReplicaId, base: SnapshotBase) -> Result<(), Violation> {
        let Some(running) = self.running_mut(replica) else { return Ok(()) };
        if running.snapshots.coordinator().take().view { self.begin_snapshot(replica, base) } else { Ok(()) }
    }

    /// Peers may wait for a snapshot that the protocol has not ordered.
    pub(super) fn remake_snapshot(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        let Some(running) = self.running_mut(replica) else { return Ok(()) };
        let at_rest = running.output.commands.is_empty().then(|| running.executor.executed());
        match running.snapshots.after_turn(!running.output.orders.is_empty(), at_rest) {
            Some(base) => {
                self.coverage.count("snapshot: made again for a peer");
                self.begin_snapshot(replica, base)
            }
            None => Ok(()),
        }
    }

    fn begin_snapshot(&mut self, replica: ReplicaId, base: SnapshotBase) -> Result<(), Violation> {
        let now = self.now;
        let Some(running) = self.running_mut(replica) else { return Ok(()) };
        let (position, digest) = digest_of(&mut running.executor)?;
        let begun = running.snapshots.begin(now, &mut running.executor, base);
        self.compare_digest(replica, position, digest)?;
        if self.has_lost_power(replica) {
            return Ok(());
        }
        begun.map_err(|error| Violation::new("executor", format!("replica {replica}: {error}")))?;
        self.coverage.count("snapshot: begun");
        Ok(())
    }

    /// Puts what snapshots need next on the agenda.
    pub(super) fn go_on_with_snapshots(&mut self, replica: ReplicaId) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica) else { return };
        let piece_time = process.random.duration_between(PIECE_TIME.0, PIECE_TIME.1);
        let load_time = process.random.duration_between(LOAD_TIME.0, LOAD_TIME.1);
        let life = process.life;
        let Some(running) = process.running.as_mut() else { return };
        if running.snapshots.coordinator().is_writing() && !running.is_writing_snapshot {
            running.is_writing_snapshot = true;
            self.agenda.add(now + piece_time, Happening::SnapshotStep(replica, life));
        }
        for errand in running.snapshots.take_errands() {
            match errand {
                Errand::Pull(id) => {
                    self.coverage.count("snapshot: fetch begun");
                    self.agenda.add(now, Happening::Fetch(replica, life, id));
                }
                Errand::Load(id) => self.agenda.add(now + load_time, Happening::Load(replica, life, id)),
            }
        }
        if running.snapshots.coordinator().has_news() {
            self.wake(replica);
        }
    }

    pub(super) fn snapshot_step(&mut self, replica: ReplicaId, life: u64) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica).filter(|process| process.life == life) else { return };
        let works_at = process.disk_works_at(now);
        if works_at > now {
            return self.agenda.add(works_at, Happening::SnapshotStep(replica, life));
        }
        if process.running.as_ref().is_some_and(|running| running.snapshots.is_nearly_written()) {
            process.arm(About::Checkpoint);
        }
        let Some(running) = process.running.as_mut() else { return };
        running.is_writing_snapshot = false;
        let serves = running.snapshots.is_serving();
        let is_last = running.snapshots.is_nearly_written();
        running.snapshots.write_step(now, &running.executor);
        if serves && is_last {
            self.coverage.count("snapshot: a newer one while one is served");
        }
        if !self.has_lost_power(replica) {
            self.go_on_with_snapshots(replica);
        }
    }

    /// Looks after a fetch: asks for what is missing, asks again, gives up.
    pub(super) fn tend_fetch(&mut self, replica: ReplicaId, life: u64, id: SnapshotId) {
        let now = self.now;
        let Some(running) = self.running_in(replica, life) else { return };
        match running.snapshots.chunk_wanted(now, id) {
            Some(ChunkWanted { from, offset }) => {
                self.ask_for_chunk(replica, from, id, offset);
                self.agenda.add(now + CHUNK_PATIENCE, Happening::Fetch(replica, life, id));
            }
            None => self.go_on_with_snapshots(replica),
        }
    }

    fn ask_for_chunk(&mut self, by: ReplicaId, of: ReplicaId, id: SnapshotId, offset: u64) {
        for at in self.network.stray_arrivals(self.now, by, of) {
            self.agenda.add(at, Happening::ChunkAsked { by, of, id, offset });
        }
    }

    pub(super) fn serve_chunk(&mut self, by: ReplicaId, of: ReplicaId, id: SnapshotId, offset: u64) {
        let (now, bytes) = (self.now, self.plan.chunk_bytes);
        let Some(process) = self.processes.get_mut(&of) else { return };
        let works_at = process.disk_works_at(now);
        let Some(running) = process.running.as_mut() else { return };
        if works_at > now {
            return self.agenda.add(works_at, Happening::ChunkAsked { by, of, id, offset });
        }
        let served = running.snapshots.serve(now, by, id, offset, bytes);
        self.spring_traps(by, of);
        if self.has_lost_power(of) || self.running_mut(of).is_none() {
            return;
        }
        self.coverage.count(if served == Served::Gone { "snapshot: gone" } else { "snapshot: chunk served" });
        for at in self.network.stray_arrivals(now, of, by) {
            self.agenda.add(at, Happening::ChunkServed { to: by, id, offset, served: served.clone() });
        }
        self.go_on_with_snapshots(of);
    }

    pub(super) fn take_chunk(&mut self, to: ReplicaId, id: SnapshotId, offset: u64, served: Served) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&to) else { return };
        let works_at = process.disk_works_at(now);
        let Some(running) = process.running.as_mut() else { return };
        if works_at > now {
            return self.agenda.add(works_at, Happening::ChunkServed { to, id, offset, served });
        }
        let of_use = running.snapshots.answered(now, id, offset, &served);
        let next = running.snapshots.chunk_wanted(now, id);
        if self.has_lost_power(to) {
            return;
        }
        if !of_use {
            self.coverage.count("snapshot: chunk out of place");
            return;
        }
        match next {
            Some(ChunkWanted { from, offset }) => self.ask_for_chunk(to, from, id, offset),
            None => self.go_on_with_snapshots(to),
        }
    }

    pub(super) fn load(&mut self, replica: ReplicaId, life: u64, id: SnapshotId) -> Result<(), Violation> {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica).filter(|process| process.life == life) else {
            return Ok(());
        };
        let works_at = process.disk_works_at(now);
        if works_at > now {
            self.agenda.add(works_at, Happening::Load(replica, life, id));
            return Ok(());
        }
        if process.running.as_ref().is_some_and(|running| running.snapshots.coordinator().is_fetching()) {
            process.arm(About::Load);
        }
        let Some(running) = process.running.as_mut() else { return Ok(()) };
        running.snapshots.load(now, id);
        let loaded = running.snapshots.loaded().map(digest_of).transpose()?;
        if let Some((position, digest)) = loaded {
            self.coverage.count("snapshot: loaded");
            self.compare_digest(replica, position, digest)?;
        }
        if !self.has_lost_power(replica) {
            self.go_on_with_snapshots(replica);
        }
        Ok(())
    }

    pub(super) fn install_snapshot(
        &mut self,
        replica: ReplicaId,
        id: SnapshotId,
        base: &SnapshotBase,
    ) -> Result<(), Violation> {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        process.arm(About::Install);
        let Some(running) = process.running.as_mut() else { return Ok(()) };
        running
            .snapshots
            .install(now, id, base, &mut running.executor)
            .map_err(|error| Violation::new("install", format!("replica {replica}: {error}")))?;
        self.coverage.count(match self.plan.crash_mode {
            CrashMode::Durable => "snapshot: installed, durable",
            CrashMode::InMemory => "snapshot: installed, in memory",
        });
        Ok(())
    }

    /// Replaced snapshots must go: what lies on a disk is what the metadata name or may name soon, and what is under way.
    pub(super) fn check_snapshot_files(&self) -> Result<(), Violation> {
        for process in self.processes.values().filter(|process| !process.disk_is_ill) {
            let Some(running) = &process.running else { continue };
            let names = running.vfs.list().unwrap_or_default();
            let files = names.iter().filter(|path| SnapshotName::of(path).is_some()).count();
            if files > SNAPSHOT_FILES {
                let what = format!("replica {} keeps {files} snapshot files: {names:?}", process.replica);
                return Err(Violation::new("bounds", what));
            }
        }
        Ok(())
    }

    /// A state that was read back at a start must be the one that was at its position.
    pub(super) fn check_restored(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        let Some(running) = self.running_mut(replica) else { return Ok(()) };
        if running.executor.executed() == Position::ZERO {
            return Ok(());
        }
        let (position, digest) = digest_of(&mut running.executor)?;
        self.coverage.count("start: from a snapshot");
        self.compare_digest(replica, position, digest)
    }
}
