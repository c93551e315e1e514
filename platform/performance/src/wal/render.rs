//! The report of the flush batch experiment in Markdown.

use super::figures::{BUCKETS_US, WalCase};
use super::{SingleAppender, WalResult};
use std::fmt::Write as _;

const COLUMNS: &str = "| case | wait | configured batch | elapsed ms | qps | qps min-max | avg us | p50 us | p90 us | p99 us | max us \
    | batches | sync batches | writes/batch | max batch | sync avg us | sync max us | group avg us | group max us |\n\
    |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n";

/// The tables alone.
#[must_use]
pub fn render_tables(result: &WalResult) -> String {
    let mut text = String::new();
    if !result.is_optimised {
        text.push_str("NOT an optimised build: these figures say nothing of a release.\n\n");
    }
    text.push_str("## Summary\n\n");
    table(&mut text, &result.cases);
    text.push_str("\n## The device beside it\n\n");
    table(&mut text, &result.raw);
    text.push_str("\n## The device behind one channel and one future an operation\n\n");
    table(&mut text, &result.fair_raw);
    text.push_str("\n## The log without a wait against both\n\n| configured batch | of the device | of the fair device |\n|---:|---:|---:|\n");
    for ((batch, of_raw), (_, of_fair)) in result.share_of_raw.iter().zip(&result.share_of_fair_raw) {
        let _ = writeln!(text, "| {batch} | {:.0} % | {:.0} % |", of_raw * 100.0, of_fair * 100.0);
    }
    single(&mut text, &result.single);
    text
}

/// The whole report: method, tables, and a histogram of each case.
#[must_use]
pub fn render_report(result: &WalResult) -> String {
    let mut text = String::from("# WAL flush batch report\n\n");
    let load = |load: Option<[f64; 3]>| load.map_or("unknown".to_owned(), |[one, ..]| format!("{one:.1}"));
    let unknown = || "unknown".to_owned();
    let _ = write!(
        text,
        "- Generated at Unix time: {}\n- Build: {}\n- Operations per case: {}\n- Payload bytes: {}\n- Runs of each case: {}\n\
         - Folder: {}\n- Machine: {} processors, {}, kernel {}\n- Load average: {} before, {} after\n\n",
        result.started_unix_s,
        if result.is_optimised { "release" } else { "debug" },
        result.operations,
        result.size_bytes,
        result.repeat,
        result.folder,
        result.host.processors.map_or_else(unknown, |count| count.to_string()),
        result.host.processor_model.clone().unwrap_or_else(unknown),
        result.host.kernel.clone().unwrap_or_else(unknown),
        load(result.load_average.before),
        load(result.load_average.after),
    );
    text.push_str(
        "## Method\n\n\
         - Each case has a fresh log in a folder of its own, with its segments prepared, and is stopped, read back and checked after it.\n\
         - All operations are submitted first, each with a future of its own; then all futures are awaited.\n\
         - Latency runs from an operation's submit until its future is made ready: queue, write and sync.\n\
         - A group holds as many operations as configured at most. A wait begins with a group's first operation.\n\
         - The device writes the same bytes in groups of exactly that many into a prewritten file in the same folder, just before; its\n  \
         latencies count from the start of the case. It has no queue: a limit, not like for like. The fair device has one channel and\n  \
         one future an operation.\n\
         - A row shows the run with the median rate.\n\n",
    );
    text.push_str(&render_tables(result));
    for case in result.cases.iter().chain(&result.raw).chain(&result.fair_raw) {
        histogram(&mut text, case, result.size_bytes);
    }
    text
}

fn wait(case: &WalCase) -> String {
    match case.wait_us {
        None => "none".to_owned(),
        Some(wait_us) if wait_us.is_multiple_of(1_000) => format!("{}ms", wait_us / 1_000),
        Some(wait_us) => format!("{wait_us}us"),
    }
}

fn table(text: &mut String, cases: &[WalCase]) {
    text.push_str(COLUMNS);
    for case in cases {
        let latency = &case.latency_us;
        let _ = writeln!(
            text,
            "| {} | {} | {} | {:.2} | {:.0} | {:.0}-{:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {} | {} | {:.2} | {} | {:.2} | {:.0} | {:.2} | {:.0} |",
            case.case,
            wait(case),
            case.batch,
            case.elapsed_ms,
            case.qps.median,
            case.qps.min,
            case.qps.max,
            latency.mean,
            latency.p50,
            latency.p90,
            latency.p99,
            latency.max,
            case.batches,
            case.sync_batches,
            case.writes_per_batch,
            case.max_batch,
            case.sync_us.mean,
            case.sync_us.max,
            case.group_us.mean,
            case.group_us.max,
        );
    }
}

fn single(text: &mut String, single: &SingleAppender) {
    let _ = write!(
        text,
        "\n## One operation at a time ({} of them)\n\n\
         | | p50 us | p50 min-max | p90 us | p99 us | max us |\n|---|---:|---:|---:|---:|---:|\n",
        single.operations
    );
    for (name, latency, medians) in
        [("log, no wait", single.log_us, single.log_p50_us), ("device", single.device_us, single.device_p50_us)]
    {
        let _ = writeln!(
            text,
            "| {name} | {:.0} | {:.0}-{:.0} | {:.0} | {:.0} | {:.0} |",
            latency.p50, medians.min, medians.max, latency.p90, latency.p99, latency.max
        );
    }
}

fn histogram(text: &mut String, case: &WalCase, size_bytes: usize) {
    let _ = write!(
        text,
        "\n## {}\n\n- wait: {}\n- configured batch: {}\n- operations: {}\n- payload bytes: {size_bytes}\n- elapsed: {:.2} ms\n\
         - write bytes: {}\n- queued wait max: {:.0} us\n- write max: {:.0} us\n- batch max: {:.0} us\n\n\
         ### Callback Latency Histogram\n\n| bucket | count | percent |\n|---:|---:|---:|\n",
        case.case,
        wait(case),
        case.batch,
        case.operations,
        case.elapsed_ms,
        case.write_bytes,
        case.queued_wait_us_max,
        case.write_us_max,
        case.batch_us_max,
    );
    let mut from = 0;
    for (bound, count) in &case.histogram {
        let per_cent = *count as f64 * 100.0 / case.operations.max(1) as f64;
        let bucket = match bound {
            Some(bound) => format!("{from}..{bound} us"),
            None => format!(">{} us", BUCKETS_US[BUCKETS_US.len() - 1]),
        };
        let _ = writeln!(text, "| {bucket} | {count} | {per_cent:.2}% |");
        from = bound.map_or(from, |bound| bound + 1);
    }
}
