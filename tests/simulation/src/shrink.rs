//! Makes a failing run smaller: faults are left out as long as the same oracle still objects.

use crate::plan::Plan;
use crate::run::{Report, run};

/// Runs spent at most.
const RUNS: usize = 400;

/// The smallest plan found that breaks the same oracle as `report`, with its own report. A run without a violation is given back.
#[must_use]
pub fn shrink(report: Report) -> Report {
    let Some(oracle) = report.violation.as_ref().map(|violation| violation.oracle) else { return report };
    let mut best = report;
    let mut runs = 0;
    let mut size = best.plan.faults.len().div_ceil(2).max(1);
    loop {
        let mut start = 0;
        let mut smaller = false;
        while start < best.plan.faults.len() && runs < RUNS {
            let mut plan = best.plan.clone();
            let end = (start + size).min(plan.faults.len());
            plan.faults.drain(start..end);
            runs += 1;
            match still_fails(plan, oracle) {
                Some(report) => (best, smaller) = (report, true),
                None => start = end,
            }
        }
        if runs >= RUNS || (size == 1 && !smaller) {
            return best;
        }
        size = (size / 2).max(1);
    }
}

fn still_fails(plan: Plan, oracle: &'static str) -> Option<Report> {
    let report = run(plan, false);
    report.violation.as_ref().is_some_and(|violation| violation.oracle == oracle).then_some(report)
}
