//! The driver's scripted protocol, which really speculates and really rolls back, in the same world as Raft: the shipped driver and
//! executor with overlays, under the same faults.

use quorate_framework::{ExecutorCommand, ReplicaId, Time};
use quorate_node::driver::speculating::Speculating;
use quorate_simulation::disk::Disk;
use quorate_simulation::event::Flight;
use quorate_simulation::oracle::{StateMachineSafety, Violation};
use quorate_simulation::plan::Fault;
use quorate_simulation::protocol::{Moment, SimulatedProtocol, Watch};
use quorate_simulation::run::run_protocol;
use quorate_simulation::{Coverage, CrashMode, Plan};

struct SimulatedSpeculation;

impl SimulatedProtocol for SimulatedSpeculation {
    type Core = Speculating;
    type Watch = Safety;

    fn core(_plan: &Plan, replica: ReplicaId) -> Speculating {
        Speculating::new(replica, 5)
    }

    fn recovered_log_bytes(_disk: &Disk<Speculating>) -> usize {
        // Its memory is unbounded by design; only the driver's bounds are looked at.
        1 << 30
    }
}

/// No two replicas execute different blocks at one position.
#[derive(Default)]
struct Safety(StateMachineSafety);

impl Watch<Speculating> for Safety {
    fn after_turn(&mut self, at: Moment, _core: &Speculating, commands: &[ExecutorCommand]) -> Result<(), Violation> {
        for command in commands {
            if let ExecutorCommand::Execute { range, .. } = command {
                self.0.check(at.replica, range)?;
            }
        }
        Ok(())
    }

    fn before_sending(&self, _disk: &Disk<Speculating>, _flight: &Flight) -> Result<(), Violation> {
        Ok(())
    }

    fn heard(&mut self, _at: ReplicaId, _from: ReplicaId, _now: Time) {}

    fn count_states(&self, core: &Speculating, coverage: &mut Coverage) {
        coverage.add("rolled back, in all", core.rollbacks());
    }
}

#[test]
fn speculation_and_rollback_lose_nothing_repeat_nothing_and_end_in_equal_states() {
    let mut coverage = Coverage::default();
    for seed in 0..40 {
        let mut plan = Plan::draw(seed, if seed % 2 == 0 { 3 } else { 5 }, 30, CrashMode::Durable);
        // It is no consensus protocol: its leader is fixed, and numbers its blocks anew from what its own disk kept.
        plan.faults
            .retain(|(_, fault)| !matches!(fault, Fault::Wipe(_) | Fault::CrashLeader | Fault::Crash(ReplicaId(1))));
        let report = run_protocol::<SimulatedSpeculation>(plan, false);
        let violation = report.violation.map(|violation| violation.to_string());
        assert_eq!(violation, None, "{}\n{}", report.plan, report.event_log);
        coverage.merge(&report.coverage);
    }
    println!("{coverage}");
    let expected =
        ["executor: speculated", "executor: rolled back", "end: digests compared", "fault: crash", "fault: split"];
    assert_eq!(coverage.missing(&expected), Vec::<&str>::new());
}
