//! What the replicas say of themselves: `/status` before, at the start, at the end and after a measurement.

use crate::memory::RssMib;
use crate::round_trips::RoundTripStatus;
use quorate_config::ReplicaAddress;
use quorate_framework::ReplicaId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

/// Time for one `/status`.
const STATUS_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Bytes of a `/status` at most.
const STATUS_BYTES_MAX: u64 = 4 << 20;

/// The part of `/status` that is read here; everything may be missing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReplicaStatus {
    /// The replica's id.
    pub id: Option<u32>,
    /// Its cluster, in hexadecimal.
    pub cluster_id: Option<String>,
    /// Its incarnation, in hexadecimal.
    pub incarnation: Option<String>,
    /// Whether anything survives the process.
    pub durable: Option<bool>,
    /// When its log is synced: `always` or `never`; none with recovery off.
    pub wal_sync: Option<String>,
    /// Its role, in the protocol's own word.
    pub role: Option<String>,
    /// Its term or view.
    pub view: Option<u64>,
    /// Who leads, as it knows.
    pub leader: Option<u32>,
    /// Peers whose incarnation is not bound.
    pub unbound: Vec<u32>,
    /// Why it has stopped, if it has.
    pub stopped: Option<String>,
    /// Counters since its start.
    pub counters: BTreeMap<String, u64>,
    /// What its operating system says.
    pub process: ProcessStatus,
    /// The names of its threads.
    pub threads: Vec<String>,
    /// Round trips to its peers, in milliseconds.
    pub round_trip_ms: Option<RoundTripStatus>,
    /// Syncs of its log, in milliseconds.
    pub fsync_ms: Option<Percentiles>,
    /// Its settings.
    pub settings: Value,
    /// The commit it was built from.
    pub commit: Option<String>,
}

/// The part of a process's figures that is read here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ProcessStatus {
    /// Processor time in user mode, in microseconds.
    pub cpu_user_us: Option<u64>,
    /// Processor time in the kernel, in microseconds.
    pub cpu_system_us: Option<u64>,
    /// Resident memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
}

impl ProcessStatus {
    fn cpu_us(&self) -> Option<u64> {
        Some(self.cpu_user_us? + self.cpu_system_us?)
    }
}

/// Median and tail with the number of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Measurements.
    #[serde(default)]
    pub count: u64,
}

/// The status of each replica, or why there is none.
pub type Statuses = BTreeMap<ReplicaId, Result<ReplicaStatus, String>>;

/// Asks all replicas at once. Blocks for 1.5 s at most.
#[must_use]
pub fn read_statuses(replicas: &[ReplicaAddress]) -> Statuses {
    let configuration = ureq::Agent::config_builder().timeout_global(Some(STATUS_TIMEOUT)).build();
    let agent = ureq::Agent::new_with_config(configuration);
    thread::scope(|scope| {
        let ask = |replica: &ReplicaAddress| {
            let (id, address, agent) = (replica.id, replica.http_address(), agent.clone());
            (id, scope.spawn(move || read_status(&agent, &address)))
        };
        let asked: Vec<_> = replicas.iter().map(ask).collect();
        let joined = asked.into_iter().map(|(id, thread)| (id, thread.join()));
        joined
            .map(|(id, result)| (id, result.unwrap_or_else(|_| Err("its status could not be read".to_owned()))))
            .collect()
    })
}

fn read_status(agent: &ureq::Agent, address: &str) -> Result<ReplicaStatus, String> {
    let describe = |error: ureq::Error| format!("no status at {address}: {error}");
    let mut response = agent.get(format!("http://{address}/status")).call().map_err(describe)?;
    let bytes = response.body_mut().with_config().limit(STATUS_BYTES_MAX).read_to_vec().map_err(describe)?;
    serde_json::from_slice(&bytes).map_err(|error| format!("the status at {address} is not understood: {error}"))
}

/// What one replica did during a measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicaFigures {
    /// The replica.
    pub id: u32,
    /// Its role at the end, in the protocol's own word.
    pub role: Option<String>,
    /// Whether it led at the end, as most replicas know.
    pub is_leader: bool,
    /// Whether it led at the start and at the end, in one term or view.
    pub led_throughout: bool,
    /// Whether its status was there at the start.
    pub reachable_at_start: bool,
    /// Whether its status was there at the end.
    pub reachable_at_end: bool,
    /// Whether it is another process or another life than at the start.
    pub restarted: bool,
    /// Whether others do not count it, because its incarnation is not bound.
    pub is_unbound: bool,
    /// Transactions it executed.
    pub executed: Option<u64>,
    /// Processor time it used, in microseconds.
    pub cpu_us: Option<u64>,
    /// Its resident memory at the end, in bytes.
    pub resident_bytes: Option<u64>,
    /// Its resident memory at the start, at the end and at most.
    pub rss_mib: Option<RssMib>,
    /// Its threads at the end.
    pub threads: Option<u64>,
    /// Their names, as far as the system tells.
    pub thread_names: Vec<String>,
    /// What each of its counters grew by.
    pub counter_growth: BTreeMap<String, u64>,
    /// Its counters at the start and at the end, for merging the results of several clients.
    pub counters_at_start: BTreeMap<String, u64>,
    /// See `counters_at_start`.
    pub counters_at_end: BTreeMap<String, u64>,
    /// Processor time since its start, at the start and at the end of the measurement, in microseconds.
    pub cpu_us_at: Option<(u64, u64)>,
}

