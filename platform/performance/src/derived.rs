//! What follows from the figures of the replicas and of the load clients: costs per transaction, by role, and per batch.

use crate::replicas::ReplicaFigures;
use crate::result::LoadResult;

/// What the load clients used during the measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientUse {
    /// Processor time, in microseconds.
    pub cpu_us: f64,
    /// System calls on connections.
    pub socket_calls: Option<f64>,
}

/// Whether a replica was meant to be down.
#[must_use]
pub fn is_expected_down(client_settings: &serde_json::Value, id: u32) -> bool {
    client_settings["expect_down"].as_array().is_some_and(|ids| ids.iter().any(|value| *value == id))
}

/// Fills in what follows from the replicas' figures.
pub fn derive_from_replicas(result: &mut LoadResult, client: ClientUse) {
    let up: Vec<ReplicaFigures> = result
        .replica_figures
        .iter()
        .filter(|replica| replica.reachable_at_end || !is_expected_down(&result.settings.client, replica.id))
        .cloned()
        .collect();
    let accepted = result.accepted.max(1) as f64;

    let cpu = Costs::new(&up, "processor time", |replica| replica.cpu_us.map(|cpu| cpu as f64));
    let client_cpu = client.cpu_us / accepted;
    result.client_cpu_us_per_transaction = Some(client_cpu);
    result.leader_cpu_us_per_transaction = take(result, "leader_cpu_us_per_transaction", cpu.leader());
    result.follower_cpu_us_per_transaction = take(result, "follower_cpu_us_per_transaction", cpu.follower());
    let all = cpu.sum().map(|sum| sum + client_cpu);
    result.cpu_us_per_transaction = take(result, "cpu_us_per_transaction", all);

    let calls = Costs::new(&up, "counter socket_calls", thousand_of("socket_calls"));
    let client_calls = client.socket_calls.map(|calls| calls * 1_000.0 / accepted);
    let client_calls = client_calls.ok_or_else(|| "a client did not count its system calls".to_owned());
    let all = calls.sum().and_then(|sum| Ok(sum + client_calls.clone()?));
    result.socket_calls_per_1000_transactions = take(result, "socket_calls_per_1000_transactions", all);
    result.leader_socket_calls_per_1000_transactions =
        take(result, "leader_socket_calls_per_1000_transactions", calls.leader());
    result.follower_socket_calls_per_1000_transactions =
        take(result, "follower_socket_calls_per_1000_transactions", calls.follower());
    result.client_socket_calls_per_1000_transactions =
        take(result, "client_socket_calls_per_1000_transactions", client_calls);

    let parks = Costs::new(&up, "counter parks", thousand_of("parks")).sum();
    result.parks_per_1000_transactions = take(result, "parks_per_1000_transactions", parks);
    result.messages_per_batch = take(result, "messages_per_batch", messages_per_batch(&up));
    result.leader_batch_mean = take(result, "leader_batch_mean", leader_batch_mean(&result.replica_figures));
    let fsyncs = fsyncs_per_write(&up, result.durable);
    result.fsyncs_per_write = take(result, "fsyncs_per_write", fsyncs);

    note_missing(result, &up, "rss_mib", |replica| replica.rss_mib.is_some());
    note_missing(result, &up, "threads", |replica| replica.threads.is_some());
}

/// The figure, or null with its reason.
fn take(result: &mut LoadResult, key: &str, figure: Result<f64, String>) -> Option<f64> {
    match figure {
        Ok(figure) => {
            result.null_because.remove(key);
            Some(figure)
        }
        Err(reason) => {
            result.null_because.insert(key.to_owned(), reason);
            None
        }
    }
}

/// Says which replicas have no such figure.
fn note_missing(result: &mut LoadResult, up: &[ReplicaFigures], key: &str, has: impl Fn(&ReplicaFigures) -> bool) {
    let missing: Vec<String> =
        up.iter().filter(|replica| !has(replica)).map(|replica| replica.id.to_string()).collect();
    let key = format!("replica_figures.{key}");
    if missing.is_empty() {
        result.null_because.remove(&key);
    } else {
        let reason = format!("not told at start and end by one life of replica {}", missing.join(", "));
        result.null_because.insert(key, reason);
    }
}

