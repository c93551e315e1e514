//! Elections: who may lead, and who may not be unseated.

use crate::cluster::{Cluster, entries, id, index};
use quorate_framework::{Consensus, Event, Incarnation, Incoming};
use quorate_raft::{
    HardState, RaftMessage, RaftPromise, RaftRecord, RaftSettings, RaftState, Term, VoteReply, VoteRequest,
};

#[test]
fn nobody_leads_at_boot_and_the_first_election_is_won_by_a_recorded_vote() {
    // RESILIENTDB §9.1 item 5: replica 1 led term 1 by construction, unrecorded.
    let mut cluster = Cluster::new(3);
    assert!((1..=3).all(|number| !cluster.core(number).is_leader() && cluster.core(number).term() == Term(0)));
    cluster.elect(2);
    assert_eq!(cluster.core(2).term(), Term(1));
    let vote = RaftRecord::HardState(HardState { term: Term(1), voted_for: Some(id(2)) });
    for number in 1..=3 {
        assert!(cluster.replica(number).records.contains(&vote), "replica {number} recorded its vote");
    }
}

#[test]
fn a_restarted_replica_is_a_follower_in_its_recovered_term_and_never_a_leader() {
    // RESILIENTDB §9.1 items 5 and 6: the role survived recovery, and its timer ran before the log was read.
    let state = |replica| match replica {
        crate::cluster::ReplicaId(1) => {
            RaftState { hard_state: HardState { term: Term(7), voted_for: Some(id(1)) }, ..RaftState::default() }
        }
        _ => RaftState::default(),
    };
    let cluster = Cluster::with(3, RaftSettings::default(), state);
    assert!(!cluster.core(1).is_leader());
    assert_eq!(cluster.core(1).term(), Term(7));
}

#[test]
fn no_clock_runs_before_the_core_is_started() {
    assert_eq!(quorate_raft::Raft::new(RaftSettings::default()).next_deadline(), None);
}

#[test]
fn a_candidate_that_hears_of_the_vote_twice_counts_it_once() {
    let mut cluster = Cluster::new(5);
    cluster.pass(1_100);
    cluster.tick(1);
    while cluster.deliver_one(1, 2).is_some() {}
    while cluster.deliver_one(1, 3).is_some() {}
    while cluster.deliver_one(2, 1).is_some() {}
    while cluster.deliver_one(3, 1).is_some() {}
    assert_eq!(cluster.core(1).term(), Term(1), "the pre-vote is won with three of five");
    let vote =
        Incoming::Promise(RaftPromise::VoteReply(VoteReply { term: Term(1), requested: Term(1), granted: true }));
    cluster.hand_over(2, 1, vote.clone());
    cluster.hand_over(2, 1, vote.clone());
    assert!(!cluster.core(1).is_leader(), "its own vote and one other, twice, are two of five");
    cluster.hand_over(3, 1, vote);
    assert!(cluster.core(1).is_leader());
}

#[test]
fn votes_of_strangers_and_of_replicas_without_a_link_are_not_counted() {
    let mut cluster = Cluster::new(3);
    cluster.pass(1_100);
    cluster.tick(1);
    while cluster.deliver_one(1, 2).is_some() {}
    while cluster.deliver_one(2, 1).is_some() {}
    assert_eq!(cluster.core(1).term(), Term(1));
    let vote =
        Incoming::Promise(RaftPromise::VoteReply(VoteReply { term: Term(1), requested: Term(1), granted: true }));
    cluster.hand_over(9, 1, vote.clone());
    cluster.event(id(1), Event::PeerDown { peer: id(3) });
    cluster.hand_over(3, 1, vote);
    assert!(!cluster.core(1).is_leader());
}

#[test]
fn a_vote_leaves_only_after_it_is_durable_and_the_own_vote_counts_only_then() {
    // RESILIENTDB §9.1 items 7 and 9.
    let mut cluster = Cluster::new(3);
    cluster.replica_mut(1).durable_at_once = false;
    cluster.replica_mut(2).durable_at_once = false;
    cluster.pass(1_100);
    cluster.tick(1);
    while cluster.deliver_one(1, 2).is_some() {}
    while cluster.deliver_one(2, 1).is_some() {}
    assert_eq!(cluster.core(1).term(), Term(1));
    assert_eq!(cluster.under_way(1, 2), [], "the request for a vote waits for the candidate's own record");
    cluster.persist_all(id(1));
    while cluster.deliver_one(1, 2).is_some() {}
    assert_eq!(cluster.under_way(2, 1), [], "the vote waits for the voter's record");
    cluster.persist_all(id(2));
    assert!(matches!(
        cluster.under_way(2, 1)[..],
        [Incoming::Promise(RaftPromise::VoteReply(VoteReply { granted: true, .. }))]
    ));
    cluster.deliver_one(2, 1);
    assert!(cluster.core(1).is_leader());
}

