//! Watches the replicas' resident memory during a measurement, from a thread of its own: a peak between start and end is seen too.

use crate::replicas::{Statuses, read_statuses};
use quorate_config::ReplicaAddress;
use quorate_framework::ReplicaId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Between two samples. A replica answers each with a picture of its core, so not often.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// The resident memory of one replica, in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RssMib {
    /// At the start of the measurement.
    pub start: f64,
    /// At its end.
    pub end: f64,
    /// The most of start, end and a sample each second.
    pub max: f64,
}

impl RssMib {
    /// From bytes.
    #[must_use]
    pub fn new(start_bytes: u64, end_bytes: u64) -> RssMib {
        let (start, end) = (mebibytes(start_bytes), mebibytes(end_bytes));
        RssMib { start, end, max: start.max(end) }
    }

    /// Takes a sample into account.
    pub fn sampled(&mut self, bytes: u64) {
        self.max = self.max.max(mebibytes(bytes));
    }

    /// Of the same replica seen by another client.
    pub fn merge(&mut self, other: &RssMib) {
        self.max = self.max.max(other.max);
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The most memory of each replica, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peaks(BTreeMap<ReplicaId, u64>);

impl Peaks {
    fn take(&mut self, statuses: &Statuses) {
        for (id, status) in statuses {
            if let Some(bytes) = status.as_ref().ok().and_then(|status| status.process.resident_bytes) {
                let peak = self.0.entry(*id).or_default();
                *peak = bytes.max(*peak);
            }
        }
    }

    /// That of one replica; none if it was never seen.
    #[must_use]
    pub fn of(&self, id: ReplicaId) -> Option<u64> {
        self.0.get(&id).copied()
    }
}

/// A watch that runs.
#[derive(Debug)]
pub struct MemoryWatch {
    /// Dropping it ends the watch.
    running: Sender<()>,
    thread: JoinHandle<Peaks>,
}

impl MemoryWatch {
    /// Begins to watch.
    ///
    /// # Errors
    /// This machine gave no thread.
    pub fn start(replicas: Vec<ReplicaAddress>) -> io::Result<MemoryWatch> {
        let (running, ended) = mpsc::channel::<()>();
        let thread = thread::Builder::new().name("memory".into()).spawn(move || {
            let mut peaks = Peaks::default();
            while ended.recv_timeout(SAMPLE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                peaks.take(&read_statuses(&replicas));
            }
            peaks
        })?;
        Ok(MemoryWatch { running, thread })
    }

    /// Ends it. Blocks until a sample under way is taken, for 1.5 s at most.
    #[must_use]
    pub fn end(self) -> Peaks {
        drop(self.running);
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn statuses(list: &[(u32, Option<u64>)]) -> Statuses {
        let status = |bytes: Option<u64>| match bytes {
            Some(bytes) => Ok(serde_json::from_value(json!({ "process": { "resident_bytes": bytes } })).unwrap()),
            None => Err("gone".to_owned()),
        };
        list.iter().map(|(id, bytes)| (ReplicaId(*id), status(*bytes))).collect()
    }

    #[test]
    fn the_peak_is_the_most_of_all_samples_and_of_start_and_end() {
        let mut peaks = Peaks::default();
        for sample in [&[(1, Some(5 << 20)), (2, None)][..], &[(1, Some(9 << 20)), (2, None)], &[(1, Some(7 << 20))]] {
            peaks.take(&statuses(sample));
        }
        assert_eq!((peaks.of(ReplicaId(1)), peaks.of(ReplicaId(2))), (Some(9 << 20), None));
        let mut rss = RssMib::new(4 << 20, 6 << 20);
        assert_eq!(rss.max, 6.0);
        rss.sampled(9 << 20);
        rss.sampled(1 << 20);
        assert_eq!(rss, RssMib { start: 4.0, end: 6.0, max: 9.0 });
    }

    #[test]
    fn a_watch_ends_at_once_when_it_is_told() {
        let began = std::time::Instant::now();
        let peaks = MemoryWatch::start(Vec::new()).unwrap().end();
        assert_eq!(peaks, Peaks::default());
        assert!(began.elapsed() < SAMPLE_INTERVAL, "{:?}", began.elapsed());
    }
}
