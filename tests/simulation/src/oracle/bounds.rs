//! Bounded queues and log.

use super::Violation;
use quorate_framework::limits;
use quorate_node::driver::DriverStatus;

/// Bytes by which a log may exceed its bound: entries that were not the leader's to refuse (NO-OPs, and what an older leader had
/// accepted), and groups that give their memory back only as a whole.
const SLACK_BYTES: usize = 256 << 10;

/// Checks queues and memory of one replica.
///
/// # Errors
/// A [`Violation`].
pub fn check(status: &DriverStatus, log_memory_bytes: usize) -> Result<(), Violation> {
    let pinned = status.protocol.log_memory_bytes as usize;
    let most = 2 * log_memory_bytes + SLACK_BYTES;
    if pinned > most {
        return Err(Violation::new(
            "bounds",
            format!("replica {} pins {pinned} bytes of log, above {most}", status.replica),
        ));
    }
    if status.admitted_frames > limits::CLIENT_ADMISSION_FRAMES
        || status.admitted_bytes > limits::CLIENT_ADMISSION_BYTES
    {
        let what = format!(
            "replica {} admitted {} frames, {} bytes",
            status.replica, status.admitted_frames, status.admitted_bytes
        );
        return Err(Violation::new("bounds", what));
    }
    Ok(())
}
