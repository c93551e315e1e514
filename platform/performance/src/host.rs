//! Facts about this machine and this process.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::Duration;

/// The load client's machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Its name.
    pub name: Option<String>,
    /// Processors that this process may use.
    pub processors: Option<usize>,
    /// Their model.
    pub processor_model: Option<String>,
    /// Memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// The operating system's kernel.
    pub kernel: Option<String>,
}

impl HostFacts {
    /// Looks them up; what this system does not tell is null.
    #[must_use]
    pub fn read() -> HostFacts {
        let text = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let field = |path: &str, key: &str| {
            let text = fs::read_to_string(path).ok()?;
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        HostFacts {
            name: text("/proc/sys/kernel/hostname"),
            processors: std::thread::available_parallelism().ok().map(std::num::NonZeroUsize::get),
            processor_model: field("/proc/cpuinfo", "model name"),
            memory_bytes: memory.map(|kibibytes| kibibytes << 10),
            kernel: text("/proc/sys/kernel/osrelease"),
        }
    }
}

/// The load average now, if this system tells.
#[must_use]
pub fn load_average() -> Option<[f64; 3]> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let mut numbers = text.split(' ').map(str::parse::<f64>);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

/// Processor time used by this process so far.
#[must_use]
pub fn process_cpu() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(used.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(used.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_processors_and_this_process_uses_them() {
        assert!(HostFacts::read().processors.is_some_and(|count| count > 0));
        let before = process_cpu();
        let mut number = 1_u64;
        while process_cpu() - before < Duration::from_millis(2) {
            number = std::hint::black_box(number.wrapping_mul(31));
        }
    }
}
