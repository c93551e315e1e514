//! The write-ahead logs of the world: handed records, stepped in virtual time, reporting, failing.

use super::World;
use super::disk_checks::{CHECKED_SYNCS, SYNCS_LOOKED_INTO, check_cut, is_looked_at};
use crate::event::Happening;
use crate::fault::About;
use crate::model::Written;
use crate::oracle::Violation;
use crate::plan::CrashMode;
use crate::process::is_alive;
use crate::protocol::{RecordOf, SimulatedProtocol};
use crate::wal::{Stepped, Wal};
use quorate_executor::{KvExecutor, MemoryStore};
use quorate_framework::{Digest, ExecutorCommand, HaltReason, Outcome, Position, ReplicaId, Ticket};
use quorate_recovery::{MetadataChange, StorageError, Submission, WalItem};
use quorate_simulated_disk::CrashPolicy;
use std::time::Duration;

/// Between two steps of the writer that do not wait for the disk.
const STEP_TIME: (Duration, Duration) = (Duration::from_micros(1), Duration::from_micros(100));
/// How long a sync takes.
const SYNC_TIME: (Duration, Duration) = (Duration::from_micros(80), Duration::from_millis(4));
/// How late a report is now and then: the writer's thread, or the replica's, had to wait for a processor.
const LATE_REPORT: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(20));
/// How long a process whose disk has failed still lives.
const FAREWELL: (Duration, Duration) = (Duration::from_micros(1), Duration::from_millis(50));

impl<P: SimulatedProtocol> World<P> {
    /// Hands what the turn wants durable to the log.
    pub(super) fn submit(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        let Some(running) = self.running_mut(replica) else { return Ok(()) };
        let records = running.output.records.drain(..).map(|(ticket, record)| Submission::record(ticket, record));
        let identity = running.output.identity.drain(..);
        let members = identity.map(|(ticket, vector)| Submission::metadata(ticket, MetadataChange::Members(vector)));
        let mut submissions: Vec<_> = records.chain(members).collect();
        submissions.sort_by_key(|submission| submission.ticket);
        submissions.into_iter().try_for_each(|submission| self.submit_one(replica, submission))
    }

    pub(super) fn submit_one(
        &mut self,
        replica: ReplicaId,
        submission: Submission<RecordOf<P>>,
    ) -> Result<(), Violation> {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        let Some(wal) = process.running.as_mut().and_then(|running| running.wal.as_mut()) else { return Ok(()) };
        if wal.has_failed {
            return Ok(());
        }
        let written = match &submission.item {
            WalItem::Record(record) => Written::Record(record.clone()),
            WalItem::Metadata(MetadataChange::Members(members)) => Written::Members(members.clone()),
            WalItem::Metadata(MetadataChange::Snapshot { base, .. }) => Written::Snapshot(base.clone()),
        };
        process.model.write(now, submission.ticket, written);
        wal.submit(submission).map_err(|error| Violation::new("records", format!("replica {replica}: {error}")))?;
        self.wal_soon(replica);
        Ok(())
    }

    /// Puts the writer's next step on the agenda, unless it is there.
    pub(super) fn wal_soon(&mut self, replica: ReplicaId) {
        self.wal_after(replica, STEP_TIME);
    }

