//! Starting from what was recovered.

use crate::cluster::{Cluster, entries, id, index, members};
use quorate_framework::entry::Entry;
use quorate_framework::{Event, ExecutedAt, Incarnation, Incoming, MemberVector};
use quorate_raft::{
    Append, HardState, RaftMessage, RaftPromise, RaftRecord, RaftSettings, RaftState, Term, VoteReply, VoteRequest,
    block_of,
};

/// A log of term 1 from `base` to `last`, with a snapshot.
fn recovered(base: u64, last: u64, snapshot: u64) -> RaftState {
    let of = |index_of: u64| (index(index_of), Term(u64::from(index_of > 0)));
    RaftState {
        hard_state: HardState { term: Term(1), voted_for: None },
        base: of(base),
        entries: entries(1, base + 1..=last),
        snapshot: of(snapshot),
        snapshot_members: (snapshot > 0).then(|| members(3)),
        ..RaftState::default()
    }
}

fn executed(at: u64, term: u64) -> ExecutedAt {
    ExecutedAt { position: index(at), block: block_of(Term(term), index(at)) }
}

fn cluster(state: &RaftState, executed: ExecutedAt) -> Cluster {
    let settings = RaftSettings { snapshots: true, ..RaftSettings::default() };
    Cluster::with_executed(3, settings, |_| state.clone(), |_| executed)
}

/// What a leader of a term sends: its own entries from behind `previous` (index and term) up to `last`.
fn append(term: u64, previous: (u64, u64), last: u64, commit: u64) -> Incoming<RaftMessage, RaftPromise> {
    append_of(term, previous, entries(term, previous.0 + 1..=last), commit)
}

fn append_of(term: u64, previous: (u64, u64), sent: Vec<Entry>, commit: u64) -> Incoming<RaftMessage, RaftPromise> {
    Incoming::Message(RaftMessage::Append(Append {
        term: Term(term),
        request: 1,
        previous_index: index(previous.0),
        previous_term: Term(previous.1),
        commit: index(commit),
        entries: sent.into(),
    }))
}

#[test]
fn commit_starts_at_the_snapshot_and_what_lies_above_is_executed_once_a_leader_commits_it() {
    let mut cluster = cluster(&recovered(2, 10, 5), executed(5, 1));
    assert_eq!((cluster.core(1).commit_index(), cluster.replica(1).executed.len()), (index(5), 0));
    cluster.elect(1);
    assert_eq!(cluster.core(1).commit_index(), index(11));
    // The cluster of this test checks that each position is executed once and in order.
    assert_eq!(cluster.replica(1).state_at, index(11));
}

#[test]
fn a_state_below_the_snapshot_is_brought_up_to_it_from_the_log() {
    let cluster = cluster(&recovered(2, 10, 5), executed(3, 1));
    assert_eq!(cluster.replica(1).state_at, index(5));
}

#[test]
fn what_the_state_holds_already_is_not_executed_again() {
    // cases/open.md B07: the store keeps position and data in one batch, and may be further than the snapshot or even the log.
    for (at, term) in [(8, 1), (10, 1), (11, 2), (30, 2)] {
        let mut cluster = cluster(&recovered(2, 10, 5), executed(at, term));
        cluster.elect(1);
        assert_eq!(cluster.core(1).commit_index(), index(11));
        assert_eq!(cluster.replica(1).state_at, index(at.max(11)), "executed {at}");
        (0..30).for_each(|_| cluster.propose(1, "x"));
        cluster.deliver_all();
        assert_eq!(cluster.replica(1).state_at, index(41), "executed {at}");
    }
}

