//! Disks in hand-made plans: what a random plan proves only now and then.

use quorate_framework::ReplicaId;
use quorate_simulation::fault::{About, CutSoon, Death, Fault, Survivors};
use quorate_simulation::{Coverage, CrashMode, Plan, Report, run};
use std::time::Duration;

/// Three replicas on a good network, whose log is synced, and nothing goes wrong.
fn calm(seed: u64) -> Plan {
    Plan {
        faults: Vec::new(),
        stormy_for: Duration::from_secs(12),
        latency: (Duration::from_micros(50), Duration::from_micros(500)),
        loss: 0,
        duplication: 0,
        clock_rates: vec![1_000; 3],
        clients: 3,
        log_memory_bytes: 64 << 20,
        log_tail_entries: 0,
        checkpoint_transactions: 60,
        segment_bytes: 16 << 10,
        log_is_synced: true,
        in_flight_messages: 128,
        entries_per_append: 1_280,
        ..Plan::draw(seed, 3, 1, CrashMode::Durable)
    }
}

fn succeed(plan: Plan) -> Report {
    let report = run(plan, false);
    assert!(report.violation.is_none(), "{}\n{}\n{:?}", report.plan, report.event_log, report.violation);
    report
}

#[test]
fn a_leader_gives_up_when_its_disk_hangs_for_longer_than_the_stall_timeout_and_not_before() {
    let hang =
        |milliseconds| vec![(Duration::from_secs(4), Fault::LeaderDiskHangs(Duration::from_millis(milliseconds)))];
    for seed in 0..4 {
        let calm_view = succeed(calm(seed)).highest_view;
        let short = succeed(Plan { faults: hang(1_700), ..calm(seed) });
        assert_eq!(short.highest_view, calm_view, "seed {seed}: heartbeats go on while a disk hangs");
        let long = succeed(Plan { faults: hang(4_000), ..calm(seed) });
        assert!(long.highest_view > calm_view, "seed {seed}: nobody took over");
        assert_eq!(long.coverage.of("disk: a leader gave up because its disk hung"), 1, "seed {seed}");
    }
}

#[test]
fn a_log_with_checkpoints_stays_small_and_one_without_them_grows() {
    for seed in 0..3 {
        let with = succeed(calm(seed));
        let without = succeed(Plan { checkpoint_transactions: u64::MAX, ..calm(seed) });
        let segments = with.disk_bytes / (16 << 10);
        assert!(segments < 20, "seed {seed}: {segments} segments' worth in use after {} frames", with.frames_answered);
        assert!(
            without.disk_bytes > 4 * with.disk_bytes,
            "seed {seed}: {} and {}",
            without.disk_bytes,
            with.disk_bytes
        );
    }
}

#[test]
fn a_follower_that_was_away_for_longer_than_the_log_comes_back_by_a_snapshot() {
    let away = ReplicaId(3);
    for seed in 0..4 {
        let faults = vec![
            (Duration::from_secs(3), Fault::Crash(away, Death::PowerCut(Survivors::Nothing))),
            (Duration::from_secs(10), Fault::Restart(away)),
        ];
        let report = succeed(Plan { faults, log_memory_bytes: 1_000, ..calm(seed) });
        assert!(report.coverage.of("snapshot: installed, durable") >= 1, "seed {seed}: {}", report.coverage);
        assert_eq!(report.coverage.of("end: all equal"), 1, "seed {seed}");
    }
}

#[test]
fn power_cuts_of_all_replicas_at_once_lose_nothing_that_was_acknowledged() {
    for seed in 0..8 {
        let survivors = [Survivors::Nothing, Survivors::Everything, Survivors::Pages, Survivors::Sectors];
        let mut faults = Vec::new();
        for round in 0..4_u64 {
            let at = Duration::from_millis(2_500 + round * 2_000 + seed * 7);
            faults.push((at, Fault::CrashAll(survivors[(seed + round) as usize % 4])));
            faults
                .extend((1..=3).map(|id| (at + Duration::from_millis(200 * id), Fault::Restart(ReplicaId(id as u32)))));
        }
        let report = succeed(Plan { faults, ..calm(seed) });
        assert_eq!(report.coverage.of("fault: power cut of all"), 4);
        assert!(report.frames_answered > 50, "seed {seed}: {} frames", report.frames_answered);
    }
}

#[test]
fn an_install_that_is_cut_off_before_any_operation_of_the_disk_is_finished_or_begun_again() {
    let away = ReplicaId(3);
    let mut coverage = Coverage::default();
    let moments = [(About::Load, 26), (About::Install, 9), (About::Reset, 4)];
    for (about, operations) in moments {
        for operation in 1..=operations {
            let any = if operation % 2 == 0 { Survivors::Pages } else { Survivors::Sectors };
            for survivors in [Survivors::Nothing, any] {
                let cut = Fault::CutSoon(away, CutSoon { about, operation, survivors });
                let crash = || Fault::Crash(away, Death::PowerCut(Survivors::Nothing));
                let at = [(2_000, crash()), (2_100, cut), (5_000, Fault::Restart(away)), (6_000, Fault::Restart(away))];
                let again =
                    [(7_000, crash()), (7_200, Fault::Restart(away)), (8_000, crash()), (8_200, Fault::Restart(away))];
                let faults = at.into_iter().chain(again);
                let faults = faults.map(|(at, fault)| (Duration::from_millis(at), fault)).collect();
                let stormy_for = Duration::from_secs(9);
                let report =
                    succeed(Plan { faults, stormy_for, clients: 1, log_memory_bytes: 1_000, ..calm(operation) });
                coverage.merge(&report.coverage);
            }
        }
    }
    let expected =
        ["disk: power cut inside an operation", "start: interrupted install finished", "snapshot: installed, durable"];
    assert_eq!(coverage.missing(&expected), Vec::<&str>::new());
    println!("{coverage}");
}

#[test]
fn a_store_that_keeps_its_state_beside_checkpoints_goes_on_from_it_whatever_its_log_has_lost() {
    let mut coverage = Coverage::default();
    for seed in 0..100 {
        let replicas = if seed % 2 == 0 { 3 } else { 5 };
        let plan = Plan { keeps_store: true, ..Plan::draw(seed, replicas, 40, CrashMode::Durable) };
        let report = run(plan, false);
        assert_eq!(
            report.violation, None,
            "quorate simulate --replicas {replicas} --mode durable --seed {seed} --store-on-disk"
        );
        coverage.merge(&report.coverage);
    }
    assert_eq!(coverage.missing(&["store: written out", "start: from a snapshot"]), Vec::<&str>::new());
}
