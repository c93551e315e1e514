//! What the operating system says about this process.

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::fs;
use std::time::Instant;

/// Figures of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessFigures {
    /// Processor time in user mode, in microseconds; as coarse as the kernel's tick.
    pub cpu_user_us: u64,
    /// The rest of the processor time, in microseconds; the sum of both is exact.
    pub cpu_system_us: u64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Time since the start, in milliseconds.
    pub uptime_ms: u64,
}

impl ProcessFigures {
    /// The figures now, for a process that began at `started`. What this system does not tell is zero.
    #[must_use]
    pub fn read(started: Instant) -> ProcessFigures {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let total_us =
            u64::try_from(used.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(used.tv_nsec).unwrap_or(0) / 1_000;
        let stat = fs::read_to_string("/proc/self/stat").ok().and_then(|text| Stat::parse(&text)).unwrap_or_default();
        let user_us = (stat.user_ticks * 1_000_000 / rustix::param::clock_ticks_per_second().max(1)).min(total_us);
        ProcessFigures {
            cpu_user_us: user_us,
            cpu_system_us: total_us - user_us,
            resident_bytes: stat.resident_pages * rustix::param::page_size() as u64,
            threads: stat.threads,
            uptime_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// The fields wanted of `/proc/self/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stat {
    user_ticks: u64,
    threads: u64,
    resident_pages: u64,
}

impl Stat {
    /// Reads the line; the program's name in it may hold spaces and parentheses, so counting starts behind the last one.
    fn parse(line: &str) -> Option<Stat> {
        let (_, rest) = line.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first field behind the name is the third of the line.
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse().ok());
        Some(Stat { user_ticks: field(14)?, threads: field(20)?, resident_pages: field(24)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let line = "77 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 1414 15 16 17 18 19 2020 21 22 23 2424 25";
        assert_eq!(Stat::parse(line), Some(Stat { user_ticks: 1414, threads: 2020, resident_pages: 2424 }));
        assert_eq!(Stat::parse("77 (cut) S 1"), None);
    }

    #[test]
    fn this_process_has_memory_threads_and_used_time() {
        let started = Instant::now();
        let before = ProcessFigures::read(started);
        let mut number = 1_u64;
        while started.elapsed().as_millis() < 30 {
            number = std::hint::black_box(number.wrapping_mul(31));
        }
        let after = ProcessFigures::read(started);
        let used = |figures: ProcessFigures| figures.cpu_user_us + figures.cpu_system_us;
        assert!(used(after) > used(before) + 1_000, "{before:?} {after:?}");
        assert!(after.resident_bytes > 100_000 && after.threads >= 1 && after.uptime_ms >= 30, "{after:?}");
    }
}
