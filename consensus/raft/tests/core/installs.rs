//! A follower that is offered a snapshot.

use crate::cluster::{Cluster, Said, Wish, entries, id, index, members};
use quorate_framework::entry::Entry;
use quorate_framework::{
    Event, Incarnation, Incoming, MemberVector, Operation, OperationId, ServedSnapshot, SnapshotId,
};
use quorate_raft::{
    Append, Heartbeat, HeartbeatReply, InstallOutcome, InstallSnapshot, InstallSnapshotReply, RaftMessage, RaftPromise,
    RaftRecord, RaftSettings, RaftState, Term, snapshot_base,
};

fn append(term: u64, previous: (u64, u64), commit: u64, entries: Vec<Entry>) -> Said {
    Incoming::Message(RaftMessage::Append(Append {
        term: Term(term),
        request: 1,
        previous_index: index(previous.0),
        previous_term: Term(previous.1),
        commit: index(commit),
        entries: entries.into(),
    }))
}

fn served(number: u64, position: u64) -> ServedSnapshot {
    ServedSnapshot { id: SnapshotId(number), position: index(position), length_bytes: 1_000 }
}

fn offer_of(term: u64, snapshot: ServedSnapshot, last_term: u64, members: MemberVector) -> Said {
    let offer = InstallSnapshot { term: Term(term), snapshot, last_term: Term(last_term), members };
    Incoming::Message(RaftMessage::InstallSnapshot(offer))
}

fn offer(term: u64, number: u64, position: u64, last_term: u64) -> Said {
    offer_of(term, served(number, position), last_term, members(3))
}

fn answer(term: u64, number: u64, outcome: InstallOutcome) -> Said {
    let reply = InstallSnapshotReply { term: Term(term), snapshot: SnapshotId(number), outcome };
    Incoming::Promise(RaftPromise::InstallSnapshotReply(reply))
}

/// Replica 2 of three follows replica 1, with a log of term 1 up to 10, of which 5 are committed.
fn follower() -> Cluster {
    let settings = RaftSettings { snapshots: true, ..RaftSettings::default() };
    let mut cluster = Cluster::with(3, settings, |_| RaftState::default());
    cluster.hand_over(1, 2, append(1, (0, 0), 5, entries(1, 1..=10)));
    cluster.lose_all();
    cluster.replica_mut(2).records.clear();
    cluster
}

#[test]
fn an_offer_at_or_below_the_commit_is_answered_with_the_commit_index_and_nothing_is_fetched() {
    // cases/open.md B39.
    for position in [3, 5] {
        let mut cluster = follower();
        cluster.hand_over(1, 2, offer(1, 7, position, 1));
        assert_eq!(cluster.under_way(2, 1), [answer(1, 7, InstallOutcome::Matched(index(5)))]);
        assert_eq!((cluster.wishes(2), cluster.core(2).last_entry().0), (vec![], index(10)));
    }
}

#[test]
fn an_offer_whose_last_entry_is_in_the_log_commits_up_to_it_and_nothing_is_fetched() {
    let mut cluster = follower();
    cluster.hand_over(1, 2, offer(2, 7, 8, 1));
    assert_eq!(cluster.under_way(2, 1), [answer(2, 7, InstallOutcome::Matched(index(8)))]);
    assert_eq!((cluster.wishes(2), cluster.core(2).last_entry().0), (vec![], index(10)));
    assert_eq!((cluster.core(2).commit_index(), cluster.replica(2).state_at), (index(8), index(8)));
    let heartbeat = Heartbeat { term: Term(2), round: 3, commit: index(10) };
    cluster.hand_over(1, 2, Incoming::Message(RaftMessage::Heartbeat(heartbeat)));
    assert_eq!(cluster.core(2).commit_index(), index(8), "of what follows, nothing is known");
}