/// What each replica did between two statuses.
#[must_use]
pub fn compare(start: &Statuses, end: &Statuses) -> Vec<ReplicaFigures> {
    let unbound: Vec<u32> = end.values().flatten().flat_map(|status| status.unbound.iter().copied()).collect();
    let leader = leader_of(end);
    let led_throughout = leader.filter(|id| leader_of(start) == leader && view_of(start, *id) == view_of(end, *id));
    let figures = |(id, last): (&ReplicaId, &Result<ReplicaStatus, String>)| {
        let first = start.get(id).and_then(|status| status.as_ref().ok());
        let last = last.as_ref().ok();
        let mut figures = ReplicaFigures {
            id: id.0,
            role: last.and_then(|status| status.role.clone()),
            reachable_at_start: first.is_some(),
            reachable_at_end: last.is_some_and(|status| status.stopped.is_none()),
            is_leader: leader == Some(id.0),
            led_throughout: led_throughout == Some(id.0),
            is_unbound: unbound.contains(&id.0),
            resident_bytes: last.and_then(|status| status.process.resident_bytes),
            threads: last.and_then(|status| status.process.threads),
            thread_names: last.map(|status| status.threads.clone()).unwrap_or_default(),
            ..ReplicaFigures::default()
        };
        if let (Some(first), Some(last)) = (first, last) {
            figures.restarted = first.incarnation != last.incarnation;
            figures.counters_at_start = first.counters.clone();
            figures.counters_at_end = last.counters.clone();
            figures.cpu_us_at = first.process.cpu_us().zip(last.process.cpu_us());
            figures.derive();
            let memory = first.process.resident_bytes.zip(last.process.resident_bytes);
            figures.rss_mib = memory.filter(|_| !figures.restarted).map(|(first, last)| RssMib::new(first, last));
        }
        figures
    };
    end.iter().map(figures).collect()
}

/// Who leads, as most replicas know.
#[must_use]
pub fn leader_of(statuses: &Statuses) -> Option<u32> {
    let mut votes = BTreeMap::<u32, usize>::new();
    for leader in statuses.values().flatten().filter_map(|status| status.leader) {
        *votes.entry(leader).or_default() += 1;
    }
    votes.into_iter().max_by_key(|(_, count)| *count).map(|(leader, _)| leader)
}

fn view_of(statuses: &Statuses, id: u32) -> Option<u64> {
    statuses.get(&ReplicaId(id))?.as_ref().ok()?.view
}

impl ReplicaFigures {
    /// Works out what follows from the counters at start and end.
    pub fn derive(&mut self) {
        let counters = (&self.counters_at_start, &self.counters_at_end);
        // A counter that fell is one of another process.
        let fell = counters.0.iter().any(|(name, before)| counters.1.get(name).is_some_and(|after| after < before));
        let cpu_fell = self.cpu_us_at.is_some_and(|(before, after)| after < before);
        self.restarted |= fell || cpu_fell;
        self.counter_growth.clear();
        (self.executed, self.cpu_us) = (None, None);
        if self.restarted {
            return;
        }
        for (name, after) in counters.1 {
            let before = counters.0.get(name).copied().unwrap_or(0);
            self.counter_growth.insert(name.clone(), after - before);
        }
        self.executed = self.counter_growth.get("transactions_executed").copied();
        self.cpu_us = self.cpu_us_at.map(|(before, after)| after - before);
    }
}