/// What each replica spent on a transaction.
struct Costs(Result<Vec<(bool, f64)>, String>);

impl Costs {
    fn new(replicas: &[ReplicaFigures], what: &str, spent: impl Fn(&ReplicaFigures) -> Option<f64>) -> Costs {
        let cost = |replica: &ReplicaFigures| match (spent(replica), replica.executed) {
            (Some(spent), Some(executed)) if executed > 0 => Ok((replica.led_throughout, spent / executed as f64)),
            _ => Err(format!("replica {} has no {what} or executed transactions to compare", replica.id)),
        };
        Costs(replicas.iter().map(cost).collect())
    }

    fn sum(&self) -> Result<f64, String> {
        Ok(self.0.as_ref().map_err(String::clone)?.iter().map(|(_, cost)| cost).sum())
    }

    fn leader(&self) -> Result<f64, String> {
        let costs = self.0.as_ref().map_err(String::clone)?;
        let leader = costs.iter().find(|(led, _)| *led).map(|(_, cost)| *cost);
        leader.ok_or_else(|| "no replica led from the start of the measurement to its end".to_owned())
    }

    /// The mean of the followers.
    fn follower(&self) -> Result<f64, String> {
        self.leader()?;
        let costs = self.0.as_ref().map_err(String::clone)?;
        let followers: Vec<f64> = costs.iter().filter(|(led, _)| !led).map(|(_, cost)| *cost).collect();
        match followers.len() {
            0 => Err("there was no follower".to_owned()),
            count => Ok(followers.iter().sum::<f64>() / count as f64),
        }
    }
}

fn thousand_of(counter: &str) -> impl Fn(&ReplicaFigures) -> Option<f64> {
    move |replica| replica.counter_growth.get(counter).map(|growth| *growth as f64 * 1_000.0)
}

fn growth_of(replica: &ReplicaFigures, counter: &str) -> Result<u64, String> {
    let growth = replica.counter_growth.get(counter).copied();
    growth.ok_or_else(|| format!("the status of replica {} has no counter {counter} to compare", replica.id))
}

fn messages_per_batch(replicas: &[ReplicaFigures]) -> Result<f64, String> {
    let (mut messages, mut batches) = (0, 0);
    for replica in replicas {
        messages += growth_of(replica, "peer_frames_sent")? + growth_of(replica, "peer_frames_received")?;
        batches = growth_of(replica, "batches_executed")?.max(batches);
    }
    if batches == 0 {
        return Err("no replica executed a batch during the measurement".to_owned());
    }
    Ok(messages as f64 / batches as f64)
}

fn leader_batch_mean(figures: &[ReplicaFigures]) -> Result<f64, String> {
    let leader = figures.iter().find(|replica| replica.is_leader).ok_or("no replica said at the end who leads")?;
    match (growth_of(leader, "entries_appended")?, growth_of(leader, "groups_appended")?) {
        (_, 0) => Err("the leader appended nothing during the measurement".to_owned()),
        (entries, groups) => Ok(entries as f64 / groups as f64),
    }
}

fn fsyncs_per_write(figures: &[ReplicaFigures], durable: Option<bool>) -> Result<f64, String> {
    if durable == Some(false) {
        return Err("recovery is off: nothing is synced".to_owned());
    }
    let mut syncs = 0;
    for replica in figures {
        syncs += growth_of(replica, "syncs")?;
    }
    Ok(syncs as f64 / writes(figures)? as f64)
}

/// Transactions of the measurement: those of the replica that executed most of them.
fn writes(figures: &[ReplicaFigures]) -> Result<u64, String> {
    let executed = figures.iter().filter_map(|replica| replica.executed).max().filter(|executed| *executed > 0);
    executed.ok_or_else(|| "no replica said what it executed".to_owned())
}

