//! Keeps the log about a trouble from becoming the trouble: a few lines at first, then one summary per window.

use std::time::{Duration, Instant};

/// Time between summaries.
const WINDOW: Duration = Duration::from_secs(30);

/// Decides which lines of one kind are written.
#[derive(Debug)]
pub(crate) struct RepeatedLog {
    lines_per_window: u32,
    window_start: Option<Instant>,
    lines: u32,
    suppressed: u64,
}

impl RepeatedLog {
    pub(crate) fn new(lines_per_window: u32) -> RepeatedLog {
        RepeatedLog { lines_per_window, window_start: None, lines: 0, suppressed: 0 }
    }

    /// Whether to write this line, and how many were not written since the last one.
    pub(crate) fn permit(&mut self, now: Instant) -> Option<u64> {
        if self.window_start.is_none_or(|start| now.duration_since(start) >= WINDOW) {
            self.window_start = Some(now);
            self.lines = 0;
        }
        if self.lines == self.lines_per_window {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_down_for_ten_minutes_costs_a_line_each_half_minute() {
        let mut log = RepeatedLog::new(1);
        let start = Instant::now();
        let lines: Vec<u64> = (0..600).filter_map(|second| log.permit(start + Duration::from_secs(second))).collect();
        assert_eq!(lines.len(), 20);
        assert_eq!(lines[0], 0, "the first is written at once");
        assert!(lines[1..].iter().all(|suppressed| *suppressed == 29), "the others are summed up: {lines:?}");
    }
}