/// The settings that replicas say they have, one item for all that say the same.
#[must_use]
pub fn grouped_settings(statuses: &Statuses) -> Value {
    let mut groups: Vec<(Vec<u32>, &Value)> = Vec::new();
    for (id, status) in statuses {
        let Ok(status) = status else { continue };
        match groups.iter_mut().find(|(_, settings)| *settings == &status.settings) {
            Some((ids, _)) => ids.push(id.0),
            None => groups.push((vec![id.0], &status.settings)),
        }
    }
    groups.into_iter().map(|(ids, settings)| serde_json::json!({ "replicas": ids, "settings": settings })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn status(value: Value) -> Result<ReplicaStatus, String> {
        Ok(serde_json::from_value(value).unwrap())
    }

    fn of(id: u32, status: Result<ReplicaStatus, String>) -> Statuses {
        [(ReplicaId(id), status)].into()
    }

    #[test]
    fn growth_is_what_lies_between_start_and_end() {
        let at = |executed: u64, cpu: u64| {
            status(json!({
                "incarnation": "a", "role": "leader", "counters": { "transactions_executed": executed, "write_calls": 5 },
                "process": { "cpu_user_us": cpu, "cpu_system_us": 10, "resident_bytes": 77 }, "something_new": [1]
            }))
        };
        let figures = compare(&of(1, at(100, 1_000)), &of(1, at(350, 1_600))).remove(0);
        assert_eq!((figures.executed, figures.cpu_us, figures.resident_bytes), (Some(250), Some(600), Some(77)));
        assert_eq!(figures.counter_growth["write_calls"], 0);
        assert!(figures.reachable_at_start && figures.reachable_at_end && !figures.restarted);
    }

    #[test]
    fn a_restart_or_a_missing_status_leaves_no_figures_that_could_mislead() {
        let first = of(1, status(json!({ "incarnation": "a", "counters": { "transactions_executed": 9 } })));
        let other_life = of(1, status(json!({ "incarnation": "b", "counters": { "transactions_executed": 90 } })));
        let figures = compare(&first, &other_life).remove(0);
        assert_eq!((figures.restarted, figures.executed), (true, None));
        let fell = of(1, status(json!({ "incarnation": "a", "counters": { "transactions_executed": 3 } })));
        assert!(compare(&first, &fell)[0].restarted);
        let gone = compare(&first, &of(1, Err("refused".into()))).remove(0);
        assert_eq!((gone.reachable_at_start, gone.reachable_at_end, gone.executed), (true, false, None));
    }

    #[test]
    fn the_leader_of_both_ends_led_throughout_only_in_one_view_and_memory_and_threads_are_told() {
        let at = |view: u64, bytes: u64| {
            let process = json!({ "resident_bytes": bytes, "threads": 3 });
            status(json!({ "view": view, "leader": 1, "process": process, "threads": ["core", "http", "narrator"] }))
        };
        let figures = compare(&of(1, at(4, 2 << 20)), &of(1, at(4, 3 << 20))).remove(0);
        assert!(figures.is_leader && figures.led_throughout);
        assert_eq!(figures.rss_mib, Some(RssMib { start: 2.0, end: 3.0, max: 3.0 }));
        assert_eq!((figures.threads, figures.thread_names.len()), (Some(3), 3));
        let figures = compare(&of(1, at(4, 1)), &of(1, at(6, 1))).remove(0);
        assert!(figures.is_leader && !figures.led_throughout, "it lost the lead and won it back");
    }

    #[test]
    fn a_status_is_read_over_http_and_a_dead_replica_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let http_port = listener.local_addr().unwrap().port();
        let serve = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1_024];
            let read = stream.read(&mut request).unwrap();
            assert!(request[..read].starts_with(b"GET /status HTTP/1.1\r\n"));
            let body = r#"{"id": 1, "durable": false, "round_trip_ms": {"p50": 0.1, "p99": 0.5, "count": 3}}"#;
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.write_all((head + body).as_bytes()).unwrap();
            http_port
        });
        let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let replica = |id, http_port| ReplicaAddress {
            id: ReplicaId(id),
            host: "127.0.0.1".into(),
            port: 1,
            http_port,
            resp_port: 2,
        };
        let statuses = read_statuses(&[replica(1, http_port), replica(2, dead)]);
        serve.join().unwrap();
        let first = statuses[&ReplicaId(1)].as_ref().unwrap();
        assert_eq!(
            (first.id, first.durable, first.round_trip_ms.as_ref().map(|trip| trip.p99)),
            (Some(1), Some(false), Some(0.5))
        );
        let error = statuses[&ReplicaId(2)].as_ref().unwrap_err();
        assert!(error.contains(&format!("127.0.0.1:{dead}")), "{error}");
    }

    #[test]
    fn equal_settings_are_listed_once() {
        let with = |value: u32| status(json!({ "settings": { "a": value } }));
        let statuses: Statuses =
            [(ReplicaId(1), with(1)), (ReplicaId(2), with(2)), (ReplicaId(3), with(1))].into_iter().collect();
        let expected =
            json!([{ "replicas": [1, 3], "settings": { "a": 1 } }, { "replicas": [2], "settings": { "a": 2 } }]);
        assert_eq!(grouped_settings(&statuses), expected);
    }
}