#[test]
fn a_candidates_own_vote_is_not_counted_because_an_older_record_became_durable() {
    let mut cluster = Cluster::new(3);
    cluster.elect(2);
    cluster.replica_mut(1).durable_at_once = false;
    cluster.propose(2, "x");
    cluster.deliver_all();
    cluster.isolate(2);
    cluster.pass(1_500);
    cluster.tick(1);
    cluster.deliver_all();
    cluster.tick(3);
    assert_eq!(cluster.core(1).term(), Term(2));
    let vote =
        Incoming::Promise(RaftPromise::VoteReply(VoteReply { term: Term(2), requested: Term(2), granted: true }));
    cluster.hand_over(3, 1, vote);
    cluster.persist_first(id(1), 1);
    assert!(!cluster.core(1).is_leader(), "the entry is durable, the vote is not");
    cluster.persist_first(id(1), 1);
    assert!(cluster.core(1).is_leader());
}

#[test]
fn a_cluster_of_one_leads_and_commits_only_after_its_own_records_are_durable() {
    // RESILIENTDB §9.1 items 7 and 11.
    let mut cluster = Cluster::new(1);
    cluster.replica_mut(1).durable_at_once = false;
    cluster.pass(1_100);
    cluster.tick(1);
    assert!(!cluster.core(1).is_leader(), "its own vote is not durable yet");
    cluster.persist_all(id(1));
    assert!(cluster.core(1).is_leader());
    assert_eq!(cluster.core(1).commit_index(), index(0), "its own entry is not durable yet");
    cluster.persist_all(id(1));
    assert_eq!(cluster.core(1).commit_index(), index(2), "NO-OP and member list");
}

#[test]
fn freshness_is_last_term_then_last_index_and_no_id_breaks_the_tie() {
    // cases/open.md B03.
    let cases = [
        ((1, 3), (1, 2), false, "equal term, shorter log"),
        ((1, 3), (1, 3), true, "equal"),
        ((1, 3), (1, 4), true, "equal term, longer log"),
        ((1, 3), (2, 1), true, "higher last term, shorter log"),
        ((2, 3), (1, 9), false, "lower last term, longer log"),
    ];
    for ((own_term, own_last), (term, last), granted, what) in cases {
        let state = |_| recovered(own_term, own_last);
        let mut cluster = Cluster::with(3, RaftSettings::default(), state);
        cluster.pass(5_000);
        let request = VoteRequest { term: Term(9), last_index: index(last), last_term: Term(term) };
        cluster.hand_over(3, 1, Incoming::Promise(RaftPromise::RequestVote(request)));
        let reply = VoteReply { term: Term(9), requested: Term(9), granted };
        assert_eq!(cluster.under_way(1, 3), [Incoming::Promise(RaftPromise::VoteReply(reply))], "{what}");
    }
}

/// A log of `last` entries of one term.
fn recovered(term: u64, last: u64) -> RaftState {
    let hard_state = HardState { term: Term(term), voted_for: None };
    RaftState { hard_state, entries: entries(term, 1..=last), ..RaftState::default() }
}

#[test]
fn a_replica_that_rejoins_does_not_unseat_a_leader_that_a_majority_hears() {
    // RESILIENTDB §9.1 item 10.
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.isolate(3);
    cluster.run_for(20_000);
    assert_eq!(cluster.core(3).term(), Term(1), "pre-votes do not raise the term");
    cluster.heal();
    cluster.run_for(5_000);
    assert!(cluster.core(1).is_leader());
    assert_eq!(cluster.core(1).term(), Term(1));
}

#[test]
fn a_request_for_a_vote_in_a_higher_term_is_not_even_taken_over_while_the_leader_is_fresh() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    let request = VoteRequest { term: Term(50), last_index: index(99), last_term: Term(49) };
    cluster.hand_over(3, 2, Incoming::Promise(RaftPromise::RequestVote(request)));
    cluster.hand_over(3, 1, Incoming::Promise(RaftPromise::RequestVote(request)));
    assert_eq!((cluster.core(2).term(), cluster.core(1).term()), (Term(1), Term(1)));
}

