//! A result in words and as JSON.

use crate::result::LoadResult;
use std::fmt::Write as _;

/// The result as lines of text; the last ones say whether it may be quoted, and if not, why.
#[must_use]
pub fn render(result: &LoadResult) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: String| {
        let _ = writeln!(text, "{label:<20} {value}");
    };
    let latency = &result.latency_ms;
    let durability = match result.durable {
        Some(true) => match result.wal_sync.as_deref() {
            Some("always") => "durable, each write synced",
            Some("never") => "durable against the death of processes only (wal_sync: never)",
            _ => "durable, unknown whether synced",
        },
        Some(false) => "NOT durable (recovery is off)",
        None => "durability unknown",
    };
    line("cluster", format!("{} replicas, {}, {durability}", result.replicas, result.protocol));
    line(
        "measured",
        format!("{:.1} s after {:.1} s of warm-up, {} client(s)", result.duration_s, result.warm_up_s, result.clients),
    );
    line(
        "throughput",
        format!("{:.0} transactions/s ({:.0} batches/s)", result.throughput_per_s, result.batches_per_s),
    );
    line(
        "latency, ms",
        format!(
            "mean {:.3}  p50 {:.3}  p90 {:.3}  p99 {:.3}  p99.9 {:.3}  max {:.3}",
            latency.mean, latency.p50, latency.p90, latency.p99, latency.p99_9, latency.max
        ),
    );
    line("", format!("of {}", result.latency_unit));
    let ratio = result.little_law_ratio.map_or("unknown".to_owned(), |ratio| format!("{ratio:.3}"));
    line("in flight", format!("{:.1} batches (Little's law: {ratio} of what it should be)", result.in_flight_mean));
    line(
        "answers",
        format!(
            "{} transactions Ok, {} attempts refused, {} retried, {} batches failed",
            result.accepted, result.refused, result.retried, result.errors
        ),
    );
    let longest = result.gaps_ms.iter().map(|gap| gap.length_ms).fold(0.0, f64::max);
    line(
        "gaps over 200 ms",
        match result.gaps_ms.len() {
            0 => "none".to_owned(),
            count => format!("{count}, the longest {longest:.0} ms"),
        },
    );
    line("leader changes", result.leader_changes.to_string());
    let optional = |value: Option<f64>, key: &str, unit: &str| match value {
        Some(value) => format!("{value:.3}{unit}"),
        None => format!("- ({})", result.null_because.get(key).map_or("unknown", String::as_str)),
    };
    line("device sync, p50", optional(result.fsync_ms.map(|times| times.p50), "fsync_ms", " ms"));
    line("syncs a write", optional(result.fsyncs_per_write, "fsyncs_per_write", " over all replicas"));
    line("round trip, ms", round_trip(result));
    line("leader batch, mean", optional(result.leader_batch_mean, "leader_batch_mean", " batches an append"));
    let split = |leader: Option<f64>, follower: Option<f64>, client: Option<f64>| {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
        format!("leader {}, a follower {}, client {}", number(leader), number(follower), number(client))
    };
    let unit = format!(
        " µs a transaction, all processes ({})",
        split(
            result.leader_cpu_us_per_transaction,
            result.follower_cpu_us_per_transaction,
            result.client_cpu_us_per_transaction
        )
    );
    line("processor time", optional(result.cpu_us_per_transaction, "cpu_us_per_transaction", &unit));
    let unit = format!(
        " per 1,000 transactions, all processes ({})",
        split(
            result.leader_socket_calls_per_1000_transactions,
            result.follower_socket_calls_per_1000_transactions,
            result.client_socket_calls_per_1000_transactions
        )
    );
    let calls = result.socket_calls_per_1000_transactions;
    line("socket calls", optional(calls, "socket_calls_per_1000_transactions", &unit));
    let parks = result.parks_per_1000_transactions;
    line("parks", optional(parks, "parks_per_1000_transactions", " per 1,000 transactions, all replicas"));
    let unit = " frames between replicas a batch, sent and received";
    line("messages", optional(result.messages_per_batch, "messages_per_batch", unit));
    for replica in &result.replica_figures {
        let role = replica.role.as_deref().unwrap_or("unreachable");
        let number = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
        let memory = match (&replica.rss_mib, replica.resident_bytes) {
            (Some(rss), _) => format!("{:.0} to {:.0} MiB (at most {:.0})", rss.start, rss.end, rss.max),
            (None, Some(bytes)) => format!("{} MiB at the end", bytes >> 20),
            (None, None) => "memory unknown".to_owned(),
        };
        let (executed, threads) = (number(replica.executed), number(replica.threads));
        let figures = format!("{role}, {executed} transactions executed, {memory}, {threads} threads");
        line(&format!("replica {}", replica.id), figures);
    }
    if let Some(reads) = &result.reads {
        line("reads", reads.clone());
    }
    for note in &result.notes {
        line("note", note.clone());
    }
    if result.valid {
        line("valid", "yes".to_owned());
    }
    for reason in &result.invalid_because {
        line("NOT VALID", reason.clone());
    }
    text
}

