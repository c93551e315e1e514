//! What a client needs to know before it starts.

use quorate_config::ClusterConfig;
use quorate_framework::{ClusterId, ReplicaId, limits};
use std::time::Duration;
use thiserror::Error;

/// Where a replica takes native clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaEndpoint {
    /// Its id.
    pub id: ReplicaId,
    /// Name or address of its host, without a port.
    pub host: String,
    /// Its port for peers and native clients.
    pub port: u16,
}

impl ReplicaEndpoint {
    /// `host:port`, with brackets around an IPv6 address.
    #[must_use]
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Everything a client is started with. [`ClientOptions::new`] gives the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// The cluster that is meant; a replica of another one refuses the connection. None: whichever answers.
    pub cluster: Option<ClusterId>,
    /// The replicas; at least one.
    pub replicas: Vec<ReplicaEndpoint>,
    /// Frames in flight at most. As many sessions are opened as this needs.
    pub window_frames: usize,
    /// Connections to the leader.
    pub connections: usize,
    /// Sequences above its low mark that a session holds, as the cluster is configured. At most half of it is in flight.
    pub session_window_frames: u64,
    /// After this time without a sign of life of the replica an attempt is repeated elsewhere, in the same session.
    pub attempt_timeout: Duration,
    /// After this time since its submit a request ends, whatever is known of it by then.
    pub request_deadline: Duration,
    /// Time for one connection, handshake included.
    pub connect_timeout: Duration,
    /// Pauses between attempts.
    pub pauses: Pauses,
}

/// Pauses between attempts: each doubles from the first to the longest, and is shortened by up to half at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// First pause of a request that was answered `Busy` while nothing else is out.
    pub busy_min: Duration,
    /// Longest pause of a request that was answered `Busy`.
    pub busy_max: Duration,
    /// First pause in the search of a leader that nobody knows.
    pub search_min: Duration,
    /// Longest pause in that search.
    pub search_max: Duration,
    /// First pause before a replica that could not be reached is dialled again.
    pub dial_min: Duration,
    /// Longest pause before a replica that could not be reached is dialled again.
    pub dial_max: Duration,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses {
            busy_min: Duration::from_millis(1),
            busy_max: Duration::from_millis(100),
            search_min: Duration::from_millis(2),
            search_max: Duration::from_millis(100),
            dial_min: Duration::from_millis(limits::RECONNECT_BACKOFF_MS_MIN),
            dial_max: Duration::from_millis(limits::RECONNECT_BACKOFF_MS_MAX),
        }
    }
}

/// Options that no client can work with.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionsError {
    /// Nobody to talk to.
    #[error("no replica is named")]
    NoReplicas,
    /// Two replicas with one id.
    #[error("replica {0} is named twice")]
    DuplicateReplica(ReplicaId),
    /// A number or a time that is zero.
    #[error("{0} is zero")]
    Zero(&'static str),
}

impl ClientOptions {
    /// The defaults for these replicas.
    #[must_use]
    pub fn new(cluster: Option<ClusterId>, replicas: Vec<ReplicaEndpoint>) -> ClientOptions {
        ClientOptions {
            cluster,
            replicas,
            window_frames: 256,
            connections: 1,
            session_window_frames: limits::SESSION_WINDOW_FRAMES,
            attempt_timeout: Duration::from_secs(1),
            request_deadline: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(1),
            pauses: Pauses::default(),
        }
    }

    /// The defaults for the cluster of a file.
    #[must_use]
    pub fn of_cluster(cluster: &ClusterConfig) -> ClientOptions {
        let endpoint = |replica: &quorate_config::ReplicaAddress| ReplicaEndpoint {
            id: replica.id,
            host: replica.host.clone(),
            port: replica.port,
        };
        let replicas = cluster.replicas().iter().map(endpoint).collect();
        let session_window_frames = cluster.settings().session_window;
        ClientOptions { session_window_frames, ..ClientOptions::new(Some(cluster.cluster_id()), replicas) }
    }

    /// Frames that one session keeps in flight at most: half of its window.
    #[must_use]
    pub fn frames_per_session(&self) -> usize {
        usize::try_from(self.session_window_frames / 2).unwrap_or(usize::MAX).max(1)
    }

    /// Sessions that the window needs; at least one for each connection, so that connections can share the load.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.window_frames.div_ceil(self.frames_per_session()).max(self.connections.min(self.window_frames))
    }

    /// Checks what no client can work with.
    ///
    /// # Errors
    /// [`OptionsError`].
    pub fn check(&self) -> Result<(), OptionsError> {
        if self.replicas.is_empty() {
            return Err(OptionsError::NoReplicas);
        }
        let mut ids: Vec<ReplicaId> = self.replicas.iter().map(|replica| replica.id).collect();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(OptionsError::DuplicateReplica(pair[0]));
        }
        let zero = [
            (self.window_frames == 0, "the window"),
            (self.connections == 0, "the number of connections"),
            (self.session_window_frames == 0, "the session window"),
            (self.attempt_timeout.is_zero(), "the time for an attempt"),
            (self.request_deadline.is_zero(), "the time for a request"),
            (self.connect_timeout.is_zero(), "the time for a connection"),
        ];
        match zero.into_iter().find(|(is_zero, _)| *is_zero) {
            Some((_, what)) => Err(OptionsError::Zero(what)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(window_frames: usize, connections: usize) -> ClientOptions {
        let replica = ReplicaEndpoint { id: ReplicaId(1), host: "::1".into(), port: 7 };
        ClientOptions { window_frames, connections, ..ClientOptions::new(None, vec![replica]) }
    }

    #[test]
    fn a_window_is_spread_over_as_many_sessions_as_fill_half_of_theirs() {
        for (window, connections, sessions) in
            [(1, 1, 1), (512, 1, 1), (513, 1, 2), (2048, 1, 4), (256, 4, 4), (2, 4, 2)]
        {
            assert_eq!(options(window, connections).sessions(), sessions, "{window} over {connections}");
        }
    }

    #[test]
    fn options_nobody_can_work_with_are_refused_by_name() {
        assert_eq!(options(1, 1).check(), Ok(()));
        assert_eq!(options(0, 1).check(), Err(OptionsError::Zero("the window")));
        assert_eq!(options(1, 0).check(), Err(OptionsError::Zero("the number of connections")));
        let mut twice = options(1, 1);
        twice.replicas.push(twice.replicas[0].clone());
        assert_eq!(twice.check(), Err(OptionsError::DuplicateReplica(ReplicaId(1))));
        assert_eq!(twice.replicas[0].address(), "[::1]:7");
        twice.replicas.clear();
        assert_eq!(twice.check(), Err(OptionsError::NoReplicas));
    }
}
