//! A leader that brings followers back by snapshots.

use crate::cluster::{Cluster, Wish, id, index};
use quorate_framework::{Event, Incarnation, Incoming, SnapshotId};
use quorate_raft::{InstallOutcome, InstallSnapshotReply, RaftMessage, RaftPromise, RaftSettings, RaftState, Term};
use std::time::Duration;

fn settings() -> RaftSettings {
    RaftSettings { log_memory_bytes: 400, log_held_bytes: 4_000, snapshots: true, ..RaftSettings::default() }
}

fn write(cluster: &mut Cluster, count: usize) {
    for _ in 0..count {
        cluster.propose(1, &"x".repeat(50));
        cluster.deliver_all();
    }
}

/// Replica 1 of three leads; replica 3 was away for 20 entries, is back, and the log no longer reaches it.
fn lagging_with(settings: RaftSettings) -> Cluster {
    let mut cluster = Cluster::with(3, settings, |_| RaftState::default());
    cluster.elect(1);
    cluster.isolate(3);
    cluster.event(id(1), Event::PeerDown { peer: id(3) });
    write(&mut cluster, 20);
    cluster.heal();
    cluster.event(id(1), Event::PeerUp { peer: id(3), incarnation: Incarnation(3) });
    cluster
}

fn lagging() -> Cluster {
    lagging_with(settings())
}

fn reply(snapshot: u64, outcome: InstallOutcome) -> crate::cluster::Said {
    let reply = InstallSnapshotReply { term: Term(1), snapshot: SnapshotId(snapshot), outcome };
    Incoming::Promise(RaftPromise::InstallSnapshotReply(reply))
}

fn offers(wishes: &[Wish]) -> usize {
    wishes.iter().filter(|wish| matches!(wish, Wish::Offer(..))).count()
}

#[test]
fn a_follower_below_the_log_is_brought_back_by_a_snapshot_and_replicates_though_nothing_new_is_written() {
    // cases/open.md B17.
    let mut cluster = lagging();
    let base = cluster.core(1).base_index();
    assert_eq!(cluster.wishes(1), [Wish::Offer(id(3), base)]);
    assert_eq!(cluster.peer(1, 3).state, "snapshot");
    let snapshot = cluster.make_ready(1, 3, 77);
    cluster.deliver_all();
    assert_eq!(cluster.wishes(3), [Wish::Fetch(id(1), snapshot)]);
    cluster.install(3, snapshot);
    cluster.deliver_all();
    let last = cluster.core(1).last_entry().0;
    let peer = cluster.peer(1, 3);
    assert_eq!((peer.state, peer.matched, peer.next), ("replicate", last, last.next()), "with no write since");
    assert_eq!(cluster.wishes(1), [Wish::Withdraw(id(3))]);
    assert_eq!(cluster.executed_payloads(3), cluster.executed_payloads(1));
    // The next writes go out without waiting for one another.
    (0..3).for_each(|_| cluster.propose(1, "y"));
    assert_eq!(cluster.under_way(1, 3).len(), 3);
    cluster.deliver_all();
    cluster.run_for(100);
    assert_eq!(cluster.executed_payloads(3), cluster.executed_payloads(1));
}

#[test]
fn a_heartbeat_alone_tells_that_the_snapshot_is_installed_when_the_answer_is_lost() {
    // cases/open.md B41: the message that reports the outcome is lost.
    let mut cluster = lagging();
    let snapshot = cluster.make_ready(1, 3, 77);
    cluster.deliver_all();
    cluster.install(3, snapshot);
    cluster.lose_all();
    cluster.run_for(60);
    assert_eq!((cluster.peer(1, 3).state, cluster.peer(1, 3).matched), ("replicate", snapshot.position));
}

#[test]
fn a_node_without_snapshots_is_asked_for_none_and_its_follower_stays_visibly_in_need() {
    let mut cluster = lagging_with(RaftSettings { snapshots: false, ..settings() });
    cluster.run_for(5_000);
    assert_eq!((cluster.wishes(1), cluster.peer(1, 3).state), (vec![], "needs_snapshot"));
}