/// Syncs of each replica per transaction of the measurement, by its id; none where a replica does not count them.
#[must_use]
pub fn fsyncs_per_write_of_each(figures: &[ReplicaFigures]) -> std::collections::BTreeMap<u32, Option<f64>> {
    let writes = writes(figures).ok();
    let of = |replica: &ReplicaFigures| Some(growth_of(replica, "syncs").ok()? as f64 / writes? as f64);
    figures.iter().map(|replica| (replica.id, of(replica))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::sound;

    /// Two replicas: the leader used 0.5 µs, 4 calls and 2 parks a thousand transactions, the follower 0.3 µs, 1 call and 1 park.
    fn counted() -> LoadResult {
        let mut result = sound(64_000, 64.0);
        let executed = 6_400_000;
        for (place, (cpu, calls, parks)) in [(500, 4, 2), (300, 1, 1)].into_iter().enumerate() {
            let replica = &mut result.replica_figures[place];
            replica.cpu_us_at = Some((7, 7 + executed * cpu / 1_000));
            for (name, growth) in [
                ("socket_calls", executed * calls / 1_000),
                ("parks", executed * parks / 1_000),
                ("peer_frames_sent", 32_000),
                ("peer_frames_received", 64_000),
                ("batches_executed", 64_000),
            ] {
                replica.counters_at_start.insert(name.into(), 11);
                replica.counters_at_end.insert(name.into(), 11 + growth);
            }
            replica.derive();
        }
        result
    }

    const CLIENT: ClientUse = ClientUse { cpu_us: 6_400_000.0 * 0.2, socket_calls: Some(6_400_000.0 / 500.0) };

    fn derived(change: impl FnOnce(&mut LoadResult)) -> LoadResult {
        let mut result = counted();
        change(&mut result);
        derive_from_replicas(&mut result, CLIENT);
        result
    }

    fn is(figure: Option<f64>, expected: f64) -> bool {
        figure.is_some_and(|figure| (figure - expected).abs() < 1e-9)
    }

    #[test]
    fn costs_are_told_for_leader_follower_and_client_and_add_up() {
        let result = derived(|_| {});
        assert!(is(result.leader_cpu_us_per_transaction, 0.5) && is(result.follower_cpu_us_per_transaction, 0.3));
        assert!(is(result.client_cpu_us_per_transaction, 0.2) && is(result.cpu_us_per_transaction, 1.0));
        assert!(is(result.leader_socket_calls_per_1000_transactions, 4.0));
        assert!(is(result.follower_socket_calls_per_1000_transactions, 1.0));
        assert!(is(result.client_socket_calls_per_1000_transactions, 2.0));
        assert!(is(result.socket_calls_per_1000_transactions, 7.0) && is(result.parks_per_1000_transactions, 3.0));
        assert!(is(result.messages_per_batch, 3.0), "{:?}", result.messages_per_batch);
    }

    #[test]
    fn a_change_of_the_leader_leaves_the_sums_and_no_figure_by_role() {
        let result = derived(|result| result.replica_figures[0].led_throughout = false);
        assert_eq!((result.leader_cpu_us_per_transaction, result.follower_cpu_us_per_transaction), (None, None));
        assert!(result.null_because["leader_cpu_us_per_transaction"].starts_with("no replica led from the start"));
        assert!(is(result.cpu_us_per_transaction, 1.0) && is(result.socket_calls_per_1000_transactions, 7.0));
    }

    #[test]
    fn a_counter_that_is_missing_makes_its_figures_null_with_the_reason() {
        let result = derived(|result| {
            result.replica_figures[1].counters_at_end.remove("socket_calls");
            result.replica_figures[1].counters_at_end.remove("peer_frames_sent");
            result.replica_figures[1].derive();
        });
        assert_eq!((result.socket_calls_per_1000_transactions, result.messages_per_batch), (None, None));
        let reason = "replica 2 has no counter socket_calls or executed transactions to compare";
        assert_eq!(result.null_because["socket_calls_per_1000_transactions"], reason);
        assert!(result.null_because["messages_per_batch"].contains("no counter peer_frames_sent"));
        assert!(is(result.client_socket_calls_per_1000_transactions, 2.0), "the client's own part is known");
        assert_eq!(
            result.null_because["replica_figures.threads"],
            "not told at start and end by one life of replica 1, 2"
        );
    }

    #[test]
    fn a_replica_that_is_meant_to_be_down_is_no_follower() {
        let result = derived(|result| {
            result.replica_figures[1].reachable_at_end = false;
            result.settings.client = serde_json::json!({ "expect_down": [2] });
        });
        assert!(is(result.cpu_us_per_transaction, 0.7), "{:?}", result.cpu_us_per_transaction);
        assert_eq!(result.null_because["follower_cpu_us_per_transaction"], "there was no follower");
    }
}