#[test]
fn an_installed_snapshot_drops_a_log_that_does_not_hold_its_last_entry() {
    let mut cluster = follower();
    cluster.hand_over(1, 2, offer(2, 7, 8, 2));
    assert_eq!(cluster.wishes(2), [Wish::Fetch(id(1), served(7, 8))]);
    assert_eq!(cluster.core(2).last_entry().0, index(10), "nothing has changed yet");
    cluster.event(id(2), Event::SnapshotFetched { id: SnapshotId(7) });
    let base = snapshot_base(index(8), Term(2), &members(3));
    assert_eq!(cluster.wishes(2), [Wish::Install(SnapshotId(7), base)]);
    assert_eq!(cluster.core(2).last_entry().0, index(10), "nor now: the state is not durable");
    cluster.event(id(2), Event::SnapshotInstalled { position: index(8) });
    assert_eq!((cluster.core(2).last_entry(), cluster.core(2).base_index()), ((index(8), Term(2)), index(8)));
    let reset = RaftRecord::Reset { position: index(8), term: Term(2) };
    assert_eq!(cluster.replica(2).records.last(), Some(&reset));
    assert_eq!(cluster.under_way(2, 1), [answer(2, 7, InstallOutcome::Matched(index(8)))]);
    cluster.hand_over(1, 2, append(2, (8, 2), 9, entries(2, 9..=9)));
    assert_eq!(cluster.replica(2).state_at, index(9));
}

#[test]
fn an_operator_who_waits_for_a_snapshot_is_answered_by_one_that_is_installed_instead() {
    let mut cluster = follower();
    cluster.event(id(2), Event::Operate { id: OperationId(1), operation: Operation::TakeSnapshot });
    assert!(matches!(cluster.wishes(2)[..], [Wish::Take(_)]));
    cluster.hand_over(1, 2, offer(2, 7, 8, 2));
    cluster.event(id(2), Event::SnapshotFetched { id: SnapshotId(7) });
    assert_eq!(cluster.replica(2).operated, []);
    cluster.event(id(2), Event::SnapshotInstalled { position: index(8) });
    assert_eq!(cluster.replica(2).operated, [(1, true)]);
}

#[test]
fn an_installed_snapshot_keeps_a_log_that_came_to_hold_its_last_entry_meanwhile() {
    let mut cluster = follower();
    cluster.hand_over(1, 2, offer(1, 7, 12, 1));
    cluster.event(id(2), Event::SnapshotFetched { id: SnapshotId(7) });
    // While the state is exchanged, entries are taken, committed, and not executed up to the snapshot.
    cluster.hand_over(1, 2, append(1, (10, 1), 13, entries(1, 11..=14)));
    assert_eq!(
        cluster.replica(2).executed.last().map(|range| (range.first, range.last())),
        Some((index(13), index(13)))
    );
    cluster.event(id(2), Event::SnapshotInstalled { position: index(12) });
    assert_eq!((cluster.core(2).last_entry().0, cluster.core(2).base_index()), (index(14), index(0)));
    // Read again later, a record of it could find the entry forgotten, and drop what follows.
    let is_reset = |record: &RaftRecord| matches!(record, RaftRecord::Reset { .. });
    assert!(!cluster.replica(2).records.iter().any(is_reset));
    assert_eq!(cluster.core(2).commit_index(), index(13));
    assert!(cluster.replica(2).halted.is_none());
}

#[test]
fn an_installed_snapshot_that_the_log_has_gone_through_and_past_changes_nothing_in_the_log() {
    // Found by the random runs: the entries after the snapshot were executed and cut before the node reported the install.
    let settings = RaftSettings { snapshots: true, log_memory_bytes: 0, ..RaftSettings::default() };
    let mut cluster = Cluster::with(3, settings, |_| RaftState::default());
    cluster.hand_over(1, 2, offer(1, 7, 3, 1));
    cluster.event(id(2), Event::SnapshotFetched { id: SnapshotId(7) });
    cluster.hand_over(1, 2, append(1, (0, 0), 9, entries(1, 1..=9)));
    assert_eq!((cluster.core(2).base_index(), cluster.replica(2).state_at), (index(9), index(9)));
    cluster.event(id(2), Event::SnapshotInstalled { position: index(3) });
    assert_eq!(cluster.replica(2).halted, None);
    assert_eq!((cluster.core(2).base_index(), cluster.core(2).commit_index()), (index(9), index(9)));
}

