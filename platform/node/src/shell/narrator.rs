//! What the log tells of a running replica: each change once, what stays wrong rarely, never a line per event.

use crate::driver::Driver;
use quorate_framework::{Consensus, FormingStatus, MemberVector, ReplicaId, Time};
use std::time::Duration;

/// Time between two looks at a replica that has something to do anyway.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Time between two looks at a replica that is not formed.
const FORMING_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// What is still wrong is said again after this time.
const REPEAT_INTERVAL: Duration = Duration::from_secs(60);
/// The window in which lines are counted.
const WINDOW: Duration = Duration::from_secs(30);

/// Bounds the lines about one matter in a window of time.
#[derive(Debug)]
struct LineBudget {
    lines: u32,
    window_end: Time,
    left: u32,
    suppressed: u64,
}

impl LineBudget {
    fn new(lines: u32) -> LineBudget {
        LineBudget { lines, window_end: Time::ZERO, left: 0, suppressed: 0 }
    }

    /// What to add to this line about those that were not written; none if this one is not written either.
    fn take(&mut self, now: Time) -> Option<String> {
        if now >= self.window_end {
            self.window_end = now + WINDOW;
            self.left = self.lines;
        }
        if self.left == 0 {
            self.suppressed += 1;
            return None;
        }
        self.left -= 1;
        match std::mem::take(&mut self.suppressed) {
            0 => Some(String::new()),
            count => Some(format!(" ({count} such lines were left out before)")),
        }
    }
}

/// What was said last of a state that may last.
#[derive(Debug, Default)]
struct Said {
    text: String,
    again_at: Time,
}

impl Said {
    /// Whether to say it now: when it changed, and again after a while.
    fn is_news(&mut self, now: Time, text: &str) -> bool {
        if self.text == text && now < self.again_at {
            return false;
        }
        text.clone_into(&mut self.text);
        self.again_at = now + REPEAT_INTERVAL;
        true
    }
}

/// Watches one replica.
#[derive(Debug)]
pub(super) struct Narrator {
    replica: ReplicaId,
    now: Time,
    next_look: Time,
    /// Whether the cluster was formed when this run began.
    formed_before: bool,
    /// Whether it was told that the cluster is formed.
    formed: bool,
    waiting: Said,
    unbound_peers: Said,
    leadership: (Option<ReplicaId>, u64),
    leader_lines: LineBudget,
    waiting_lines: LineBudget,
    disconnect_lines: LineBudget,
    evidence_lines: LineBudget,
}

impl Narrator {
    /// `formed_before`: whether the cluster was formed already when this run began.
    pub(super) fn new(replica: ReplicaId, formed_before: bool) -> Narrator {
        Narrator {
            replica,
            formed_before,
            now: Time::ZERO,
            next_look: Time::ZERO,
            formed: false,
            waiting: Said::default(),
            unbound_peers: Said::default(),
            leadership: (None, 0),
            leader_lines: LineBudget::new(8),
            waiting_lines: LineBudget::new(6),
            disconnect_lines: LineBudget::new(4),
            evidence_lines: LineBudget::new(4),
        }
    }

    /// When it wants to look even if nothing happens; a formed replica always has something to do.
    pub(super) fn next_look(&self) -> Option<Time> {
        (!self.formed && self.next_look > Time::ZERO).then_some(self.next_look)
    }

    /// Looks, if it is time, and tells what has changed.
    pub(super) fn look<C: Consensus>(&mut self, now: Time, driver: &Driver<C>) {
        self.now = now;
        if self.next_look == Time::ZERO {
            // The others have just been started, too: no word about them yet.
            self.next_look = now + FORMING_LOOK_INTERVAL;
            return;
        }
        if now < self.next_look && (self.formed || driver.forming().vector().is_none()) {
            return;
        }
        let status = driver.status();
        self.tell_forming(now, &status.forming, driver.forming().vector());
        self.tell_unbound_peers(now, &status.unbound_peers);
        self.tell_leader(now, status.leader, status.protocol.view);
        self.next_look = now + if self.formed { LOOK_INTERVAL } else { FORMING_LOOK_INTERVAL };
    }

    fn tell_forming(&mut self, now: Time, forming: &FormingStatus, members: Option<&MemberVector>) {
        match forming {
            FormingStatus::Formed if self.formed => {}
            FormingStatus::Formed => {
                self.formed = true;
                let members: Vec<ReplicaId> = members.into_iter().flat_map(|vector| vector.keys().copied()).collect();
                let when = if self.formed_before { "formed earlier" } else { "formed" };
                tracing::info!("{when} with replicas {}", list(&members));
            }
            FormingStatus::Forming { waiting_for } => {
                let text = format!("waiting for replicas {}", list(waiting_for));
                if !waiting_for.is_empty()
                    && self.waiting.is_news(now, &text)
                    && let Some(more) = self.waiting_lines.take(now)
                {
                    tracing::info!("forming: {text}{more}");
                }
            }
            FormingStatus::Unbound { reason } => {
                if self.waiting.is_news(now, reason) {
                    tracing::warn!("unbound, neither votes nor counts: {reason}");
                }
            }
        }
    }

    fn tell_unbound_peers(&mut self, now: Time, peers: &[ReplicaId]) {
        if peers.is_empty() {
            self.unbound_peers = Said::default();
        } else if self.unbound_peers.is_news(now, &list(peers)) {
            let peers = list(peers);
            tracing::warn!(
                "replicas {peers} are connected as other incarnations than the cluster formed with: they do not count"
            );
        }
    }

    fn tell_leader(&mut self, now: Time, leader: Option<ReplicaId>, view: u64) {
        let known = (leader, if leader.is_some() { view } else { 0 });
        if known == self.leadership {
            return;
        }
        self.leadership = known;
        let Some(more) = self.leader_lines.take(now) else { return };
        match leader {
            Some(leader) if leader == self.replica => tracing::info!(view, "this replica leads{more}"),
            Some(leader) => tracing::info!(view, "replica {leader} leads{more}"),
            None => tracing::info!(view, "no leader is known{more}"),
        }
    }

    /// A link was closed by this side.
    pub(super) fn disconnected(&mut self, peer: ReplicaId, reason: &str) {
        if let Some(more) = self.disconnect_lines.take(self.now) {
            tracing::warn!(%peer, "link closed: {reason}{more}");
        }
    }

    /// A replica broke the protocol.
    pub(super) fn evidence(&mut self, against: ReplicaId, what: &str) {
        if let Some(more) = self.evidence_lines.take(self.now) {
            tracing::error!(%against, "a replica broke the protocol: {what}{more}");
        }
    }
}

fn list(replicas: &[ReplicaId]) -> String {
    replicas.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn leaders_that_change_every_second_for_ten_minutes_cost_a_bounded_number_of_lines() {
        let mut budget = LineBudget::new(8);
        let written: Vec<String> = (1..=600).filter_map(|second| budget.take(seconds(second))).collect();
        assert_eq!(written.len(), 160, "eight in each half minute");
        assert_eq!(written[8], " (22 such lines were left out before)");
    }

    #[test]
    fn what_stays_as_it_is_is_said_once_a_minute_and_a_change_at_once() {
        let mut said = Said::default();
        let lines = (1..=600).filter(|second| said.is_news(seconds(*second), "waiting for replicas 3")).count();
        assert_eq!(lines, 10);
        assert!(said.is_news(seconds(600), "waiting for replicas 3, 4"));
    }
}