#[test]
fn while_a_snapshot_is_under_way_the_follower_gets_heartbeats_and_the_offer_again_and_no_entries() {
    let mut cluster = lagging();
    let snapshot = cluster.make_ready(1, 3, 77);
    cluster.lose_all();
    cluster.cut = vec![(id(3), id(1))];
    for _ in 0..11 {
        cluster.run_to_deadline(1);
        while cluster.deliver_one(1, 2).is_some() {}
        while cluster.deliver_one(2, 1).is_some() {}
    }
    let said = cluster.under_way(1, 3);
    let mut repeated = 0;
    for one in &said {
        match one {
            Incoming::Message(RaftMessage::InstallSnapshot(offer)) => {
                repeated += 1;
                assert_eq!((offer.snapshot, offer.last_term, offer.members.len()), (snapshot, Term(1), 3));
            }
            Incoming::Message(RaftMessage::Heartbeat(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(repeated, 1, "once an in-flight timeout");
}

#[test]
fn a_follower_that_pulls_nothing_is_given_up_in_bounded_time_and_tried_again_after_a_pause() {
    // cases/open.md B41, B93.
    let mut cluster = lagging();
    cluster.wishes(1);
    cluster.make_ready(1, 3, 77);
    cluster.cut = vec![(id(1), id(3)), (id(3), id(1))];
    cluster.lose_all();
    cluster.run_for(9_900);
    assert_eq!((cluster.wishes(1), cluster.peer(1, 3).state), (vec![], "snapshot"));
    cluster.run_for(200);
    assert_eq!((cluster.wishes(1), cluster.peer(1, 3).state), (vec![Wish::Withdraw(id(3))], "needs_snapshot"));
    cluster.run_for(800);
    assert_eq!(cluster.wishes(1), []);
    cluster.run_for(200);
    assert!(matches!(cluster.wishes(1)[..], [Wish::Offer(..)]));
    // Five minutes of it: about one attempt in eleven seconds, each ended.
    cluster.run_for(300_000);
    let wishes = cluster.wishes(1);
    assert!((25..=30).contains(&offers(&wishes)), "{}", offers(&wishes));
    assert!(wishes.len() <= 2 * offers(&wishes) + 1);
    // It comes back, and catches up without the leader being touched.
    cluster.heal();
    cluster.run_for(12_000);
    let snapshot = cluster.make_ready(1, 3, 78);
    cluster.deliver_all();
    cluster.install(3, snapshot);
    cluster.deliver_all();
    assert_eq!(cluster.peer(1, 3).state, "replicate");
}

#[test]
fn a_follower_that_goes_on_pulling_is_not_given_up() {
    let mut cluster = lagging();
    cluster.make_ready(1, 3, 77);
    cluster.wishes(1);
    for _ in 0..10 {
        cluster.run_for(5_000);
        cluster.event(id(1), Event::SnapshotProgress { peer: id(3) });
    }
    assert_eq!((cluster.wishes(1), cluster.peer(1, 3).state), (vec![], "snapshot"));
}

#[test]
fn a_follower_that_installs_for_long_is_not_given_up() {
    let mut cluster = lagging();
    let snapshot = cluster.make_ready(1, 3, 77);
    cluster.deliver_all();
    cluster.event(id(3), Event::SnapshotFetched { id: snapshot.id });
    cluster.wishes(1);
    cluster.run_for(60_000);
    assert_eq!((cluster.wishes(1), cluster.peer(1, 3).state), (vec![], "snapshot"));
    cluster.event(id(3), Event::SnapshotInstalled { position: snapshot.position });
    cluster.deliver_all();
    assert_eq!(cluster.peer(1, 3).state, "replicate");
}

#[test]
fn a_failure_at_either_end_leads_to_another_attempt_after_the_pause() {
    let mut cluster = lagging();
    cluster.wishes(1);
    let snapshot = cluster.make_ready(1, 3, 77);
    cluster.deliver_all();
    cluster.event(id(3), Event::SnapshotNotFetched { id: snapshot.id });
    cluster.deliver_all();
    assert_eq!(cluster.wishes(1), [Wish::Withdraw(id(3))]);
    cluster.run_for(1_100);
    assert!(matches!(cluster.wishes(1)[..], [Wish::Offer(..)]));
    cluster.event(id(1), Event::SnapshotUnready { to: id(3) });
    assert_eq!(cluster.peer(1, 3).state, "needs_snapshot");
    cluster.run_for(1_100);
    assert_eq!(offers(&cluster.wishes(1)), 1);
    assert_eq!(cluster.counter(1, "snapshots_given_up"), 2);
}

#[test]
fn a_late_answer_about_another_snapshot_ends_no_transfer() {
    // cases/open.md B34.
    let mut cluster = lagging();
    let snapshot = cluster.make_ready(1, 3, 77);
    cluster.lose_all();
    cluster.wishes(1);
    cluster.hand_over(3, 1, reply(76, InstallOutcome::Failed));
    cluster.hand_over(3, 1, reply(77, InstallOutcome::StaleTerm));
    cluster.hand_over(3, 1, reply(76, InstallOutcome::Matched(index(2))));
    assert_eq!((cluster.wishes(1), cluster.peer(1, 3).state), (vec![], "snapshot"));
    cluster.hand_over(3, 1, reply(77, InstallOutcome::Matched(snapshot.position)));
    let before = cluster.peer(1, 3);
    assert_eq!(before.state, "replicate");
    cluster.hand_over(3, 1, reply(77, InstallOutcome::Matched(snapshot.position)));
    cluster.hand_over(3, 1, reply(77, InstallOutcome::Failed));
    assert_eq!(cluster.peer(1, 3), before);
}

#[test]
fn a_flapping_link_asks_for_no_more_than_one_snapshot_a_pause() {
    let mut cluster = lagging();
    for _ in 0..20 {
        cluster.event(id(1), Event::PeerDown { peer: id(3) });
        cluster.event(id(1), Event::PeerUp { peer: id(3), incarnation: Incarnation(3) });
    }
    let wishes = cluster.wishes(1);
    assert!(matches!(wishes[..], [Wish::Offer(..), Wish::Withdraw(_)]), "{wishes:?}");
    cluster.run_for(1_100);
    assert_eq!(offers(&cluster.wishes(1)), 1);
}

#[test]
fn what_is_served_is_withdrawn_when_the_link_or_the_leadership_is_lost_and_a_late_snapshot_too() {
    let mut cluster = lagging();
    cluster.wishes(1);
    cluster.isolate(1);
    cluster.until_stepped_down(1);
    assert_eq!(cluster.wishes(1), [Wish::Withdraw(id(3))]);
    cluster.make_ready(1, 3, 77);
    assert_eq!(cluster.wishes(1), [Wish::Withdraw(id(3))], "nobody wants it any more");
}

#[test]
fn the_log_above_a_snapshot_is_held_for_its_follower_beyond_the_bound_and_until_it_has_caught_up() {
    // cases/open.md B87: without it, the log moves on faster than snapshots are installed.
    let mut cluster = lagging();
    let snapshot = cluster.make_ready(1, 3, 77);
    cluster.deliver_all();
    write(&mut cluster, 20);
    assert!(cluster.core(1).base_index() <= snapshot.position, "held");
    assert_eq!(cluster.replica(1).refused, [], "and nobody is told to wait for it");
    cluster.wishes(1);
    cluster.install(3, snapshot);
    cluster.deliver_one(3, 1);
    // While it catches up, more is written; what it needs next is still there.
    cluster.propose(1, &"x".repeat(50));
    while cluster.deliver_one(1, 2).is_some() {}
    while cluster.deliver_one(2, 1).is_some() {}
    assert!(cluster.core(1).base_index() <= snapshot.position);
    cluster.deliver_all();
    assert_eq!(cluster.wishes(1), [Wish::Withdraw(id(3))], "no second snapshot");
    assert_eq!(cluster.peer(1, 3).matched, cluster.core(1).last_entry().0);
    write(&mut cluster, 1);
    assert!(cluster.core(1).base_index() > snapshot.position, "released");
    cluster.run_for(100);
    assert_eq!(cluster.executed_payloads(3), cluster.executed_payloads(1));
    // From then on it is a follower like any other, for which nothing is held.
    cluster.cut = vec![(id(3), id(1))];
    write(&mut cluster, 20);
    assert!(cluster.core(1).base_index() > cluster.peer(1, 3).matched);
}

#[test]
fn a_dead_follower_pins_the_log_up_to_a_bound_and_then_no_longer() {
    // cases/open.md B93; RESILIENTDB §9.2 item 7.
    let mut cluster = lagging_with(RaftSettings { snapshot_stall_timeout: Duration::from_secs(3_600), ..settings() });
    let snapshot = cluster.make_ready(1, 3, 77);
    cluster.cut = vec![(id(1), id(3)), (id(3), id(1))];
    cluster.wishes(1);
    let mut most = 0;
    for _ in 0..200 {
        write(&mut cluster, 1);
        most = most.max(cluster.core(1).last_entry().0.0 - cluster.core(1).base_index().0);
    }
    let bytes = cluster.core(1).last_entry().0.0 - cluster.core(1).base_index().0;
    assert!(cluster.core(1).base_index() > snapshot.position, "the log went on");
    assert!(most <= 4_400 / 76 + 1 && bytes <= most, "{most} entries at most");
    assert_eq!(cluster.replica(1).refused, []);
    cluster.run_for(60);
    assert_eq!((cluster.wishes(1), cluster.peer(1, 3).state), (vec![Wish::Withdraw(id(3))], "needs_snapshot"));
}

#[test]
fn a_snapshot_that_the_log_does_not_join_is_not_offered() {
    let mut cluster = lagging();
    cluster.wishes(1);
    let too_old = quorate_framework::ServedSnapshot { id: SnapshotId(5), position: index(3), length_bytes: 10 };
    cluster.event(id(1), Event::SnapshotReady { to: id(3), snapshot: too_old });
    assert_eq!(cluster.under_way(1, 3), []);
    assert_eq!((cluster.wishes(1), cluster.peer(1, 3).state), (vec![Wish::Withdraw(id(3))], "needs_snapshot"));
}

#[test]
fn a_snapshot_made_ready_twice_is_offered_once() {
    let mut cluster = lagging();
    cluster.lose_all();
    let first = cluster.make_ready(1, 3, 77);
    cluster.make_ready(1, 3, 78);
    let said = cluster.under_way(1, 3);
    assert!(
        matches!(&said[..], [Incoming::Message(RaftMessage::InstallSnapshot(offer))] if offer.snapshot == first),
        "{said:?}"
    );
}
