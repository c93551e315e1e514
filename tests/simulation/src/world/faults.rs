//! How faults strike the world, and how they end.

use super::World;
use crate::event::Happening;
use crate::fault::{About, Death, DiskFailure, Fault, Survivors};
use crate::oracle::Violation;
use crate::plan::CrashMode;
use crate::protocol::{RecordOf, SimulatedProtocol};
use crate::rot;
use quorate_framework::ReplicaId;
use quorate_simulated_disk::{Fault as DiskFault, OperationKind, Trigger};
use std::time::Duration;

impl<P: SimulatedProtocol> World<P> {
    /// A process is gone, whatever has become of its disk: others notice.
    pub(super) fn gone(&mut self, replica: ReplicaId) {
        let Some(process) = self.processes.get_mut(&replica) else { return };
        let Some(running) = process.running.take() else { return };
        if running.snapshots.coordinator().is_fetching() {
            self.coverage.count("snapshot: fetcher gone");
        }
        if running.snapshots.is_serving() {
            self.coverage.count("snapshot: server gone");
        }
        process.paused_until = None;
        process.has_lost_its_data |= self.plan.crash_mode == CrashMode::InMemory;
        for (other, link) in self.network.close_all(replica) {
            let latency = self.network.latency(self.now, replica, other);
            self.agenda.add(self.now + latency, Happening::Noticed(other, replica, link));
        }
    }

    fn die(&mut self, replica: ReplicaId, death: Death) {
        self.gone(replica);
        let Some(process) = self.processes.get_mut(&replica) else { return };
        if self.plan.crash_mode == CrashMode::InMemory {
            return;
        }
        match death {
            Death::Kill => process.disk.kill(),
            Death::PowerCut(survivors) => {
                process.has_lost_its_data |= !self.plan.log_is_synced;
                process.lose_power(survivors.policy());
            }
        }
    }

    /// Whether a death takes data with it that a replica may rely on.
    fn loses_data(&self, death: Death) -> bool {
        let is_power_cut = matches!(death, Death::PowerCut(_));
        self.plan.crash_mode == CrashMode::InMemory || (is_power_cut && !self.plan.log_is_synced)
    }

    /// Whether another replica may lose its data (with recovery off: its life): a majority must keep theirs, but for some seeds, in
    /// which the cluster may stay down. Never all: replicas that have all lost their data are a new cluster.
    fn may_lose_another(&self, replica: ReplicaId) -> bool {
        let others = self.processes.values().filter(|process| process.replica != replica);
        let lost = others.filter(|process| process.has_lost_its_data).count() + 1;
        let is_lost_already = self.processes.get(&replica).is_some_and(|process| process.has_lost_its_data);
        is_lost_already
            || lost * 2 < self.processes.len()
            || (self.plan.seed.is_multiple_of(16) && lost < self.processes.len())
    }

    /// Who leads, as the replicas that run say: the one of the highest view.
    fn leader(&self) -> Option<ReplicaId> {
        let statuses = self.processes.values().filter_map(|process| Some(process.running.as_ref()?.driver.status()));
        let leaders = statuses.filter(|status| status.leader == Some(status.replica));
        leaders.max_by_key(|status| status.protocol.view).map(|status| status.replica)
    }