#[test]
fn a_state_beyond_a_stale_tail_of_the_log_commits_none_of_it() {
    // The entries it had executed were lost with the log's unsynced end, and what they replaced came back.
    let mut cluster = cluster(&recovered(2, 10, 5), executed(8, 2));
    assert_eq!(cluster.core(1).commit_index(), index(5));
    cluster.hand_over(2, 1, append(2, (5, 1), 9, 9));
    assert_eq!(cluster.replica(1).halted, None);
    assert_eq!((cluster.core(1).last_entry(), cluster.core(1).commit_index()), ((index(9), Term(2)), index(9)));
    assert_eq!(cluster.replica(1).state_at, index(9));
}

fn halted(cluster: &Cluster) -> &str {
    cluster.replica(1).halted.as_deref().unwrap_or_default()
}

#[test]
fn a_state_that_the_log_holds_is_committed_and_nothing_cuts_it_any_more() {
    let mut cluster = cluster(&recovered(2, 10, 5), executed(8, 1));
    assert_eq!((cluster.core(1).commit_index(), cluster.replica(1).state_at), (index(8), index(8)));
    cluster.hand_over(2, 1, append(2, (5, 1), 9, 5));
    assert!(halted(&cluster).contains("commit"), "{}", halted(&cluster));
}

#[test]
fn a_state_that_contradicts_what_is_known_to_be_committed_refuses_to_start() {
    let broken = cluster(&recovered(2, 10, 5), executed(4, 2));
    let told = "the store's state ends with entry 4 of term 2, and an entry of term 1 is committed there or before";
    assert!(halted(&broken).contains(told), "{}", halted(&broken));
    let foreign = ExecutedAt { position: index(8), block: block_of(Term(1), index(9)) };
    let broken = cluster(&recovered(2, 10, 5), foreign);
    assert!(halted(&broken).contains("none of Raft's"), "{}", halted(&broken));
}

#[test]
fn an_entry_of_a_later_term_that_comes_back_where_an_older_one_was_committed_is_replaced_once_more() {
    // Figure 8 of the paper: the leader of term 2 appended 3 to 10 alone; that of term 3 committed 3 to 6 of term 1 by 7 of its own. They
    // were executed here, and a power cut took them from the log, not from the store.
    let state = RaftState {
        hard_state: HardState { term: Term(3), voted_for: None },
        base: (index(2), Term(1)),
        entries: entries(2, 3..=10),
        snapshot: (index(2), Term(1)),
        snapshot_members: Some(members(3)),
        ..RaftState::default()
    };
    for at in [executed(4, 1), executed(6, 1), executed(7, 3)] {
        let mut cluster = cluster(&state, at);
        assert_eq!((halted(&cluster), cluster.core(1).commit_index()), ("", index(2)), "{at:?}");
        let replacing = [entries(1, 3..=6), entries(3, 7..=8)].concat();
        cluster.hand_over(2, 1, append_of(3, (2, 1), replacing, 8));
        assert_eq!((halted(&cluster), cluster.core(1).last_entry()), ("", (index(8), Term(3))), "{at:?}");
        assert_eq!((cluster.core(1).commit_index(), cluster.replica(1).state_at), (index(8), index(8)), "{at:?}");
    }
}

#[test]
fn a_state_beyond_the_log_is_compared_with_what_is_committed_there_and_another_entry_halts_the_replica() {
    for (state, last, commit, is_right) in [
        (executed(12, 2), 13, 13, true),
        (executed(12, 2), 13, 12, true),
        // Its last entry was another one.
        (executed(12, 1), 13, 13, false),
        (executed(12, 3), 13, 13, false),
        // An entry before it leaves no place for its last one.
        (executed(12, 1), 12, 11, false),
        (executed(30, 1), 12, 12, false),
        // Nothing contradicts it yet.
        (executed(12, 1), 12, 10, true),
        (executed(12, 3), 12, 11, true),
    ] {
        let mut cluster = cluster(&recovered(2, 10, 5), state);
        cluster.hand_over(2, 1, append(2, (10, 1), last, commit));
        let case = format!("{state:?}, commit {commit} of {last}: {}", halted(&cluster));
        assert_eq!(cluster.replica(1).halted.is_none(), is_right, "{case}");
        assert_eq!(halted(&cluster).contains("the store belongs to another log"), !is_right, "{case}");
        let executed_now = cluster.replica(1).state_at;
        assert_eq!(executed_now, if is_right { state.position.max(index(commit)) } else { state.position }, "{case}");
    }
}