#[test]
fn nothing_is_promised_on_an_installed_snapshot_before_its_reset_record_is_durable() {
    let mut cluster = follower();
    cluster.hand_over(1, 2, offer(2, 7, 20, 2));
    cluster.replica_mut(2).durable_at_once = false;
    cluster.event(id(2), Event::SnapshotFetched { id: SnapshotId(7) });
    cluster.event(id(2), Event::SnapshotInstalled { position: index(20) });
    let heartbeat = Heartbeat { term: Term(2), round: 3, commit: index(0) };
    cluster.hand_over(1, 2, Incoming::Message(RaftMessage::Heartbeat(heartbeat)));
    cluster.hand_over(1, 2, append(2, (20, 2), 20, entries(2, 21..=21)));
    let matched = HeartbeatReply { term: Term(2), round: 3, matched: index(5) };
    assert_eq!(
        cluster.under_way(2, 1),
        [Incoming::Promise(RaftPromise::HeartbeatReply(matched))],
        "of what was dropped, only the committed counts"
    );
    cluster.lose_all();
    cluster.persist_first(id(2), 1);
    assert_eq!(cluster.under_way(2, 1), [answer(2, 7, InstallOutcome::Matched(index(20)))]);
    cluster.persist_all(id(2));
    assert_eq!(cluster.under_way(2, 1).len(), 2, "and the entry after it");
}

#[test]
fn a_repeated_offer_is_fetched_once_and_after_the_install_answered_as_done() {
    // cases/open.md B34.
    let mut cluster = follower();
    let said = offer(1, 7, 20, 1);
    cluster.hand_over(1, 2, said.clone());
    cluster.hand_over(1, 2, said.clone());
    assert_eq!(cluster.wishes(2).len(), 1);
    cluster.event(id(2), Event::SnapshotFetched { id: SnapshotId(7) });
    cluster.hand_over(1, 2, said.clone());
    assert_eq!(cluster.under_way(2, 1), [answer(1, 7, InstallOutcome::Installing)]);
    cluster.hand_over(1, 2, offer(1, 8, 25, 1));
    cluster.event(id(2), Event::SnapshotFetched { id: SnapshotId(7) });
    assert_eq!(cluster.wishes(2).len(), 1, "one install");
    cluster.event(id(2), Event::SnapshotInstalled { position: index(20) });
    cluster.lose_all();
    cluster.hand_over(1, 2, said);
    cluster.event(id(2), Event::SnapshotFetched { id: SnapshotId(7) });
    cluster.event(id(2), Event::SnapshotNotFetched { id: SnapshotId(7) });
    assert_eq!(cluster.under_way(2, 1), [answer(1, 7, InstallOutcome::Matched(index(20)))]);
    assert_eq!(cluster.wishes(2).len(), 1, "the log is forgotten, and nothing else");
    assert!(cluster.replica(2).halted.is_none());
}

#[test]
fn another_leaders_snapshot_takes_the_place_of_the_one_being_fetched() {
    // cases/open.md B37.
    let mut cluster = follower();
    cluster.hand_over(1, 2, offer(1, 7, 20, 1));
    cluster.hand_over(3, 2, offer(2, 9, 18, 1));
    let wanted = [Wish::Fetch(id(1), served(7, 20)), Wish::Fetch(id(3), served(9, 18))];
    assert_eq!(cluster.wishes(2), wanted);
    cluster.event(id(2), Event::SnapshotFetched { id: SnapshotId(7) });
    cluster.event(id(2), Event::SnapshotNotFetched { id: SnapshotId(7) });
    assert_eq!(cluster.wishes(2), [], "what was replaced is not installed");
    cluster.event(id(2), Event::SnapshotFetched { id: SnapshotId(9) });
    assert!(matches!(cluster.wishes(2)[..], [Wish::Install(SnapshotId(9), _)]));
}

