//! The driver's scripted protocol, which really speculates and really rolls back, in the same world as Raft: the shipped driver and
//! executor with overlays, under the same faults.

use quorate_framework::{ExecutorCommand, ReplicaId, Time};
use quorate_node::driver::speculating::{Block, Speculating};
use quorate_simulation::event::Flight;
use quorate_simulation::fault::Fault;
use quorate_simulation::model::{self, Contents};
use quorate_simulation::oracle::{StateMachineSafety, Violation};
use quorate_simulation::protocol::{Moment, SimulatedProtocol, Watch};
use quorate_simulation::run::run_protocol;
use quorate_simulation::{Coverage, CrashMode, Plan};

struct SimulatedSpeculation;

impl SimulatedProtocol for SimulatedSpeculation {
    type Core = Speculating;
    type Watch = Safety;

    const NAME: &'static str = "speculating";

    fn core(_plan: &Plan, replica: ReplicaId) -> Speculating {
        Speculating::new(replica, 5)
    }

    fn recovered_log_bytes(_state: &Vec<Block>) -> usize {
        // Its memory is unbounded by design; only the driver's bounds are looked at.
        1 << 30
    }

    fn is_same(expected: &Contents<Block>, found: &Contents<Block>) -> bool {
        model::is_same(expected, found)
    }

    fn describe(contents: &Contents<Block>) -> String {
        format!("{} blocks", contents.state.len())
    }
}

/// No two replicas execute different blocks at one position.
#[derive(Default)]
struct Safety(StateMachineSafety);

impl Watch<Speculating> for Safety {
    fn after_turn(
        &mut self,
        at: Moment,
        _core: &Speculating,
        commands: &[ExecutorCommand],
        _coverage: &mut Coverage,
    ) -> Result<(), Violation> {
        for command in commands {
            if let ExecutorCommand::Execute { range, .. } = command {
                self.0.check(at.replica, range)?;
            }
        }
        Ok(())
    }

    fn before_sending(&self, _durable: &Contents<Block>, _flight: &Flight) -> Result<(), Violation> {
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
    for seed in 0..24 {
        let mut plan = Plan::draw(seed, if seed % 2 == 0 { 3 } else { 5 }, 30, CrashMode::Durable);
        // Its checks look at all it holds, after each event.
        plan.validate = seed % 6 == 0;
        // It is no consensus protocol: its leader is fixed, and numbers its blocks anew from what its own disk kept.
        plan.faults.retain(|(_, fault)| !loses_the_leader(fault));
        let report = run_protocol::<SimulatedSpeculation>(plan, false);
        let violation = report.violation.map(|violation| violation.to_string());
        assert_eq!(violation, None, "{}\n{}", report.plan, report.event_log);
        coverage.merge(&report.coverage);
    }
    println!("{coverage}");
    let expected =
        ["executor: speculated", "executor: rolled back", "end: digests compared", "fault: kill", "fault: split"];
    assert_eq!(coverage.missing(&expected), Vec::<&str>::new());
}

fn loses_the_leader(fault: &Fault) -> bool {
    const LEADER: ReplicaId = ReplicaId(1);
    matches!(
        fault,
        Fault::Wipe(_)
            | Fault::CrashLeader(_)
            | Fault::CrashAll(_)
            | Fault::Rot(_)
            | Fault::Crash(LEADER, _)
            | Fault::Stop(LEADER)
            | Fault::CutSoon(LEADER, _)
            | Fault::DiskFails(LEADER, ..)
            | Fault::DiskFull(LEADER, _)
    )
}
