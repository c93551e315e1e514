//! How faults strike the world, and how they end.

use super::World;
use crate::disk::Disk;
use crate::event::Happening;
use crate::oracle::Violation;
use crate::plan::{CrashMode, Fault};
use crate::protocol::SimulatedProtocol;
use quorate_framework::{Incarnation, ReplicaId};
use std::time::Duration;

impl<P: SimulatedProtocol> World<P> {
    fn kill(&mut self, replica: ReplicaId) -> Result<(), Violation> {
        let Some(process) = self.processes.get_mut(&replica) else { return Ok(()) };
        if process.running.take().is_none() {
            return Ok(());
        }
        process.paused_until = None;
        process.has_lost_its_data |= self.plan.crash_mode == CrashMode::InMemory;
        let mut random = process.random.fork();
        let extra = process
            .disk
            .crash(&mut random)
            .map_err(|error| Violation::new("records", format!("replica {replica}: {error}")))?;
        if extra > 0 {
            self.coverage.count("crash kept unreported records");
        }
        for (other, link) in self.network.close_all(replica) {
            let latency = self.network.latency(self.now, replica, other);
            self.agenda.add(self.now + latency, Happening::Noticed(other, replica, link));
        }
        Ok(())
    }

    /// Whether another replica may lose its data (with recovery off: its life): a majority must keep theirs, but for some seeds, in
    /// which the cluster may stay down. Never all: replicas that have all lost their data are a new cluster.
    fn may_lose_another(&self, replica: ReplicaId) -> bool {
        let others = self.processes.values().filter(|process| process.replica != replica);
        let lost = others.filter(|process| process.has_lost_its_data).count() + 1;
        lost * 2 < self.processes.len() || (self.plan.seed.is_multiple_of(16) && lost < self.processes.len())
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
        let leader = match fault {
            Fault::CrashLeader | Fault::PauseLeader(_) | Fault::IsolateLeader(_) => match self.leader() {
                Some(leader) => leader,
                None => return Ok(()),
            },
            _ => ReplicaId::default(),
        };
        let in_memory = self.plan.crash_mode == CrashMode::InMemory;
        let forbidden = match fault {
            Fault::Crash(replica) => in_memory && !self.may_lose_another(*replica),
            Fault::CrashLeader => in_memory && !self.may_lose_another(leader),
            Fault::Wipe(replica) => in_memory || !self.may_lose_another(*replica),
            _ => false,
        };
        if forbidden {
            return Ok(());
        }
        self.note(format_args!("{fault:?}"));
        self.coverage.count(fault.name());
        match fault {
            Fault::Crash(replica) => return self.kill(*replica),
            Fault::CrashLeader => return self.kill(leader),
            Fault::PauseLeader(time) => self.pause(leader, *time),
            Fault::IsolateLeader(spared) => {
                let mut others: Vec<ReplicaId> =
                    self.processes.keys().copied().filter(|other| *other != leader).collect();
                for _ in 0..(*spared as usize).min(others.len()) {
                    others.remove(self.random.below(others.len() as u64) as usize);
                }
                others.iter().for_each(|other| self.cut_both(leader, *other));
            }
            Fault::Restart(replica) => self.restart(*replica),
            Fault::Wipe(replica) => {
                self.kill(*replica)?;
                if let Some(process) = self.processes.get_mut(replica) {
                    process.disk = Disk::empty(Incarnation(process.random.draw()));
                    process.has_lost_its_data = true;
                }
                self.start(*replica);
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

    fn restart(&mut self, replica: ReplicaId) {
        if self.processes.get(&replica).is_some_and(|process| process.running.is_none()) {
            self.start(replica);
        }
    }

    /// Ends all faults: everything passes, everyone runs, every clock keeps true time from now on as fast as it does.
    pub fn heal(&mut self) {
        self.healed = true;
        self.note(format_args!("all faults end"));
        self.network.heal();
        self.network.calm();
        let replicas: Vec<ReplicaId> = self.processes.keys().copied().collect();
        for replica in &replicas {
            if let Some(process) = self.processes.get_mut(replica) {
                process.slow_disk = None;
                process.paused_until = None;
            }
            self.restart(*replica);
            self.wake(*replica);
            for other in &replicas {
                if other > replica {
                    self.connect_soon(*replica, *other);
                }
            }
        }
    }
}
