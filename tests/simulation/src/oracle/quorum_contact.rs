//! Quorum contact: a leader that has not heard a majority for long leads no longer (CheckQuorum; Ongaro's thesis §6.2).

use super::Violation;
use crate::protocol::Moment;
use quorate_framework::{ReplicaId, Time};
use quorate_raft::{Raft, Term};
use std::collections::BTreeMap;
use std::time::Duration;

/// Twice the election timeout on the slowest clock, and the time of a few turns.
const PATIENCE: Duration = Duration::from_millis(2_500);

#[derive(Debug, Default)]
pub(super) struct QuorumContact {
    /// When a replica last got anything from a peer.
    heard: BTreeMap<(ReplicaId, ReplicaId), Time>,
    /// Since when each leader leads.
    since: BTreeMap<ReplicaId, (u64, Term, Time)>,
}

impl QuorumContact {
    pub(super) fn heard(&mut self, at: ReplicaId, from: ReplicaId, now: Time) {
        self.heard.insert((at, from), now);
    }

    pub(super) fn check(&mut self, at: Moment, core: &Raft) -> Result<(), Violation> {
        let Moment { replica, life, now, members, .. } = at;
        if !core.is_leader() {
            self.since.remove(&replica);
            return Ok(());
        }
        let leadership = self.since.entry(replica).or_insert((life, core.term(), now));
        if (leadership.0, leadership.1) != (life, core.term()) {
            *leadership = (life, core.term(), now);
        }
        if now.since(leadership.2) < PATIENCE {
            return Ok(());
        }
        let fresh =
            self.heard.iter().filter(|((of, _), heard)| *of == replica && now.since(**heard) < PATIENCE).count();
        if (fresh + 1) * 2 > members {
            return Ok(());
        }
        let what = format!("leader {replica} of term {} has heard {fresh} of {members} for {PATIENCE:?}", core.term());
        Err(Violation::new("quorum contact", what))
    }
}
