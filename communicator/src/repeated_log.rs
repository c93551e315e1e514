//! Keeps the log about a trouble from becoming the trouble: a few lines at first, then one summary per window.

use std::time::{Duration, Instant};

/// Time between summaries.
const WINDOW: Duration = Duration::from_secs(30);

/// Lines beyond the usual that a window has for what was not the last thing said: another reason for the same trouble.
const NEWS_LINES: u32 = 4;

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

    /// Whether to write this line, and how many were not written since the last one. `is_news`: it says something else than the last.
    pub(crate) fn permit(&mut self, now: Instant, is_news: bool) -> Option<u64> {
        if self.window_start.is_none_or(|start| now.duration_since(start) >= WINDOW) {
            self.window_start = Some(now);
            self.lines = 0;
        }
        let limit = self.lines_per_window + if is_news { NEWS_LINES } else { 0 };
        if self.lines >= limit {
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
        let lines: Vec<u64> =
            (0..600).filter_map(|second| log.permit(start + Duration::from_secs(second), false)).collect();
        assert_eq!(lines.len(), 20);
        assert_eq!(lines[0], 0, "the first is written at once");
        assert!(lines[1..].iter().all(|suppressed| *suppressed == 29), "the others are summed up: {lines:?}");
    }
    #[test]
    fn another_reason_is_written_at_once_but_reasons_that_alternate_do_not_fill_the_log() {
        let mut log = RepeatedLog::new(1);
        let start = Instant::now();
        assert_eq!(
            [log.permit(start, true), log.permit(start, false), log.permit(start, true)],
            [Some(0), None, Some(1)]
        );
        let written = (0..100).filter(|_| log.permit(start, true).is_some()).count();
        assert_eq!(written, 3, "five lines in a window in all");
    }
}
