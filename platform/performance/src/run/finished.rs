//! From what a run has left to its result.

use super::LoadError;
use crate::clock::RunClock;
use crate::derived::{ClientUse, derive_from_replicas};
use crate::gaps::common_gaps;
use crate::host::HostFacts;
use crate::judge::{histogram_to_list, judge, latencies};
use crate::memory::Peaks;
use crate::monitor::{Samples, Watched};
use crate::plan::LoadPlan;
use crate::recording::{Recording, latency_histogram};
use crate::replicas::{ReplicaFigures, Statuses, compare, grouped_settings, leader_of};
use crate::result::{FailureCounts, LoadAverage, LoadResult, MedianAndTailMs, RunSettings};
use crate::round_trips::RoundTripMs;
use quorate_framework::ReplicaId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What is known at one moment of the measurement.
pub(super) struct Moment {
    pub(super) statuses: Statuses,
    pub(super) cpu: Duration,
    /// System calls of this process on its connections.
    pub(super) socket_calls: u64,
    pub(super) refused: u64,
    pub(super) retried: u64,
}

/// Everything a run has left.
pub(super) struct Finished {
    pub(super) clock: Arc<RunClock>,
    pub(super) watched: Vec<Watched>,
    pub(super) samples: Samples,
    pub(super) failures: FailureCounts,
    pub(super) before: Statuses,
    pub(super) at_start: Moment,
    pub(super) at_end: Moment,
    pub(super) peaks: Peaks,
    pub(super) after: Statuses,
    pub(super) started_unix_ms: u64,
    pub(super) fsync: Option<MedianAndTailMs>,
    pub(super) durable: Option<bool>,
    pub(super) wal_sync: Option<String>,
}

