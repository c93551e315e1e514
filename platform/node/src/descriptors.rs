//! Room for connections among the descriptors that the operating system gives a process.

use quorate_framework::limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that a process needs beside the connections of peers and clients: those of `/status`, of peers that pull a snapshot and
/// of the files they pull, the listeners, the runtime, the log, and some for whatever else is open for a moment.
const OTHERS: u64 = crate::http::CONNECTIONS as u64 + 2 * limits::SNAPSHOT_CONNECTIONS as u64 + 64;

/// Raises the process's soft limit of descriptors as far as it is allowed and needed, and gives how many of the `wanted` connections
/// then fit. Clients that take every descriptor would otherwise keep peers and operators out.
pub(crate) fn room_for_connections(wanted: usize) -> usize {
    let needed = wanted as u64 + OTHERS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(soft) = current.filter(|soft| *soft < needed) else { return wanted };
    let raised = needed.min(maximum.unwrap_or(needed));
    let limit = match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
        Ok(()) => raised,
        Err(_) => soft,
    };
    let fitting = fitting(wanted, limit);
    if fitting < wanted {
        tracing::warn!(
            "only {fitting} of max_connections = {wanted} connections fit the limit of {limit} open files; raise it (ulimit -n) to {needed}"
        );
    }
    fitting
}

/// How many of the wanted connections fit a limit of descriptors; at least one each for a peer, a client and a handshake.
fn fitting(wanted: usize, limit: u64) -> usize {
    usize::try_from(limit.saturating_sub(OTHERS)).unwrap_or(usize::MAX).clamp(3, wanted.max(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_everything_else() {
        assert_eq!(fitting(1_024, 1_024), 1_024 - OTHERS as usize);
        assert_eq!(fitting(1_024, 1_000_000), 1_024);
        assert_eq!(fitting(1_024, 10), 3);
    }

    #[test]
    fn what_fits_already_is_given_whole() {
        assert_eq!(room_for_connections(16), 16);
    }
}
