//! When to act: the clock of heartbeats and elections.

use quorate_framework::Time;
use std::time::Duration;

/// A refused early pre-vote is repeated after between one and two times this.
const SUSPICION_RETRY: Duration = Duration::from_millis(5);

/// Which clock runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    /// Waiting for the next heartbeat to send.
    Leader { next_heartbeat: Time },
    /// Waiting for a sign of the leader, or for the end of an election.
    Follower {
        deadline: Time,
        /// When a leader was last heard; none if never, or if it is forgotten.
        heard: Option<Time>,
        /// After the loss of the link to the leader: until when a refused pre-vote is repeated quickly.
        suspicion_until: Option<Time>,
    },
}

/// The clock of heartbeats (leader mode) and of elections (follower mode). It decides when; the core decides what.
///
/// Random numbers come from the caller; only the drawn deadline is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaderElectionManager {
    heartbeat_interval: Duration,
    election_timeout: Duration,
    mode: Mode,
}

impl LeaderElectionManager {
    /// A manager in follower mode that has never heard of a leader.
    #[must_use]
    pub fn new(
        now: Time,
        heartbeat_interval: Duration,
        election_timeout: Duration,
        random: u64,
    ) -> LeaderElectionManager {
        let mut manager =
            LeaderElectionManager { heartbeat_interval, election_timeout, mode: Mode::Leader { next_heartbeat: now } };
        manager.step_down(now, random);
        manager
    }

    /// When the manager wants to be asked again.
    #[must_use]
    pub fn next_deadline(&self) -> Time {
        match self.mode {
            Mode::Leader { next_heartbeat } => next_heartbeat,
            Mode::Follower { deadline, .. } => deadline,
        }
    }

    /// Leader mode: whether a heartbeat is due.
    #[must_use]
    pub fn heartbeat_is_due(&self, now: Time) -> bool {
        matches!(self.mode, Mode::Leader { next_heartbeat } if now >= next_heartbeat)
    }

    /// Follower mode: whether to campaign.
    #[must_use]
    pub fn election_is_due(&self, now: Time) -> bool {
        matches!(self.mode, Mode::Follower { deadline, .. } if now >= deadline)
    }

    /// Follower mode: whether a leader was heard so recently that nobody should be helped to unseat it.
    #[must_use]
    pub fn leader_is_fresh(&self, now: Time) -> bool {
        matches!(self.mode, Mode::Follower { heard: Some(heard), .. } if now.since(heard) < self.election_timeout)
    }

    /// Enters leader mode; a heartbeat is due at once.
    pub fn become_leader(&mut self, now: Time) {
        self.mode = Mode::Leader { next_heartbeat: now };
    }

    /// Leader mode: a heartbeat went out to all peers.
    pub fn on_broadcast(&mut self, now: Time) {
        if let Mode::Leader { next_heartbeat } = &mut self.mode {
            *next_heartbeat = now + self.heartbeat_interval;
        }
    }

    /// Follower mode: the leader of the current term was heard.
    pub fn on_leader_message(&mut self, now: Time, random: u64) {
        let deadline = now + self.drawn(random);
        self.mode = Mode::Follower { deadline, heard: Some(now), suspicion_until: None };
    }

    /// Follower mode: the link to the leader is down, so a pre-vote may start at once, after a small random delay that keeps the
    /// followers apart.
    pub fn on_peer_down(&mut self, now: Time, random: u64) {
        if let Mode::Follower { deadline, suspicion_until, .. } = &mut self.mode {
            *suspicion_until = Some(now + self.election_timeout);
            *deadline = (*deadline).min(now + spread(SUSPICION_RETRY, random) - SUSPICION_RETRY);
        }
    }

    /// Follower mode: an attempt begins. The leader is forgotten, so that this replica helps others, too. The next attempt is due
    /// after a whole timeout, or soon while the loss of the leader's link is fresh.
    pub fn on_attempt(&mut self, now: Time, random: u64) {
        let mut deadline = now + self.drawn(random);
        let mut suspicion = None;
        if let Mode::Follower { suspicion_until: Some(until), .. } = self.mode
            && now < until
        {
            suspicion = Some(until);
            deadline = deadline.min(now + spread(SUSPICION_RETRY, random));
        }
        self.mode = Mode::Follower { deadline, heard: None, suspicion_until: suspicion };
    }

