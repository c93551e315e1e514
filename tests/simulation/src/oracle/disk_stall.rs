//! No leadership on a hung disk: a leader whose oldest record has waited for the stall timeout leads no longer (cases/open.md B11).

use super::Violation;
use crate::protocol::Moment;
use quorate_framework::limits;
use quorate_raft::Raft;
use std::time::Duration;

/// The timeout on the slowest clock, and the time of a few turns.
const PATIENCE: Duration = Duration::from_millis(limits::DISK_STALL_TIMEOUT_MS * 5 / 4 + 300);

pub(super) fn check(at: Moment, core: &Raft) -> Result<(), Violation> {
    if !core.is_leader() || at.unreported_for < PATIENCE {
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
