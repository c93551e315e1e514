//! Seeds, run with every test: no violation, everything covered, and the same run twice.

// The workspace allows `unwrap` in tests; clippy does not see that the helper is one.
#![allow(clippy::unwrap_used)]

use quorate_simulation::run::EXPECTED;
use quorate_simulation::{Coverage, CrashMode, Plan, run, run_seed};

const MODES: [CrashMode; 2] = [CrashMode::Durable, CrashMode::InMemory];

/// Runs seeds on all cores; fails at the first violation with the command that repeats it.
fn run_all(seeds: std::ops::Range<u64>) -> Coverage {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let parts: Vec<Coverage> = std::thread::scope(|scope| {
        let run_part = |part| {
            let mut coverage = Coverage::default();
            for seed in seeds.clone().filter(|seed| seed % threads == part) {
                let replicas = if seed % 2 == 0 { 3 } else { 5 };
                let report = run_seed(seed, replicas, 40, MODES[(seed / 2 % 2) as usize]);
                assert!(
                    report.violation.is_none(),
                    "{}\n{}\n{}\nrepeat with: quorate simulate --protocol raft --replicas {replicas} --mode {} --seed {seed} --trace",
                    report.plan,
                    report.event_log,
                    report.violation.map(|violation| violation.to_string()).unwrap_or_default(),
                    if seed / 2 % 2 == 0 { "durable" } else { "in-memory" },
                );
                coverage.merge(&report.coverage);
            }
            coverage
        };
        let handles: Vec<_> = (0..threads).map(|part| scope.spawn(move || run_part(part))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    let mut coverage = Coverage::default();
    parts.iter().for_each(|part| coverage.merge(part));
    coverage
}

#[test]
fn a_thousand_seeds_break_nothing_and_cover_every_fault_and_state() {
    let coverage = run_all(0..1_000);
    println!("{coverage}");
    assert_eq!(coverage.missing(&EXPECTED), Vec::<&str>::new());
}

#[test]
fn a_stormy_seed_gives_the_same_event_log_twice_byte_for_byte() {
    for (seed, mode) in [(5, MODES[0]), (6, MODES[1]), (11, MODES[0])] {
        let logs: Vec<String> = (0..2).map(|_| run(Plan::draw(seed, 5, 200, mode), true).event_log).collect();
        assert!(logs[0].len() > 10_000, "seed {seed} is a long run");
        assert!(logs[0] == logs[1], "seed {seed} gave two different runs");
    }
}
