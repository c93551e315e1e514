//! Snapshots of the world: taken in steps, moved in chunks over the network, loaded and installed.

use super::World;
use super::storage::digest_of;
use crate::event::Happening;
use crate::fault::About;
use crate::oracle::Violation;
use crate::plan::CrashMode;
use crate::protocol::SimulatedProtocol;
use crate::snapshots::{NameWanted, Served, Wants};
use quorate_framework::{Position, ReplicaId, SnapshotBase, SnapshotId};
use quorate_node::driver::SnapshotTask;
use quorate_recovery::{MetadataChange, Submission};
use std::time::Duration;

/// Between two pieces of a snapshot that is written.
const PIECE_TIME: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));
/// Time to check and load a snapshot.
const LOAD_TIME: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(20));
/// How long a chunk is waited for before it is asked for again.
const CHUNK_PATIENCE: Duration = Duration::from_millis(300);

impl<P: SimulatedProtocol> World<P> {
    pub(super) fn carry_out_tasks(&mut self, replica: ReplicaId) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica) else { return };
        let life = process.life;
        let Some(running) = process.running.as_mut() else { return };
        let tasks = std::mem::take(&mut running.output.tasks);
        for task in &tasks {
            match task {
                SnapshotTask::Offer { .. } => self.coverage.count("snapshot: asked for"),
                SnapshotTask::ForgetLog(_) => self.coverage.count("snapshot: log forgotten"),
                SnapshotTask::Cancel => self.coverage.count("snapshot: fetch cancelled"),
                SnapshotTask::Withdraw(_) | SnapshotTask::Fetch { .. } => {}
            }
            if running.snapshots.task(now, task)
                && let Some(id) = running.snapshots.fetched_id()
            {
                self.coverage.count("snapshot: fetch begun");
                self.agenda.add(now, Happening::Fetch(replica, life, id));
            }
        }
        if !tasks.is_empty() {
            self.has_lost_power(replica);
        }
    }

    /// Names in the metadata what is to be named.
    pub(super) fn name_snapshots(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        let Some(running) = self.running_mut(replica) else { return Ok(()) };
        for NameWanted { named, then } in running.snapshots.take_wanted() {
            let Some(running) = self.running_mut(replica) else { return Ok(()) };
            let ticket = running.driver.issue_ticket();
            running.snapshots.submitted(ticket, then);
            let change = MetadataChange::Snapshot { base: named.base, store_generation: 0, released: named.released };
            self.submit_one(replica, Submission::metadata(ticket, change))?;
        }
        Ok(())
    }

    pub(super) fn take_snapshot(&mut self, replica: ReplicaId, base: SnapshotBase) -> Result<(), Violation> {
        let Some(running) = self.running_mut(replica) else { return Ok(()) };
        let (position, digest) = digest_of(&mut running.executor)?;
        let taken = running.snapshots.take(&mut running.executor, base);
        self.compare_digest(replica, position, digest)?;
        if self.has_lost_power(replica) {
            return Ok(());
        }
        match taken {
            Ok(true) => self.coverage.count("snapshot: begun"),
            Ok(false) => {}
            Err(error) => return Err(Violation::new("executor", format!("replica {replica}: {error}"))),
        }
        Ok(())
    }

    /// Puts what snapshots need next on the agenda.
    pub(super) fn go_on_with_snapshots(&mut self, replica: ReplicaId) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica) else { return };
        let delay = process.random.duration_between(PIECE_TIME.0, PIECE_TIME.1);
        let life = process.life;
        let Some(running) = process.running.as_mut() else { return };
        if running.snapshots.is_writing() && !running.is_writing_snapshot {
            running.is_writing_snapshot = true;
            self.agenda.add(now + delay, Happening::SnapshotStep(replica, life));
        }
        if running.snapshots.has_news() || running.snapshots.wants_a_name() {
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
        match running.snapshots.wants(now, id) {
            Wants::Nothing => self.go_on_with_snapshots(replica),
            Wants::Load => self.load_soon(replica),
            Wants::Chunk { from, offset } => {
                self.ask_for_chunk(replica, from, id, offset);
                self.agenda.add(now + CHUNK_PATIENCE, Happening::Fetch(replica, life, id));
            }
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
        let next = running.snapshots.wants(now, id);
        if self.has_lost_power(to) {
            return;
        }
        if !of_use {
            self.coverage.count("snapshot: chunk out of place");
            return;
        }
        match next {
            Wants::Chunk { from, offset } => self.ask_for_chunk(to, from, id, offset),
            Wants::Load => self.load_soon(to),
            Wants::Nothing => self.go_on_with_snapshots(to),
        }
    }

    fn load_soon(&mut self, replica: ReplicaId) {
        let Some(process) = self.processes.get_mut(&replica) else { return };
        let delay = process.random.duration_between(LOAD_TIME.0, LOAD_TIME.1);
        let id = process.running.as_ref().and_then(|running| running.snapshots.fetched_id());
        if let Some(id) = id {
            self.agenda.add(self.now + delay, Happening::Load(replica, process.life, id));
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
        if process.running.as_ref().is_some_and(|running| running.snapshots.is_fetching()) {
            process.arm(About::Load);
        }
        let Some(running) = process.running.as_mut() else { return Ok(()) };
        running.snapshots.load(id);
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
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        process.arm(About::Install);
        let Some(running) = process.running.as_mut() else { return Ok(()) };
        running.executor = running
            .snapshots
            .install(id, base)
            .map_err(|error| Violation::new("install", format!("replica {replica}: {error}")))?;
        self.coverage.count(match self.plan.crash_mode {
            CrashMode::Durable => "snapshot: installed, durable",
            CrashMode::InMemory => "snapshot: installed, in memory",
        });
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