impl Finished {
    pub(super) fn result(
        self,
        plan: &LoadPlan,
        mut nulls: BTreeMap<String, String>,
        load_average: LoadAverage,
    ) -> Result<LoadResult, LoadError> {
        let seconds = self.clock.measured().as_secs_f64();
        if seconds == 0.0 {
            return Err(LoadError::Stopped);
        }
        let mut histogram = latency_histogram();
        let (mut latency_sum, mut batches, mut accepted, mut in_all) = (Duration::ZERO, 0, 0, 0);
        let mut gaps = Vec::new();
        for watched in &self.watched {
            let (measured, gaps_of) = watched.recording.finish();
            // All have the same bounds.
            let _ = histogram.add(&measured.histogram);
            latency_sum += measured.latency_sum;
            batches += measured.batches;
            accepted += measured.transactions;
            in_all += measured.transactions_in_all;
            gaps.push(gaps_of);
        }
        let sum = |count: fn(&Recording) -> u64| self.watched.iter().map(|one| count(&one.recording)).sum::<u64>();
        let errors = sum(Recording::errors);
        let latency_sum_us = latency_sum.as_secs_f64() * 1e6;
        let (Some(latency_ms), Some(in_flight_mean)) = (latencies(&histogram, latency_sum_us), self.samples.mean())
        else {
            let examples = self.failures.examples.iter().map(|example| format!("; {example}")).collect();
            return Err(LoadError::NoSamples { seconds, errors, examples });
        };
        let mut notes = self.notes(plan, seconds);
        let rtt_ms = self.round_trip(plan, &mut nulls, &mut notes);
        if self.durable.is_none() {
            nulls.insert("durable".to_owned(), "no replica's status says so, or they differ".to_owned());
        }
        if self.wal_sync.is_none() {
            let reason = match self.durable {
                Some(false) => "recovery is off: there is no log to sync",
                _ => "no replica's status says so, or they differ",
            };
            nulls.insert("wal_sync".to_owned(), reason.to_owned());
        }
        let commit = self.commit();
        if commit.is_none() {
            nulls.insert("commit".to_owned(), "neither the replicas nor this program know it".to_owned());
        }
        let mut result = LoadResult {
            experiment: "load".to_owned(),
            protocol: plan.cluster.settings().consensus.name().to_owned(),
            replicas: plan.cluster.replicas().len(),
            durable: self.durable,
            wal_sync: self.wal_sync.clone(),
            valid: false,
            invalid_because: self.executed_too_little(in_all).into_iter().collect(),
            interrupted: self.clock.was_ended_early(),
            throughput_per_s: accepted as f64 / seconds,
            batches_per_s: batches as f64 / seconds,
            latency_unit: latency_unit(plan),
            latency_ms,
            in_flight_mean,
            in_flight_standard_error: self.samples.standard_error(),
            little_law_ratio: None,
            fsync_ms: self.fsync,
            rtt_ms,
            leader_batch_mean: None,
            fsyncs_per_write: None,
            cpu_us_per_transaction: None,
            leader_cpu_us_per_transaction: None,
            follower_cpu_us_per_transaction: None,
            client_cpu_us_per_transaction: None,
            socket_calls_per_1000_transactions: None,
            leader_socket_calls_per_1000_transactions: None,
            follower_socket_calls_per_1000_transactions: None,
            client_socket_calls_per_1000_transactions: None,
            parks_per_1000_transactions: None,
            messages_per_batch: None,
            accepted,
            refused: sum(Recording::refused_in_all) - self.at_start.refused,
            retried: sum(Recording::retried_in_all) - self.at_start.retried,
            errors,
            failures: self.failures.clone(),
            gaps_ms: common_gaps(&gaps),
            leader_changes: self.watched.iter().map(|one| one.recording.leader_changes()).max().unwrap_or(0),
            reads: (plan.workload.read_share > 0.0)
                .then(|| "through the log, as commands: this version has no reads outside it".to_owned()),
            unsent: plan.rate_per_s.map(|_| self.unsent(plan)),
            duration_s: seconds,
            warm_up_s: plan.warm_up.as_secs_f64(),
            clients: 1,
            notes,
            load_average,
            host: HostFacts::read(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit,
            started_unix_ms: self.started_unix_ms,
            null_because: nulls,
            settings: RunSettings {
                client: plan.client_settings(),
                cluster: plan.cluster.effective_settings(),
                replicas: grouped_settings(&self.at_end.statuses),
            },
            replica_figures: self.replica_figures(),
            latency_sum_us,
            histogram_us: histogram_to_list(&histogram),
        };
        let client_cpu = self.at_end.cpu.saturating_sub(self.at_start.cpu);
        let socket_calls = self.at_end.socket_calls.saturating_sub(self.at_start.socket_calls);
        let client = ClientUse { cpu_us: client_cpu.as_secs_f64() * 1e6, socket_calls: Some(socket_calls as f64) };
        derive_from_replicas(&mut result, client);
        judge(&mut result);
        Ok(result)
    }

    fn replica_figures(&self) -> Vec<ReplicaFigures> {
        let mut figures = compare(&self.at_start.statuses, &self.at_end.statuses);
        for replica in &mut figures {
            if let (Some(memory), Some(peak)) = (&mut replica.rss_mib, self.peaks.of(ReplicaId(replica.id))) {
                memory.sampled(peak);
            }
        }
        figures
    }

    /// The leader's round trips in the measurement, or if it has none those of the replica that knows most of them. A measurement
    /// too short for a heartbeat has those of before.
    fn round_trip(
        &self,
        plan: &LoadPlan,
        nulls: &mut BTreeMap<String, String>,
        notes: &mut Vec<String>,
    ) -> Option<RoundTripMs> {
        let leader = leader_of(&self.at_end.statuses).and_then(|id| self.round_trip_of(ReplicaId(id), true));
        let most = |measured: bool| {
            let all = self.at_end.statuses.keys().filter_map(|id| self.round_trip_of(*id, measured));
            all.max_by_key(|trip| trip.count)
        };
        let mut found = leader.or_else(|| most(true));
        if found.is_none() {
            found = most(false);
            if found.is_some() {
                notes.push("no heartbeat was answered in the measurement: rtt_ms is of before".to_owned());
            }
        }
        match found {
            None => {
                let reason = match plan.cluster.replicas().len() {
                    1 => "a cluster of one has no round trips",
                    _ => "no replica's status says how long its round trips take",
                };
                nulls.insert("rtt_ms".to_owned(), reason.to_owned());
            }
            Some(RoundTripMs { p99_9, max, .. }) => {
                for (key, figure) in [("rtt_ms.p99_9", p99_9), ("rtt_ms.max", max)] {
                    if figure.is_none() {
                        nulls.insert(key.to_owned(), "the replica's status does not say".to_owned());
                    }
                }
            }
        }
        found
    }

    fn round_trip_of(&self, id: ReplicaId, measured: bool) -> Option<RoundTripMs> {
        let last = self.at_end.statuses.get(&id)?.as_ref().ok()?;
        let first = self.at_start.statuses.get(&id).and_then(|status| status.as_ref().ok());
        let first = first.filter(|first| measured && first.incarnation == last.incarnation);
        last.round_trip_ms.as_ref()?.since(first.and_then(|first| first.round_trip_ms.as_ref()))
    }

    fn commit(&self) -> Option<String> {
        let known = |commit: &String| commit != "unknown" && !commit.is_empty();
        let of_replicas =
            self.at_end.statuses.values().flatten().find_map(|status| status.commit.clone().filter(known));
        of_replicas.or_else(|| option_env!("QUORATE_COMMIT").map(str::to_owned))
    }

    /// An answer that nobody executed would be the worst of results: the replicas' own counts must cover what was answered.
    fn executed_too_little(&self, answered: u64) -> Option<String> {
        let growth = compare(&self.before, &self.after).into_iter().filter_map(|replica| replica.executed).max()?;
        (growth < answered)
            .then(|| format!("{answered} transactions were answered, but no replica executed more than {growth}"))
    }

    fn unsent(&self, plan: &LoadPlan) -> u64 {
        let of = |watched: &Watched| {
            let due = watched.schedule.map_or(0, |schedule| schedule.due(self.clock.end()));
            due.saturating_sub(watched.recording.issued_in_all())
        };
        self.watched.iter().map(of).sum::<u64>() * u64::from(plan.workload.batch)
    }

    fn notes(&self, plan: &LoadPlan, seconds: f64) -> Vec<String> {
        let mut notes = Vec::new();
        let cpu = self.at_end.cpu.saturating_sub(self.at_start.cpu).as_secs_f64();
        let share = cpu / seconds / plan.threads as f64;
        if share > 0.9 {
            notes.push(format!(
                "the load client used {:.0} % of a processor per generator thread: it may be the limit, not the cluster",
                share * 100.0
            ));
        }
        if self.durable == Some(false) {
            notes.push("not durable: recovery is off".to_owned());
        }
        if self.wal_sync.as_deref() == Some("never") {
            let note = "wal_sync is never: what was acknowledged survives the death of processes, not a power cut";
            notes.push(note.to_owned());
        }
        for id in &plan.expect_down {
            notes.push(format!("replica {id} was meant to be down"));
        }
        notes
    }
}

fn latency_unit(plan: &LoadPlan) -> String {
    let what = match plan.workload.batch {
        1 => "one batch of 1 transaction".to_owned(),
        count => format!("one batch of {count} transactions"),
    };
    let since = if plan.rate_per_s.is_some() { "the time it was meant to be sent" } else { "its first submit" };
    format!("{what}, from {since} through all retries")
}