#[test]
fn a_snapshot_that_the_commit_has_passed_while_it_was_fetched_is_not_installed() {
    // cases/open.md B39.
    let mut cluster = follower();
    cluster.hand_over(1, 2, offer(1, 7, 12, 1));
    cluster.wishes(2);
    cluster.hand_over(1, 2, append(1, (10, 1), 13, entries(1, 11..=14)));
    assert_eq!(cluster.wishes(2), [Wish::Cancel]);
    cluster.event(id(2), Event::SnapshotFetched { id: SnapshotId(7) });
    assert_eq!((cluster.wishes(2), cluster.replica(2).state_at), (vec![], index(13)));
    cluster.event(id(2), Event::SnapshotInstalled { position: index(12) });
    assert!(cluster.replica(2).halted.as_ref().is_some_and(|reason| reason.contains("not ordered")));
}

#[test]
fn an_offer_of_an_older_term_is_refused_and_one_of_a_newer_term_followed() {
    let mut cluster = follower();
    cluster.hand_over(3, 2, offer(4, 7, 20, 1));
    assert_eq!(cluster.core(2).term(), Term(4));
    cluster.wishes(2);
    cluster.hand_over(1, 2, offer(1, 8, 30, 1));
    assert_eq!(cluster.under_way(2, 1), [answer(4, 8, InstallOutcome::StaleTerm)]);
    assert_eq!(cluster.wishes(2), []);
}

#[test]
fn a_snapshot_that_could_not_be_fetched_is_reported_and_the_next_offer_is_taken() {
    let mut cluster = follower();
    cluster.hand_over(1, 2, offer(1, 7, 20, 1));
    cluster.event(id(2), Event::SnapshotNotFetched { id: SnapshotId(7) });
    assert_eq!(cluster.under_way(2, 1), [answer(1, 7, InstallOutcome::Failed)]);
    cluster.wishes(2);
    cluster.hand_over(1, 2, offer(1, 8, 21, 1));
    assert_eq!(cluster.wishes(2), [Wish::Fetch(id(1), served(8, 21))]);
}

#[test]
fn a_node_without_snapshots_says_that_it_cannot_install_one() {
    let mut cluster = Cluster::new(3);
    cluster.hand_over(1, 2, offer(1, 7, 20, 1));
    assert_eq!(cluster.under_way(2, 1), [answer(1, 7, InstallOutcome::Failed)]);
    assert_eq!(cluster.wishes(2), []);
}

#[test]
fn a_replica_that_installs_a_snapshot_does_not_campaign() {
    let mut cluster = follower();
    cluster.hand_over(1, 2, offer(1, 7, 20, 1));
    cluster.event(id(2), Event::SnapshotFetched { id: SnapshotId(7) });
    cluster.lose_all();
    for _ in 0..3 {
        cluster.run_to_deadline(2);
    }
    assert_eq!((cluster.under_way(2, 1), cluster.core(2).term()), (vec![], Term(1)));
    cluster.event(id(2), Event::SnapshotInstalled { position: index(20) });
    cluster.lose_all();
    cluster.run_to_deadline(2);
    assert!(matches!(cluster.under_way(2, 1)[..], [Incoming::Message(RaftMessage::PreVote(_))]));
}

#[test]
fn the_member_list_of_a_snapshot_counts_from_its_install_on() {
    let mut cluster = follower();
    let newer: MemberVector = members(3).into_keys().map(|member| (member, Incarnation(99))).collect();
    cluster.hand_over(1, 2, offer_of(1, served(7, 20), 1, newer.clone()));
    cluster.event(id(2), Event::SnapshotFetched { id: SnapshotId(7) });
    assert_eq!(cluster.replica(2).told_members, Vec::<MemberVector>::new());
    cluster.event(id(2), Event::SnapshotInstalled { position: index(20) });
    assert_eq!(cluster.replica(2).told_members, [newer]);
}

#[test]
fn a_snapshot_against_what_is_committed_stops_the_replica() {
    let mut cluster = follower();
    cluster.hand_over(1, 2, offer(2, 7, 12, 2));
    cluster.event(id(2), Event::SnapshotFetched { id: SnapshotId(7) });
    cluster.hand_over(1, 2, append(2, (10, 1), 13, entries(1, 11..=14)));
    cluster.event(id(2), Event::SnapshotInstalled { position: index(12) });
    assert!(cluster.replica(2).halted.as_ref().is_some_and(|reason| reason.contains("conflicts with the log")));
}
