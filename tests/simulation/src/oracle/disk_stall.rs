//! No leadership on a hung disk: a leader whose oldest record has waited for the stall timeout leads no longer (cases/open.md B11).

use super::Violation;
use crate::coverage::Coverage;
use crate::protocol::Moment;
use quorate_framework::{ReplicaId, limits};
use quorate_raft::Raft;
use std::collections::BTreeSet;
use std::time::Duration;

/// The timeout on the slowest clock, and the time of a few turns.
const PATIENCE: Duration = Duration::from_millis(limits::DISK_STALL_TIMEOUT_MS * 5 / 4 + 300);
/// From this age of the oldest record on, a leader that steps down probably does so for its disk.
const HUNG: Duration = Duration::from_millis(limits::DISK_STALL_TIMEOUT_MS * 4 / 5);

#[derive(Debug, Default)]
pub(super) struct DiskStall {
    leaders: BTreeSet<ReplicaId>,
}

impl DiskStall {
    pub(super) fn check(&mut self, at: Moment, core: &Raft, coverage: &mut Coverage) -> Result<(), Violation> {
        if !core.is_leader() {
            if self.leaders.remove(&at.replica) && at.unreported_for >= HUNG {
                coverage.count("disk: a leader gave up because its disk hung");
            }
            return Ok(());
        }
        self.leaders.insert(at.replica);
        if at.unreported_for < PATIENCE {
            return Ok(());
        }
        let what = format!(
            "leader {} of term {} has waited for its disk for {:?} and still leads",
            at.replica,
            core.term(),
            at.unreported_for
        );
        Err(Violation::new("disk stall", what))
    }
}