    pub(super) fn strike(&mut self, fault: &Fault) -> Result<(), Violation> {
        if self.healed {
            return Ok(());
        }
        let Some(target) = self.target(fault) else { return Ok(()) };
        if self.is_forbidden(fault, target) {
            return Ok(());
        }
        self.note(format_args!("{fault:?}"));
        self.coverage.count(fault.name());
        let leader = target;
        match fault {
            Fault::Crash(_, death) | Fault::CrashLeader(death) => self.die(target, *death),
            Fault::CrashFetcher(..) | Fault::CrashServer(..) => self.traps.push(fault.clone()),
            Fault::CrashAll(survivors) => {
                let everyone: Vec<ReplicaId> = self.processes.keys().copied().collect();
                everyone.into_iter().for_each(|replica| self.die(replica, Death::PowerCut(*survivors)));
            }
            Fault::Stop(_) => return self.stop(target),
            Fault::CutSoon(..) | Fault::DiskFails(..) | Fault::DiskFull(..) => self.make_ill(target, fault),
            Fault::DiskHangs(_, time) | Fault::LeaderDiskHangs(time) => {
                let until = self.now + *time;
                if let Some(process) = self.processes.get_mut(&target) {
                    process.disk_hangs_until = Some(until);
                }
            }
            Fault::Rot(_) => self.rot(target),
            Fault::PauseLeader(time) => self.pause(leader, *time),
            Fault::IsolateLeader(spared) => {
                let mut others: Vec<ReplicaId> =
                    self.processes.keys().copied().filter(|other| *other != leader).collect();
                for _ in 0..(*spared as usize).min(others.len()) {
                    others.remove(self.random.below(others.len() as u64) as usize);
                }
                others.iter().for_each(|other| self.cut_both(leader, *other));
            }
            Fault::Restart(replica) => return self.restart(*replica),
            Fault::Wipe(replica) => {
                self.die(*replica, Death::Kill);
                if let Some(process) = self.processes.get_mut(replica) {
                    process.wipe()?;
                }
                return self.start(*replica);
            }
            Fault::Pause(replica, time) => self.pause(*replica, *time),
            Fault::CutOneWay(from, to) => self.network.cut(*from, *to),
            Fault::CutPair(one, other) => self.cut_both(*one, *other),
            Fault::Split(side) => {
                let others: Vec<ReplicaId> =
                    self.processes.keys().copied().filter(|other| !side.contains(other)).collect();
                for one in side {
                    others.iter().for_each(|other| self.cut_both(*one, *other));
                }
            }
            Fault::Heal => self.network.heal(),
            Fault::LoseConnection(one, other) => {
                for (own, peer) in [(*one, *other), (*other, *one)] {
                    if let Some(link) = self.network.side(own, peer) {
                        self.drop_side(own, peer, link);
                    }
                }
            }
            Fault::LoseConnectionOneSided(own, other) => {
                if let Some(link) = self.network.side(*own, *other) {
                    self.drop_side(*own, *other, link);
                }
            }
            Fault::SlowLink(from, to, by) => {
                let until = self.now + Duration::from_secs(3);
                self.network.slow_down(*from, *to, *by, until);
            }
            Fault::ClockJump(replica, by) => {
                if let Some(process) = self.processes.get_mut(replica) {
                    process.clock.jump(*by);
                }
                self.wake(*replica);
            }
            Fault::SlowDisk(replica, by) => {
                let until = self.now + Duration::from_secs(3);
                if let Some(process) = self.processes.get_mut(replica) {
                    process.slow_disk = Some((*by, until));
                }
            }
        }
        Ok(())
    }

    /// Whom a fault strikes; none if there is nobody.
    fn target(&self, fault: &Fault) -> Option<ReplicaId> {
        match fault {
            Fault::CrashLeader(_) | Fault::PauseLeader(_) | Fault::IsolateLeader(_) | Fault::LeaderDiskHangs(_) => {
                self.leader()
            }
            Fault::Crash(replica, _)
            | Fault::Stop(replica)
            | Fault::Restart(replica)
            | Fault::Wipe(replica)
            | Fault::Pause(replica, _)
            | Fault::ClockJump(replica, _)
            | Fault::SlowDisk(replica, _)
            | Fault::CutSoon(replica, _)
            | Fault::DiskFails(replica, ..)
            | Fault::DiskFull(replica, _)
            | Fault::DiskHangs(replica, _)
            | Fault::Rot(replica) => Some(*replica),
            _ => Some(ReplicaId::default()),
        }
    }

    /// Whether a fault would take more data than a cluster can lose, or means nothing.
    fn is_forbidden(&self, fault: &Fault, target: ReplicaId) -> bool {
        let in_memory = self.plan.crash_mode == CrashMode::InMemory;
        match fault {
            _ if in_memory && fault.needs_recovery() => true,
            Fault::Crash(_, death) | Fault::CrashLeader(death) => {
                self.loses_data(*death) && !self.may_lose_another(target)
            }
            Fault::Stop(_) => in_memory && !self.may_lose_another(target),
            Fault::CrashAll(_) => !self.plan.log_is_synced,
            Fault::CutSoon(..) => !self.plan.log_is_synced,
            Fault::Wipe(_) | Fault::Rot(_) => !self.may_lose_another(target),
            _ => false,
        }
    }

