//! A hung disk or executor: such a replica does not lead.

use crate::cluster::{Cluster, id, index};
use quorate_framework::{Consensus, Event, Incoming};
use quorate_raft::RaftMessage;
use std::time::Duration;

fn pre_votes(cluster: &Cluster, from: u32, to: u32) -> usize {
    let said = cluster.under_way(from, to);
    said.iter().filter(|said| matches!(said, Incoming::Message(RaftMessage::PreVote(_)))).count()
}

#[test]
fn a_leader_whose_disk_hangs_gives_up_although_its_followers_hear_it_and_another_takes_over() {
    // cases/open.md B11.
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.replica_mut(1).durable_at_once = false;
    cluster.propose(1, "x");
    cluster.run_for(1_990);
    assert!(cluster.core(1).is_leader(), "a slow disk is given time");
    assert_eq!(cluster.core(1).commit_index(), index(3), "the others commit meanwhile");
    cluster.run_for(20);
    assert!(!cluster.core(1).is_leader());
    assert_eq!(cluster.counter(1, "stall_step_downs"), 1);
    assert_eq!(cluster.replica(1).forsaken, [index(4)], "whoever waits for more is told");
    cluster.run_for(3_000);
    assert!(cluster.core(2).is_leader() || cluster.core(3).is_leader());
    // The disk answers again: the old leader is a follower like any other.
    cluster.persist_all(id(1));
    cluster.replica_mut(1).durable_at_once = true;
    cluster.run_for(500);
    let leader = if cluster.core(2).is_leader() { 2 } else { 3 };
    assert_eq!(cluster.peer(leader, 1).state, "replicate");
    assert_eq!(cluster.core(1).last_entry(), cluster.core(leader).last_entry());
}

#[test]
fn a_replica_whose_disk_hangs_never_campaigns_and_does_so_again_once_it_answers() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.replica_mut(2).durable_at_once = false;
    cluster.propose(1, "x");
    cluster.deliver_all();
    cluster.isolate(1);
    cluster.isolate(2);
    cluster.pass(2_000);
    for _ in 0..5 {
        cluster.heal();
        cluster.run_to_deadline(2);
        assert_eq!(pre_votes(&cluster, 2, 3), 0);
    }
    cluster.persist_all(id(2));
    cluster.run_to_deadline(2);
    assert_eq!(pre_votes(&cluster, 2, 3), 1);
}

#[test]
fn the_deadline_is_that_of_the_oldest_record_and_moves_on_with_progress() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.replica_mut(1).durable_at_once = false;
    for _ in 0..4 {
        cluster.propose(1, "each new record is younger than the first");
        cluster.run_for(490);
    }
    assert!(cluster.core(1).is_leader(), "the first is 1,960 ms old");
    cluster.persist_first(id(1), 1);
    cluster.run_for(400);
    assert!(cluster.core(1).is_leader(), "now the second is the oldest, 1,870 ms old");
    cluster.run_for(150);
    assert!(!cluster.core(1).is_leader());
}

#[test]
fn the_clock_of_the_core_runs_to_the_moment_at_which_a_stall_counts() {
    let mut cluster = Cluster::new(1);
    cluster.elect(1);
    cluster.replica_mut(1).durable_at_once = false;
    // Between two heartbeats, so that none of them shows the stall by chance.
    cluster.pass(13);
    let stalled_at = cluster.now + Duration::from_millis(2_000);
    cluster.propose(1, "x");
    cluster.until_stepped_down(1);
    assert_eq!(cluster.now, stalled_at);
    assert!(cluster.core(1).next_deadline().unwrap() > cluster.now, "and does not spin afterwards");
}

#[test]
fn a_leader_whose_executor_hangs_gives_up_and_does_not_campaign_until_it_answers() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.replica_mut(1).execute_at_once = false;
    cluster.propose(1, "x");
    cluster.deliver_all();
    cluster.run_for(1_990);
    assert!(cluster.core(1).is_leader());
    cluster.run_for(20);
    assert!(!cluster.core(1).is_leader());
    cluster.isolate(1);
    cluster.run_for(5_000);
    assert_eq!(cluster.counter(1, "elections_started"), 1, "its own, at the beginning");
    let position = cluster.replica(1).state_at;
    cluster.event(id(1), Event::Executed { position, digest: None });
    cluster.heal();
    cluster.replica_mut(1).execute_at_once = true;
    cluster.pass(1_100);
    cluster.tick(1);
    assert_eq!(pre_votes(&cluster, 1, 2), 1);
}

#[test]
fn a_disk_that_keeps_up_is_no_stall_however_long_it_is_used() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    for _ in 0..20 {
        cluster.propose(1, "x");
        cluster.run_for(300);
    }
    assert!(cluster.core(1).is_leader());
    assert_eq!(cluster.counter(1, "stall_step_downs"), 0);
}