#[test]
fn a_leader_that_no_majority_hears_steps_down_within_two_timeouts_and_forsakes_what_waits() {
    // RESILIENTDB §9.1 item 10: CheckQuorum.
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.isolate(1);
    cluster.propose(1, "lost");
    let before = cluster.now;
    cluster.until_stepped_down(1);
    assert!(cluster.now.since(before).as_millis() <= 1_000);
    assert_eq!(cluster.replica(1).forsaken, [index(3)]);
    assert_eq!(cluster.core(1).last_entry().0, index(3), "the entry stays: a majority could hold it (B06)");
}

#[test]
fn a_leader_with_a_silent_minority_stays() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.isolate(3);
    cluster.run_for(10_000);
    assert!(cluster.core(1).is_leader());
}

#[test]
fn parts_of_a_leaders_long_message_keep_its_follower_from_campaigning_and_parts_of_anothers_do_not() {
    for (sender, campaigns) in [(1, false), (3, true)] {
        let mut cluster = Cluster::new(3);
        cluster.elect(1);
        let term = cluster.core(2).term();
        cluster.lose_all();
        for _ in 0..30 {
            cluster.pass(100);
            cluster.event(id(2), Event::PeerAlive { peer: id(sender) });
            if cluster.core(2).next_deadline().is_some_and(|deadline| deadline <= cluster.now) {
                cluster.tick(2);
            }
        }
        assert_eq!(!cluster.under_way(2, 3).is_empty(), campaigns, "replica {sender} is alive");
        assert_eq!(cluster.core(2).term(), term);
    }
}

#[test]
fn a_sign_of_life_of_a_peer_without_a_link_is_not_believed() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.event(id(2), Event::PeerDown { peer: id(1) });
    let deadline = cluster.core(2).next_deadline();
    cluster.event(id(2), Event::PeerAlive { peer: id(1) });
    assert_eq!(cluster.core(2).next_deadline(), deadline);
}

#[test]
fn parts_of_a_followers_long_message_count_as_hearing_it() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.isolate(1);
    for _ in 0..50 {
        cluster.event(id(1), Event::PeerAlive { peer: id(2) });
        cluster.pass(100);
        cluster.tick(1);
    }
    assert!(cluster.core(1).is_leader(), "with the follower that is alive it is a majority");
    cluster.until_stepped_down(1);
}

#[test]
fn two_followers_that_lost_their_leader_elect_one_of_them_though_both_remember_it() {
    // cases/open.md B15: a pre-candidate forgets the old leader.
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.isolate(1);
    cluster.run_for(5_000);
    assert!(cluster.core(2).is_leader() || cluster.core(3).is_leader());
}

#[test]
fn the_loss_of_the_leaders_link_elects_within_milliseconds_once_a_majority_lost_it() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    let lost_at = cluster.now;
    cluster.isolate(1);
    cluster.event(id(2), Event::PeerDown { peer: id(1) });
    cluster.run_to_deadline(2);
    cluster.deliver_all();
    assert!(!cluster.core(2).is_leader(), "replica 3's own link to the leader is up: it refuses");
    cluster.event(id(3), Event::PeerDown { peer: id(1) });
    cluster.run_for(50);
    assert!(cluster.core(2).is_leader() || cluster.core(3).is_leader(), "{}", cluster.now.since(lost_at).as_millis());
}

#[test]
fn a_link_that_came_up_again_makes_early_help_void() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.event(id(3), Event::PeerDown { peer: id(1) });
    cluster.event(id(3), Event::PeerUp { peer: id(1), incarnation: Incarnation(1) });
    let request = VoteRequest { term: Term(2), last_index: index(9), last_term: Term(1) };
    cluster.hand_over(2, 3, Incoming::Message(RaftMessage::PreVote(request)));
    assert!(matches!(
        cluster.under_way(3, 2)[..],
        [Incoming::Message(RaftMessage::PreVoteReply(VoteReply { granted: false, .. }))]
    ));
}

#[test]
fn two_leaders_in_one_term_stop_the_replica_that_sees_them() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    let heartbeat = quorate_raft::Heartbeat { term: Term(1), round: 1, commit: index(0) };
    cluster.hand_over(3, 2, Incoming::Message(RaftMessage::Heartbeat(heartbeat)));
    assert!(cluster.replica(2).halted.as_ref().is_some_and(|reason| reason.contains("both lead term 1")));
}

#[test]
fn the_first_leader_puts_the_bound_member_list_into_the_log_and_the_second_does_not() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    assert_eq!(cluster.core(1).last_entry(), (index(2), Term(1)), "NO-OP and member list");
    cluster.elect(2);
    assert_eq!(cluster.core(2).last_entry(), (index(3), Term(2)), "NO-OP alone");
}