    /// A chunk of a snapshot was moved: whoever was to die then dies.
    pub(super) fn spring_traps(&mut self, fetcher: ReplicaId, server: ReplicaId) {
        let mut sprung = Vec::new();
        for trap in &mut self.traps {
            let (victim, death, chunks) = match trap {
                Fault::CrashFetcher(death, chunks) => (fetcher, *death, chunks),
                Fault::CrashServer(death, chunks) => (server, *death, chunks),
                _ => continue,
            };
            *chunks = chunks.saturating_sub(1);
            if *chunks == 0 {
                sprung.push((victim, death));
            }
        }
        self.traps.retain(|trap| !matches!(trap, Fault::CrashFetcher(_, 0) | Fault::CrashServer(_, 0)));
        for (replica, death) in sprung {
            if !self.loses_data(death) || self.may_lose_another(replica) {
                self.note(format_args!("{replica} dies while a snapshot is moved: {death:?}"));
                self.die(replica, death);
            }
        }
    }

    /// Arms what will go wrong with a disk.
    fn make_ill(&mut self, replica: ReplicaId, fault: &Fault) {
        if let Fault::CutSoon(_, cut) = *fault {
            // Few replicas ever install a snapshot: whoever does is meant.
            let anybody = matches!(cut.about, About::Load | About::Install | About::Reset);
            for process in self.processes.values_mut().filter(|process| anybody || process.replica == replica) {
                process.cuts.push(cut);
                process.arm(About::Anything);
            }
            return;
        }
        let Some(process) = self.processes.get_mut(&replica) else { return };
        match *fault {
            Fault::DiskFull(_, room) => {
                process.disk.set_capacity(Some(process.disk.used_bytes() + room));
                process.disk_is_ill = true;
            }
            Fault::DiskFails(_, failure, count) => {
                let (kind, fault) = match failure {
                    DiskFailure::Write(0) => (OperationKind::Write, DiskFault::Error),
                    DiskFailure::Write(bytes) => (OperationKind::Write, DiskFault::PartialWrite { bytes }),
                    DiskFailure::Sync(after) => (OperationKind::SyncData, DiskFault::FailedSync(after)),
                    DiskFailure::SyncDirectory => (OperationKind::SyncDirectory, DiskFault::Error),
                    DiskFailure::Create => (OperationKind::Create, DiskFault::Error),
                    DiskFailure::Rename => (OperationKind::Rename, DiskFault::Error),
                };
                process.disk.inject(Trigger::nth(kind, count), fault);
                process.disk_is_ill = true;
            }
            _ => {}
        }
    }

    /// A replica dies, everything it wrote reaches the medium, and a bit of that flips.
    fn rot(&mut self, replica: ReplicaId) {
        self.die(replica, Death::PowerCut(Survivors::Everything));
        let Some(process) = self.processes.get_mut(&replica) else { return };
        process.has_lost_its_data = true;
        let mut random = process.random.fork();
        if process.rot.is_some() || process.is_ruined {
            return;
        }
        process.rot = rot::strike::<RecordOf<P>>(&process.disk, &mut random);
        let note = format!("{:?}", process.rot);
        self.note(format_args!("{replica} rots: {note}"));
    }

    fn pause(&mut self, replica: ReplicaId, time: Duration) {
        let until = self.now + time;
        if let Some(process) = self.processes.get_mut(&replica) {
            process.paused_until = Some(until);
            if let Some(running) = process.running.as_mut() {
                running.turn_at = None;
            }
            self.agenda.add(until, Happening::Resume(replica));
        }
    }

    fn cut_both(&mut self, one: ReplicaId, other: ReplicaId) {
        self.network.cut(one, other);
        self.network.cut(other, one);
    }

    fn restart(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        if process.running.is_some() || process.is_ruined {
            return Ok(());
        }
        // Somebody has made room.
        process.disk.set_capacity(None);
        self.start(replica)
    }

    /// Ends all faults: everything passes, everyone runs, every clock keeps true time from now on as fast as it does.
    ///
    /// # Errors
    /// A [`Violation`] at the start of one that was down.
    pub fn heal(&mut self) -> Result<(), Violation> {
        self.healed = true;
        self.traps.clear();
        self.note(format_args!("all faults end"));
        self.network.heal();
        self.network.calm();
        let replicas: Vec<ReplicaId> = self.processes.keys().copied().collect();
        for replica in &replicas {
            self.has_lost_power(*replica);
            if let Some(process) = self.processes.get_mut(replica) {
                process.cure();
                process.paused_until = None;
            }
            self.restart(*replica)?;
            self.wal_soon(*replica);
            self.wake(*replica);
            for other in &replicas {
                if other > replica {
                    self.connect_soon(*replica, *other);
                }
            }
        }
        Ok(())
    }
}
