//! The result as tables in Markdown.

use super::{ClientsResult, ClientsRow};
use std::fmt::Write as _;

/// The result as lines of text.
#[must_use]
pub fn render(result: &ClientsResult) -> String {
    let mut text = format!(
        "{}; {} bytes a value, {} keys, writes only{}\n\n",
        durability(result),
        result.value_size_bytes,
        result.keys,
        if result.repeat > 1 { format!("; median of {} runs", result.repeat) } else { String::new() },
    );
    text.push_str(
        "| clients | connections | writes/s | min-max | p50 ms | p99 ms | leader's average batch | syncs a write, all replicas | of each \
         | sync p50 ms | sync p99 ms | round trip p50 ms |\n|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|---:|\n",
    );
    result.rows.iter().for_each(|row| measured(&mut text, row));
    text.push_str(
        "\nThe model of commit rounds: writes/s = rounds a second x leader's average batch\n\n\
         | clients | connections | rounds/s | batch | model writes/s | measured / model | rounds at a time | Little's mean ms | measured mean ms |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    result.rows.iter().for_each(|row| modelled(&mut text, row));
    text.push('\n');
    if let Some(ratio) = result.fsyncs_fall {
        let _ = writeln!(text, "syncs a write fall {ratio:.1}-fold from the fewest clients to the most");
    }
    if let Some(ratio) = result.one_connection_ratio {
        let most = result.rows.iter().map(|row| row.clients).max().unwrap_or(0);
        let _ = writeln!(
            text,
            "{most} clients over one connection reach {:.0} % of what they reach over several: {}",
            ratio * 100.0,
            if ratio < 0.9 {
                "the connection is the limit there, not the cluster"
            } else {
                "no plateau of the connection's"
            }
        );
    }
    for reason in &result.invalid_because {
        let _ = writeln!(text, "NOT VALID            {reason}");
    }
    text
}

fn durability(result: &ClientsResult) -> &'static str {
    match (result.durable, result.wal_sync.as_deref()) {
        (Some(true), Some("always")) => "durable, wal_sync: always",
        (Some(true), Some("never")) => "durable against the death of processes only, wal_sync: never",
        (Some(true), _) => "durable, wal_sync unknown",
        (Some(false), _) => "NOT durable (recovery is off)",
        (None, _) => "durability unknown",
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn measured(text: &mut String, row: &ClientsRow) {
    let rate = row.writes_per_s;
    let each: Vec<String> =
        row.fsyncs_per_write_of.iter().map(|(id, syncs)| format!("{id}: {}", number(*syncs, 4))).collect();
    let _ = writeln!(
        text,
        "| {} | {} | {:.0} | {:.0}-{:.0} | {:.3} | {:.3} | {} | {} | {} | {} | {} | {} |",
        row.clients,
        row.connections,
        rate.median,
        rate.min,
        rate.max,
        row.p50_ms,
        row.p99_ms,
        number(row.leader_batch_mean, 1),
        number(row.fsyncs_per_write, 4),
        if each.is_empty() { "-".to_owned() } else { each.join(", ") },
        number(row.fsync_ms.map(|times| times.p50), 3),
        number(row.fsync_ms.map(|times| times.p99), 3),
        number(row.rtt_p50_ms, 3),
    );
}

fn modelled(text: &mut String, row: &ClientsRow) {
    let model = row.model;
    let _ = writeln!(
        text,
        "| {} | {} | {} | {} | {} | {} | {} | {} | {:.3} |",
        row.clients,
        row.connections,
        number(model.map(|model| model.rounds_per_s), 0),
        number(model.map(|model| model.batch_mean), 1),
        number(model.map(|model| model.writes_per_s), 0),
        number(model.map(|model| model.measured_ratio), 3),
        number(model.and_then(|model| model.overlap), 2),
        number(model.map(|model| model.latency_by_little_ms), 3),
        row.result.latency_ms.mean,
    );
}
