//! The invariants of a single core, checked after each event in debug builds and simulations. The list stands in the crate's
//! documentation under the same names.

use crate::progress::ProgressState;
use crate::raft::Raft;
use crate::role::Role;
use quorate_framework::{PeerStatus, Position, ProtocolStatus};

impl Raft {
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        if self.halted {
            // It has said what is wrong, and does nothing more.
            return Ok(());
        }
        self.check_pointers()?;
        self.check_votes()?;
        self.check_snapshots()?;
        self.check_followers()
    }

    fn check_pointers(&self) -> Result<(), String> {
        let (base, last) = (self.log.base_index(), self.log.last_index());
        let order: [(&str, Position, Position); 8] = [
            ("base <= executed", base, self.executed),
            ("base <= commit", base, self.commit),
            ("executed <= handed", self.executed, self.handed),
            ("handed <= commit", self.handed, self.commit.max(self.handed_without_log)),
            ("snapshot <= commit", self.snapshot, self.commit),
            ("commit <= last", self.commit, last),
            ("verified <= last", self.verified, last),
            ("persisted <= last", self.durability.persisted(), last),
        ];
        for (name, smaller, larger) in order {
            if smaller > larger {
                return Err(format!("log pointers: {name}: {smaller} > {larger}"));
            }
        }
        if self.log.last_term() > self.term() {
            return Err(format!("log pointers: last term {} above the current {}", self.log.last_term(), self.term()));
        }
        Ok(())
    }

    fn check_votes(&self) -> Result<(), String> {
        let voted_for_itself = self.hard_state.voted_for == Some(self.replica);
        match &self.role {
            Role::Candidate { .. } | Role::Leader(_) if !voted_for_itself => {
                Err(format!("votes: candidate or leader of term {} voted for another", self.term()))
            }
            Role::Leader(_) if !self.durability.hard_state_reached() => {
                Err(format!("votes: leads term {} before it is durable", self.term()))
            }
            _ => Ok(()),
        }
    }

    fn check_snapshots(&self) -> Result<(), String> {
        if self.forgotten > self.snapshot {
            return Err(format!(
                "snapshots: the log is forgotten up to {}, the snapshot is {}",
                self.forgotten, self.snapshot
            ));
        }
        match &self.fetch {
            Some(fetch) if fetch.is_installing() && self.handed < fetch.position() => {
                Err(format!("snapshots: installs {}, and only {} is handed over", fetch.position(), self.handed))
            }
            Some(fetch) if !fetch.is_installing() && fetch.position() <= self.commit => {
                Err(format!("snapshots: fetches {}, and commit is {}", fetch.position(), self.commit))
            }
            _ => Ok(()),
        }
    }

    fn check_followers(&self) -> Result<(), String> {
        let Role::Leader(leadership) = &self.role else { return Ok(()) };
        let last = self.log.last_index();
        for (id, progress) in &leadership.followers {
            if progress.matched > last || progress.next <= progress.matched || progress.next > last.next() {
                return Err(format!(
                    "window: replica {id}: matched {}, next {}, last {last}",
                    progress.matched, progress.next
                ));
            }
            if progress.transfer().is_some() && !progress.connected {
                return Err(format!("snapshots: replica {id} is served without a link"));
            }
            if progress.in_flight_messages() > self.settings.in_flight_messages.max(1) {
                return Err(format!("window: replica {id} has {} messages in flight", progress.in_flight_messages()));
            }
            let most = self.settings.in_flight_bytes + self.settings.bytes_per_append;
            if progress.in_flight_messages() > 1
                && progress.in_flight_bytes() > most + quorate_framework::limits::PAYLOAD_BYTES
            {
                return Err(format!("window: replica {id} has {} bytes in flight", progress.in_flight_bytes()));
            }
            if !progress.connected
                && !matches!(progress.state, ProgressState::Probe { outstanding: None } | ProgressState::NeedsSnapshot)
            {
                return Err(format!("window: replica {id} has something in flight without a link"));
            }
        }
        Ok(())
    }

    pub(crate) fn protocol_status(&self) -> ProtocolStatus {
        let role = match &self.role {
            Role::Follower => "follower",
            Role::PreCandidate { .. } => "pre_candidate",
            Role::Candidate { .. } => "candidate",
            Role::Leader(_) => "leader",
        };
        let counters = &self.counters;
        ProtocolStatus {
            role,
            view: self.term().0,
            leader: self.leader,
            first: self.log.base_index().next(),
            last: self.log.last_index(),
            persisted: self.durability.persisted(),
            committed: self.commit,
            log_memory_bytes: self.log.pinned_bytes() as u64,
            peers: self.peer_statuses(),
            counters: vec![
                ("elections_started", counters.elections_started),
                ("leaderships", counters.leaderships),
                ("step_downs", counters.step_downs),
                ("entries_appended", counters.entries_appended),
                ("groups_appended", counters.groups_appended),
                ("appends_sent", counters.appends_sent),
                ("probes_sent", counters.probes_sent),
                ("conflicts", counters.conflicts),
                ("in_flight_timeouts", counters.in_flight_timeouts),
                ("log_refused_busy", counters.refused_busy),
                ("stall_step_downs", counters.stall_step_downs),
                ("term_anomalies", counters.term_anomalies),
                ("snapshots_taken", counters.snapshots_taken),
                ("snapshots_offered", counters.snapshots_offered),
                ("snapshots_given_up", counters.snapshots_given_up),
                ("snapshots_installed", counters.snapshots_installed),
                ("snapshots_not_fetched", counters.snapshots_not_fetched),
            ],
        }
    }

    fn peer_statuses(&self) -> Vec<PeerStatus> {
        let others = self.members().keys().filter(|member| **member != self.replica);
        others
            .map(|id| match self.follower(*id) {
                Some(progress) => PeerStatus {
                    id: *id,
                    state: progress.state_name(),
                    connected: progress.connected,
                    matched: progress.matched,
                    next: progress.next,
                    in_flight_messages: progress.in_flight_messages() as u64,
                    in_flight_bytes: progress.in_flight_bytes() as u64,
                },
                None => PeerStatus {
                    id: *id,
                    state: if self.leader == Some(*id) { "leader" } else { "peer" },
                    connected: self.links.contains_key(id),
                    matched: Position::ZERO,
                    next: Position::ZERO,
                    in_flight_messages: 0,
                    in_flight_bytes: 0,
                },
            })
            .collect()
    }
}