    /// Follower mode: a real election begins; it gets a whole timeout.
    pub fn on_candidacy(&mut self, now: Time, random: u64) {
        self.mode = Mode::Follower { deadline: now + self.drawn(random), heard: None, suspicion_until: None };
    }

    /// Enters follower mode, or restarts its clock after a vote or a newer term: whoever steps down waits a whole timeout, or it
    /// would unseat its successor at once.
    pub fn step_down(&mut self, now: Time, random: u64) {
        self.mode = Mode::Follower { deadline: now + self.drawn(random), heard: None, suspicion_until: None };
    }

    /// A wait of one to two election timeouts.
    fn drawn(&self, random: u64) -> Duration {
        spread(self.election_timeout, random)
    }
}

/// Between one and two times `least`.
fn spread(least: Duration, random: u64) -> Duration {
    let nanoseconds = u64::try_from(least.as_nanos()).unwrap_or(u64::MAX / 2);
    Duration::from_nanos(nanoseconds + random % nanoseconds.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARTBEAT: Duration = Duration::from_millis(50);
    const TIMEOUT: Duration = Duration::from_millis(500);

    fn at(milliseconds: u64) -> Time {
        Time(milliseconds * 1_000_000)
    }

    fn follower(random: u64) -> LeaderElectionManager {
        LeaderElectionManager::new(at(0), HEARTBEAT, TIMEOUT, random)
    }

    #[test]
    fn a_follower_campaigns_after_its_drawn_timeout_and_not_before() {
        let manager = follower(123_000_000);
        assert!(!manager.election_is_due(at(622)));
        assert!(manager.election_is_due(at(623)));
    }

    #[test]
    fn a_drawn_timeout_lies_between_one_and_two_election_timeouts() {
        for random in [0, 1, 499_999_999, 500_000_000, u64::MAX] {
            let deadline = follower(random).next_deadline();
            assert!(deadline >= at(500) && deadline < at(1_000), "{deadline}");
        }
    }

    #[test]
    fn a_leaders_message_restarts_the_clock() {
        let mut manager = follower(0);
        manager.on_leader_message(at(400), 0);
        assert!(!manager.election_is_due(at(899)));
        assert!(manager.leader_is_fresh(at(899)) && !manager.leader_is_fresh(at(900)));
    }

    #[test]
    fn a_leader_sends_a_heartbeat_at_once_and_then_each_interval() {
        let mut manager = follower(0);
        manager.become_leader(at(10));
        assert!(manager.heartbeat_is_due(at(10)));
        manager.on_broadcast(at(10));
        assert!(!manager.heartbeat_is_due(at(59)) && manager.heartbeat_is_due(at(60)));
        assert!(!manager.election_is_due(at(10_000)), "a leader never campaigns");
    }

    #[test]
    fn stepping_down_restarts_the_clock_so_that_a_successor_is_not_unseated_at_once() {
        let mut manager = follower(0);
        manager.become_leader(at(10));
        manager.step_down(at(5_000), 0);
        assert!(!manager.election_is_due(at(5_499)) && manager.election_is_due(at(5_500)));
    }

    #[test]
    fn the_loss_of_the_leaders_link_starts_an_attempt_within_milliseconds_and_repeats_it_for_one_timeout() {
        let mut manager = follower(0);
        manager.on_leader_message(at(100), 0);
        manager.on_peer_down(at(120), 2_000_000);
        assert_eq!(manager.next_deadline(), at(122));
        manager.on_attempt(at(122), 1_000_000);
        assert_eq!(manager.next_deadline(), at(128));
        manager.on_attempt(at(619), 0);
        assert_eq!(manager.next_deadline(), at(624));
        manager.on_attempt(at(626), 0);
        assert_eq!(manager.next_deadline(), at(1_126), "after one timeout the normal clock alone");
    }
}
