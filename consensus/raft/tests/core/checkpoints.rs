//! Checkpoints: what a snapshot says of its position, and what the log may forget.

use crate::cluster::{Cluster, Wish, id, index, members};
use quorate_framework::{Event, Operation, OperationId};
use quorate_raft::{RaftSettings, RaftState, Term, snapshot_base};

fn leader_with(settings: RaftSettings, writes: usize) -> Cluster {
    let mut cluster = Cluster::with(3, settings, |_| RaftState::default());
    cluster.elect(1);
    (0..writes).for_each(|_| cluster.propose(1, &"x".repeat(50)));
    cluster.deliver_all();
    cluster
}

fn settings() -> RaftSettings {
    RaftSettings { snapshots: true, ..RaftSettings::default() }
}

fn taken(cluster: &mut Cluster, position: u64) {
    cluster.event(id(1), Event::SnapshotTaken { position: index(position), root: None });
}

#[test]
fn a_due_checkpoint_is_taken_where_the_executor_will_be_with_the_term_and_the_members_of_that_place() {
    let mut cluster = leader_with(settings(), 3);
    cluster.replica_mut(1).execute_at_once = false;
    cluster.propose(1, "committed, and not yet executed");
    cluster.deliver_all();
    cluster.event(id(1), Event::SnapshotDue);
    assert_eq!(cluster.wishes(1), [Wish::Take(snapshot_base(index(6), Term(1), &members(3)))]);
}

#[test]
fn without_anything_new_no_checkpoint_is_taken() {
    let mut cluster = leader_with(settings(), 3);
    cluster.event(id(1), Event::SnapshotDue);
    assert_eq!(cluster.wishes(1).len(), 1);
    taken(&mut cluster, 5);
    cluster.wishes(1);
    cluster.event(id(1), Event::SnapshotDue);
    assert_eq!(cluster.wishes(1), []);
    let mut cluster = leader_with(RaftSettings::default(), 3);
    cluster.event(id(1), Event::SnapshotDue);
    assert_eq!(cluster.wishes(1), [], "nor where the node has no snapshots");
}

#[test]
fn after_a_checkpoint_the_log_may_forget_all_but_a_tail_bounded_in_entries_and_bytes() {
    // cases/open.md B92: a short restart or lag needs no snapshot.
    for (entries, bytes, through) in [(5, 1_000_000, 17), (1_000_000, 400, 19), (1_000_000, 1_000_000, 0)] {
        let limits = RaftSettings { log_tail_entries: entries, log_tail_bytes: bytes, ..settings() };
        let mut cluster = leader_with(limits, 20);
        taken(&mut cluster, 22);
        let wanted = if through == 0 { vec![] } else { vec![Wish::Forget(index(through))] };
        assert_eq!(cluster.wishes(1), wanted, "{entries} entries, {bytes} bytes");
        taken(&mut cluster, 22);
        assert_eq!(cluster.wishes(1), [], "once");
    }
}

#[test]
fn a_checkpoint_leaves_the_log_in_memory_to_followers_that_are_a_little_behind() {
    let mut cluster = leader_with(RaftSettings { log_tail_entries: 0, ..settings() }, 3);
    cluster.isolate(3);
    cluster.event(id(1), Event::PeerDown { peer: id(3) });
    (0..10).for_each(|_| cluster.propose(1, "x"));
    cluster.deliver_all();
    cluster.event(id(1), Event::SnapshotDue);
    taken(&mut cluster, 15);
    cluster.wishes(1);
    cluster.heal();
    let incarnation = quorate_framework::Incarnation(3);
    cluster.event(id(1), Event::PeerUp { peer: id(3), incarnation });
    cluster.deliver_all();
    assert_eq!((cluster.wishes(1), cluster.peer(1, 3).state), (vec![], "replicate"));
    assert_eq!(cluster.core(3).last_entry(), cluster.core(1).last_entry());
}

#[test]
fn an_operators_snapshot_is_answered_once_it_is_durable() {
    let mut cluster = leader_with(settings(), 3);
    let want = |cluster: &mut Cluster, number| {
        cluster.event(id(1), Event::Operate { id: OperationId(number), operation: Operation::TakeSnapshot });
    };
    want(&mut cluster, 1);
    assert_eq!((cluster.wishes(1).len(), cluster.replica(1).operated.clone()), (1, vec![]));
    taken(&mut cluster, 4);
    assert_eq!(cluster.replica(1).operated, [], "an older one does not count");
    taken(&mut cluster, 5);
    want(&mut cluster, 2);
    assert_eq!(cluster.replica(1).operated, [(1, true), (2, true)]);
    let mut without = leader_with(RaftSettings::default(), 3);
    want(&mut without, 3);
    assert_eq!(without.replica(1).operated, [(3, false)]);
}

#[test]
fn an_operators_snapshot_that_cannot_be_written_is_answered_with_a_failure_and_the_next_may_succeed() {
    let mut cluster = leader_with(settings(), 3);
    let want = |cluster: &mut Cluster, number| {
        cluster.event(id(1), Event::Operate { id: OperationId(number), operation: Operation::TakeSnapshot });
    };
    let not_taken = |cluster: &mut Cluster, position| {
        cluster.event(id(1), Event::SnapshotNotTaken { position: index(position) });
    };
    want(&mut cluster, 1);
    not_taken(&mut cluster, 4);
    assert_eq!(cluster.replica(1).operated, [], "an older one says nothing of it");
    not_taken(&mut cluster, 5);
    assert_eq!(cluster.replica(1).operated, [(1, false)]);
    want(&mut cluster, 2);
    assert_eq!(cluster.wishes(1).len(), 2, "it is tried again");
    taken(&mut cluster, 5);
    assert_eq!(cluster.replica(1).operated, [(1, false), (2, true)]);
}

#[test]
fn a_snapshot_of_what_was_never_executed_stops_the_replica() {
    let mut cluster = leader_with(settings(), 3);
    taken(&mut cluster, 6);
    assert!(cluster.replica(1).halted.as_ref().is_some_and(|reason| reason.contains("was handed to the executor")));
}