fn round_trip(result: &LoadResult) -> String {
    let Some(times) = result.rtt_ms else {
        return format!("- ({})", result.null_because.get("rtt_ms").map_or("unknown", String::as_str));
    };
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let (tail, longest) = (number(times.p99_9), number(times.max));
    format!("p50 {:.3}  p99 {:.3}  p99.9 {tail}  max {longest}  of {} heartbeats", times.p50, times.p99, times.count)
}

/// The result as a JSON object, indented for readers, with the histogram on one line.
///
/// # Errors
/// None that a result can cause.
pub fn to_json(result: &LoadResult) -> Result<String, serde_json::Error> {
    let histogram = serde_json::to_string(&result.histogram_us)?;
    let rest = serde_json::to_string_pretty(&LoadResult { histogram_us: Vec::new(), ..result.clone() })?;
    // It is the last key, and an empty list stands there.
    let Some((before, after)) = rest.rsplit_once("[]") else { return serde_json::to_string_pretty(result) };
    Ok(format!("{before}{histogram}{after}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::sound;
    use crate::memory::RssMib;

    #[test]
    fn the_json_reads_back_and_keeps_the_histogram_on_one_line() {
        let mut result = sound(64_000, 64.0);
        result.histogram_us = vec![(1, 2), (30, 4)];
        let json = to_json(&result).unwrap();
        assert!(json.contains("\n  \"histogram_us\": [[1,2],[30,4]]\n}"), "{json}");
        let read: LoadResult = serde_json::from_str(&json).unwrap();
        assert_eq!(read.histogram_us, result.histogram_us);
        assert_eq!((read.accepted, read.settings), (result.accepted, result.settings));
    }

    #[test]
    fn the_text_says_what_the_figures_are_of_and_why_they_may_not_be_quoted() {
        let mut result = sound(64_000, 64.0);
        let memory = RssMib { start: 40.0, end: 50.0, max: 60.0 };
        (result.replica_figures[1].rss_mib, result.replica_figures[1].threads) = (Some(memory), Some(3));
        let text = render(&result);
        for part in [
            "640000 transactions/s (6400 batches/s)",
            "of one batch of 100 transactions",
            "NOT durable",
            "in flight            64.0 batches (Little's law: 1.000",
            "round trip, ms       p50 0.100  p99 0.200  p99.9 0.300  max 0.400  of 400 heartbeats",
            "1.200 µs a transaction, all processes (leader 0.500, a follower 0.500, client 0.200)",
            "socket calls         - (replica 1 has no counter socket_calls",
            "replica 2            unreachable, 6400000 transactions executed, 40 to 50 MiB (at most 60), 3 threads",
            "valid                yes",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        (result.valid, result.invalid_because) = (false, vec!["a reason".into()]);
        let text = render(&result);
        assert!(text.ends_with("NOT VALID            a reason\n") && !text.contains("yes"), "{text}");
        assert!(text.contains("syncs a write        - (recovery is off: nothing is synced)"), "{text}");
        (result.durable, result.wal_sync) = (Some(true), Some("always".to_owned()));
        result.fsyncs_per_write = Some(0.25);
        let text = render(&result);
        assert!(text.contains("durable, each write synced"), "{text}");
        assert!(text.contains("syncs a write        0.250 over all replicas"), "{text}");
    }
}