    fn wal_after(&mut self, replica: ReplicaId, time: (Duration, Duration)) {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica) else { return };
        let mut delay = process.random.duration_between(time.0, time.1);
        if time == SYNC_TIME
            && let Some((extra, _)) = process.slow_disk.filter(|(_, until)| now < *until)
        {
            delay += extra;
        }
        let life = process.life;
        let Some(wal) = process.running.as_mut().and_then(|running| running.wal.as_mut()) else { return };
        if !wal.is_scheduled && !wal.has_failed {
            wal.is_scheduled = true;
            self.agenda.add(now + delay, Happening::WalStep(replica, life));
        }
    }

    pub(super) fn wal_step(&mut self, replica: ReplicaId, life: u64) -> Result<(), Violation> {
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica).filter(|process| process.life == life) else {
            return Ok(());
        };
        let works_at = process.disk_works_at(now);
        let may_look = self.plan.log_is_synced && !process.disk_is_ill && is_looked_at(process, SYNCS_LOOKED_INTO);
        let Some(wal) = process.running.as_mut().and_then(|running| running.wal.as_mut()) else { return Ok(()) };
        if works_at > now {
            self.agenda.add(works_at, Happening::WalStep(replica, life));
            return Ok(());
        }
        wal.is_scheduled = false;
        let is_looked_into = may_look && wal.is_syncing();
        if is_looked_into {
            process.disk.start_recording();
        }
        let stepped = wal.step();
        if is_looked_into {
            self.check_inside(replica)?;
        }
        if self.has_lost_power(replica) {
            return Ok(());
        }
        match stepped {
            Ok(Stepped::Idle) => {}
            Ok(Stepped::Written | Stepped::Maintained) => {
                self.check_torn(replica)?;
                self.wal_soon(replica);
            }
            Ok(Stepped::SyncBegun) => {
                if let Some(process) = self.processes.get_mut(&replica) {
                    process.arm(About::Sync);
                }
                self.wal_after(replica, SYNC_TIME);
            }
            Ok(Stepped::Synced(ticket)) => return self.synced(replica, life, ticket),
            Err(error) => return self.disk_failed(replica, &error),
        }
        Ok(())
    }

    /// A sync has returned: its tickets are durable, whoever knows of it.
    fn synced(&mut self, replica: ReplicaId, life: u64, ticket: Ticket) -> Result<(), Violation> {
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        let time = if process.random.chance(50) { LATE_REPORT } else { STEP_TIME };
        let delay = process.random.duration_between(time.0, time.1);
        self.agenda.add(self.now + delay, Happening::Reported(replica, life, ticket));
        if self.plan.log_is_synced && is_looked_at(process, CHECKED_SYNCS) {
            let mut model = process.model.clone();
            let kept = model.reported(ticket);
            kept.map_err(|error| Violation::new("records", format!("replica {replica}: {error}")))?;
            self.coverage.count("disk: checked against the worst cut");
            check_cut(process, &model, &self.plan, CrashPolicy::SyncedOnly)?;
        }
        let Some(wal) = self.running_mut(replica).and_then(|running| running.wal.as_mut()) else { return Ok(()) };
        let maintained = wal.maintain_if_due();
        if self.has_lost_power(replica) {
            return Ok(());
        }
        if let Err(error) = maintained {
            return self.disk_failed(replica, &error);
        }
        self.wal_soon(replica);
        Ok(())
    }

    /// The replica hears of it.
    pub(super) fn reported(&mut self, replica: ReplicaId, life: u64, ticket: Ticket) -> Result<(), Violation> {
        let Some(process) = self.processes.get_mut(&replica).filter(|process| process.life == life) else {
            return Ok(());
        };
        let Some(running) = process.running.as_mut() else { return Ok(()) };
        process
            .model
            .reported(ticket)
            .map_err(|error| Violation::new("records", format!("replica {replica}: {error}")))?;
        // A late report says no less than those after it.
        running.input.persisted = running.input.persisted.max(Some(ticket));
        running.snapshots.reported(ticket);
        self.wake(replica);
        Ok(())
    }

    /// After something was done with a disk: whether an armed power cut has come. Then its process is gone.
    pub(super) fn has_lost_power(&mut self, replica: ReplicaId) -> bool {
        let Some(process) = self.processes.get_mut(&replica) else { return false };
        let is_gone = process.disk_is_ill && process.running.as_ref().is_some_and(|running| !is_alive(&running.vfs));
        if is_gone {
            self.coverage.count("disk: power cut inside an operation");
            self.note(format_args!("{replica} loses power in the middle of an operation of its disk"));
            self.gone(replica);
            if let Some(process) = self.processes.get_mut(&replica) {
                process.has_lost_its_data |= !self.plan.log_is_synced;
                process.booted();
            }
        }
        is_gone
    }

    /// A write or a sync has failed: that is final, and the process ends.
    fn disk_failed(&mut self, replica: ReplicaId, error: &StorageError) -> Result<(), Violation> {
        self.note(format_args!("the disk of {replica} fails: {error}"));
        self.coverage.count(if error.is_disk_full() { "disk: full" } else { "disk: failed" });
        let now = self.now;
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        if !process.disk_is_ill {
            let what = format!("replica {replica}: {error}, and nothing is wrong with its disk");
            return Err(Violation::new("failed disk", what));
        }
        let delay = process.random.duration_between(FAREWELL.0, FAREWELL.1);
        let life = process.life;
        let Some(running) = process.running.as_mut() else { return Ok(()) };
        let Some(wal) = running.wal.as_mut() else { return Ok(()) };
        if !wal.still_fails() {
            return Err(Violation::new("failed disk", format!("replica {replica} tries again after: {error}")));
        }
        wal.has_failed = true;
        running.driver.halt(HaltReason::Storage(error.to_string()), &mut running.output);
        self.agenda.add(now + delay, Happening::Ended(replica, life));
        self.carry_out(replica)
    }

    /// A process whose disk has failed is gone. What it wrote is in the page cache, or wherever the failure left it.
    pub(super) fn ended(&mut self, replica: ReplicaId, life: u64) {
        if self.running_in(replica, life).is_some_and(|running| running.has_failed()) {
            self.gone(replica);
            if let Some(process) = self.processes.get_mut(&replica) {
                process.disk.kill();
                process.disk.disarm();
            }
        }
    }

    /// Ends a process by its own wish, with everything synced.
    pub(super) fn stop(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        self.submit(replica)?;
        let Some(running) = self.running_mut(replica).filter(|running| !running.has_failed()) else { return Ok(()) };
        running.driver.stop(&mut running.output);
        let replies = std::mem::take(&mut running.output.replies);
        let wal = running.wal.take();
        self.reply(replies);
        let stopped = wal.map_or(Ok(()), Wal::stop);
        if self.has_lost_power(replica) {
            return Ok(());
        }
        self.gone(replica);
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        if self.plan.crash_mode == CrashMode::Durable {
            process.disk.kill();
            match stopped {
                // All of it is durable, and the start must find all of it.
                Ok(()) => process.model.all_reported().map_err(|error| Violation::new("records", error.to_string()))?,
                Err(_) if process.disk_is_ill => process.disk.disarm(),
                Err(error) => return Err(Violation::new("failed disk", format!("replica {replica} stops: {error}"))),
            }
        }
        Ok(())
    }
}

/// The digest of an executor's state, and its position.
pub(super) fn digest_of(executor: &mut KvExecutor<MemoryStore>) -> Result<(Position, Digest), Violation> {
    let mut outcome = Outcome::default();
    executor
        .apply([ExecutorCommand::Digest], &mut outcome)
        .map_err(|error| Violation::new("executor", error.to_string()))?;
    Ok((outcome.executed, outcome.digest.unwrap_or_default()))
}