#[test]
fn once_the_state_is_found_in_the_log_later_terms_are_nothing_to_it() {
    let mut cluster = cluster(&recovered(2, 10, 5), executed(11, 2));
    cluster.hand_over(2, 1, append(2, (10, 1), 12, 12));
    cluster.hand_over(3, 1, append(5, (12, 2), 14, 14));
    assert_eq!((halted(&cluster), cluster.replica(1).state_at), ("", index(14)));
}

#[test]
fn a_state_and_a_log_with_a_hole_between_them_refuse_to_start() {
    // cases/open.md B43.
    let broken = cluster(&recovered(5, 10, 5), executed(3, 1));
    assert!(broken.replica(1).halted.as_ref().is_some_and(|reason| reason.contains("the log begins after 5")));
    let apart = RaftState { snapshot: (index(20), Term(1)), ..recovered(2, 10, 5) };
    let broken = cluster(&apart, executed(20, 1));
    assert!(broken.replica(1).halted.as_ref().is_some_and(|reason| reason.contains("does not join")));
}

#[test]
fn entries_below_the_snapshot_serve_a_follower_that_is_a_little_behind() {
    // cases/open.md B92.
    let state = |replica| if replica == id(3) { recovered(0, 4, 0) } else { recovered(2, 10, 8) };
    let settings = RaftSettings { snapshots: true, ..RaftSettings::default() };
    let states = |replica| if replica == id(3) { ExecutedAt::default() } else { executed(8, 1) };
    let mut cluster = Cluster::with_executed(3, settings, state, states);
    cluster.elect(1);
    cluster.run_for(200);
    assert_eq!((cluster.wishes(1), cluster.peer(1, 3).state), (vec![], "replicate"));
    assert_eq!((cluster.core(3).last_entry().0, cluster.replica(3).state_at), (index(11), index(11)));
}

#[test]
fn a_log_of_a_newer_term_than_the_metadata_counts_and_is_an_anomaly_and_no_vote_is_given_in_that_term() {
    let odd = RaftState { entries: entries(4, 1..=3), ..recovered(0, 0, 0) };
    let mut cluster = cluster(&odd, ExecutedAt::default());
    assert_eq!((cluster.core(1).term(), cluster.counter(1, "term_anomalies")), (Term(4), 1));
    let own = RaftRecord::HardState(HardState { term: Term(4), voted_for: Some(id(1)) });
    assert_eq!(cluster.replica(1).records, [own], "and it becomes durable");
    let request = VoteRequest { term: Term(4), last_index: index(9), last_term: Term(4) };
    cluster.hand_over(2, 1, Incoming::Promise(RaftPromise::RequestVote(request)));
    let refusal = VoteReply { term: Term(4), requested: Term(4), granted: false };
    assert_eq!(cluster.under_way(1, 2), [Incoming::Promise(RaftPromise::VoteReply(refusal))]);
}

#[test]
fn the_members_are_those_of_the_snapshot_until_the_log_says_otherwise() {
    let newer: MemberVector = members(3).into_keys().map(|member| (member, Incarnation(99))).collect();
    let state = RaftState { snapshot_members: Some(newer.clone()), ..recovered(2, 10, 5) };
    let mut cluster = cluster(&state, executed(5, 1));
    assert_eq!(cluster.replica(1).told_members, std::slice::from_ref(&newer));
    cluster.elect(1);
    cluster.event(id(1), Event::SnapshotDue);
    let base = quorate_raft::snapshot_base(index(11), Term(2), &newer);
    assert_eq!(cluster.wishes(1), [crate::cluster::Wish::Take(base)]);
}
