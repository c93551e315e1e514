//! Replication: what is acknowledged, committed, sent again, and refused.

use crate::cluster::{Cluster, Said, entries, id, index, proposal};
use quorate_framework::entry::Entry;
use quorate_framework::{Consensus, Encoder, Event, Incarnation, Incoming, Refusal, Wire};
use quorate_raft::{
    Append, AppendOutcome, AppendReply, Heartbeat, HeartbeatReply, RaftMessage, RaftPromise, RaftRecord, RaftSettings,
    Term,
};

fn append(term: u64, request: u64, previous: (u64, u64), commit: u64, entries: Vec<Entry>) -> Said {
    Incoming::Message(RaftMessage::Append(Append {
        term: Term(term),
        request,
        previous_index: index(previous.0),
        previous_term: Term(previous.1),
        commit: index(commit),
        entries: entries.into(),
    }))
}

fn reply(term: u64, request: u64, outcome: AppendOutcome) -> Said {
    Incoming::Promise(RaftPromise::AppendReply(AppendReply { term: Term(term), request, outcome }))
}

fn appends(said: &[Said]) -> Vec<&Append> {
    let append = |one| match one {
        &Incoming::Message(RaftMessage::Append(ref append)) => Some(append),
        _ => None,
    };
    said.iter().filter_map(append).collect()
}

/// Replica 2 of three, following replica 1 in term 2, with a log of term-1 entries 1..=5 and a stale tail of term 1 up to 10.
fn follower_with_a_stale_tail() -> Cluster {
    let mut cluster = Cluster::new(3);
    cluster.hand_over(3, 2, append(1, 1, (0, 0), 0, entries(1, 1..=10)));
    cluster.lose_all();
    cluster
}

#[test]
fn an_acknowledgement_names_what_its_own_request_matched_never_the_followers_last_index() {
    // RESILIENTDB §9.1 item 1: a stale tail to 10 was acknowledged by an append that matched up to 5.
    let mut cluster = follower_with_a_stale_tail();
    cluster.hand_over(1, 2, append(2, 7, (5, 1), 0, Vec::new()));
    assert_eq!(cluster.under_way(2, 1), [reply(2, 7, AppendOutcome::Matched(index(5)))]);
    cluster.lose_all();
    let heartbeat = Heartbeat { term: Term(2), round: 3, commit: index(0) };
    cluster.hand_over(1, 2, Incoming::Message(RaftMessage::Heartbeat(heartbeat)));
    let answer = HeartbeatReply { term: Term(2), round: 3, matched: index(5) };
    assert_eq!(cluster.under_way(2, 1), [Incoming::Promise(RaftPromise::HeartbeatReply(answer))]);
    assert_eq!(cluster.core(2).last_entry().0, index(10), "the tail stays until a real conflict");
}

#[test]
fn a_follower_commits_at_most_what_it_verified_against_its_leader() {
    // RESILIENTDB §9.1 item 2: min(leader commit, own last index) committed a divergent suffix.
    let mut cluster = follower_with_a_stale_tail();
    cluster.hand_over(1, 2, append(2, 7, (5, 1), 9, Vec::new()));
    assert_eq!(cluster.core(2).commit_index(), index(5));
    let heartbeat = Heartbeat { term: Term(2), round: 3, commit: index(9) };
    cluster.hand_over(1, 2, Incoming::Message(RaftMessage::Heartbeat(heartbeat)));
    assert_eq!(cluster.core(2).commit_index(), index(5));
}

#[test]
fn a_follower_whose_log_is_longer_than_the_new_leaders_is_brought_into_line_and_stops_nobody() {
    // RESILIENTDB §9.1 item 3: each new leader aborted on such a follower's answer.
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.isolate(1);
    (0..5).for_each(|_| cluster.propose(1, "never committed"));
    cluster.until_stepped_down(1);
    cluster.elect(2);
    cluster.propose(2, "kept");
    cluster.deliver_all();
    assert_eq!(cluster.core(1).last_entry(), (index(7), Term(1)));
    cluster.heal();
    cluster.event(id(2), Event::PeerDown { peer: id(1) });
    // A probe without entries is answered while the follower's longer tail still stands.
    cluster.event(id(2), Event::PeerUp { peer: id(1), incarnation: Incarnation(1) });
    let probe = appends(&cluster.under_way(2, 1))[0].clone();
    let empty = Append { entries: Vec::new().into(), ..probe };
    cluster.lose_all();
    cluster.hand_over(2, 1, Incoming::Message(RaftMessage::Append(empty)));
    assert_eq!(cluster.core(1).last_entry().0, index(7));
    cluster.deliver_all();
    cluster.run_to_deadline(2);
    cluster.deliver_all();
    assert_eq!(cluster.core(1).last_entry(), cluster.core(2).last_entry());
    assert!((1..=3).all(|number| cluster.replica(number).halted.is_none()));
    assert_eq!(cluster.executed_payloads(1), ["kept"]);
}

#[test]
fn an_acknowledgement_waits_for_its_entries_also_when_it_is_a_repeat_that_appends_nothing() {
    // RESILIENTDB §9.1 item 4: a duplicate got a ready future and acknowledged what another thread had not synced.
    let mut cluster = Cluster::new(3);
    cluster.hand_over(1, 2, append(1, 0, (0, 0), 0, Vec::new()));
    cluster.lose_all();
    // The term is durable; what follows is not.
    cluster.replica_mut(2).durable_at_once = false;
    cluster.hand_over(1, 2, append(1, 1, (0, 0), 0, entries(1, 1..=3)));
    cluster.hand_over(1, 2, append(1, 2, (0, 0), 0, entries(1, 1..=3)));
    let heartbeat = Heartbeat { term: Term(1), round: 3, commit: index(0) };
    cluster.hand_over(1, 2, Incoming::Message(RaftMessage::Heartbeat(heartbeat)));
    let answer = HeartbeatReply { term: Term(1), round: 3, matched: index(0) };
    let answer = Incoming::Promise(RaftPromise::HeartbeatReply(answer));
    assert_eq!(cluster.under_way(2, 1), [answer], "a heartbeat is answered at once, with what is durable");
    cluster.lose_all();
    cluster.persist_all(id(2));
    let matched = AppendOutcome::Matched(index(3));
    assert_eq!(cluster.under_way(2, 1), [reply(1, 1, matched), reply(1, 2, matched)]);
}

#[test]
fn a_leader_commits_only_once_its_own_copy_or_a_majority_of_others_is_durable() {
    // RESILIENTDB §9.1 item 7: the NO-OP counted as durable at once.
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.replica_mut(1).durable_at_once = false;
    cluster.propose(1, "x");
    cluster.deliver_one(1, 2);
    cluster.deliver_one(2, 1);
    assert_eq!(cluster.core(1).commit_index(), index(2), "one follower of three, and the leader's copy is not durable");
    cluster.persist_all(id(1));
    assert_eq!(cluster.core(1).commit_index(), index(3), "raised by the leader's own sync, without another answer");
}

#[test]
fn two_durable_followers_commit_before_the_leaders_own_slow_disk() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.replica_mut(1).durable_at_once = false;
    cluster.propose(1, "x");
    cluster.deliver_all();
    assert_eq!(cluster.core(1).commit_index(), index(3));
}

#[test]
fn an_entry_of_an_older_term_is_committed_only_by_one_of_the_leaders_own_term() {
    // cases/open.md B01; Raft figure 8.
    let mut cluster = Cluster::new(5);
    cluster.elect(1);
    cluster.propose(1, "of term 1");
    cluster.deliver_one(1, 2);
    cluster.lose_all();
    cluster.isolate(1);
    cluster.elect(2);
    assert_eq!(cluster.core(2).term(), Term(2));
    // A majority holds the old entry only together with the new leader's own.
    let committed_with = cluster.core(2).commit_index();
    assert_eq!(cluster.core(2).term_at(committed_with), Some(Term(2)));

    let mut cluster = Cluster::new(5);
    cluster.elect(1);
    cluster.propose(1, "of term 1");
    cluster.deliver_one(1, 2);
    cluster.lose_all();
    cluster.isolate(1);
    cluster.pass(2_000);
    cluster.tick(2);
    while !cluster.core(2).is_leader() {
        let link =
            (3..=5).find(|other| cluster.deliver_one(2, *other).is_some() || cluster.deliver_one(*other, 2).is_some());
        assert!(link.is_some());
    }
    let before = cluster.core(2).commit_index();
    for follower in 3..=5 {
        cluster.hand_over(follower, 2, reply(2, 1, AppendOutcome::Matched(index(3))));
    }
    assert_eq!(cluster.core(2).commit_index(), before, "index 3 is of term 1, though four of five hold it");
    cluster.hand_over(3, 2, reply(2, 2, AppendOutcome::Matched(index(4))));
    cluster.hand_over(4, 2, reply(2, 2, AppendOutcome::Matched(index(4))));
    assert_eq!(cluster.core(2).commit_index(), index(4));
}

#[test]
fn the_term_before_the_first_entry_is_the_one_of_that_very_entry_after_the_log_was_cut() {
    // RESILIENTDB §9.1 item 8: the term of the snapshot's last entry stood in for it.
    let settings = RaftSettings { log_memory_bytes: 200, ..RaftSettings::default() };
    let mut cluster = Cluster::with(3, settings, |_| quorate_raft::RaftState::default());
    cluster.elect(1);
    (0..3).for_each(|_| cluster.propose(1, &"x".repeat(80)));
    cluster.deliver_all();
    cluster.elect(2);
    cluster.propose(2, &"y".repeat(80));
    cluster.deliver_all();
    let core = cluster.core(2);
    let first = core.status().first;
    assert!(first > index(1), "the log was cut");
    let base = index(first.0 - 1);
    assert_eq!(core.term_at(base), Some(Term(if base <= index(5) { 1 } else { 2 })));
}

#[test]
fn a_conflicting_suffix_is_replaced_from_the_first_real_conflict_on() {
    let mut cluster = follower_with_a_stale_tail();
    cluster.replica_mut(2).records.clear();
    cluster.hand_over(1, 2, append(2, 7, (3, 1), 0, [entries(1, 4..=5), entries(2, 6..=7)].concat()));
    assert_eq!(cluster.core(2).last_entry(), (index(7), Term(2)));
    let records = &cluster.replica(2).records;
    assert!(records.contains(&RaftRecord::Truncate { from: index(6) }), "{records:?}");
}

#[test]
fn an_old_append_that_arrives_late_drops_nothing() {
    let mut cluster = Cluster::new(3);
    cluster.hand_over(1, 2, append(1, 1, (0, 0), 0, entries(1, 1..=3)));
    cluster.hand_over(1, 2, append(1, 2, (3, 1), 0, entries(1, 4..=6)));
    cluster.hand_over(1, 2, append(1, 1, (0, 0), 0, entries(1, 1..=2)));
    assert_eq!(cluster.core(2).last_entry().0, index(6));
}

#[test]
fn an_entry_that_conflicts_with_a_committed_one_stops_the_replica() {
    let mut cluster = follower_with_a_stale_tail();
    cluster.hand_over(1, 2, append(2, 7, (5, 1), 5, Vec::new()));
    cluster.hand_over(1, 2, append(2, 8, (3, 1), 5, entries(2, 4..=4)));
    assert!(cluster.replica(2).halted.as_ref().is_some_and(|reason| reason.contains("conflicts with the committed")));
}

#[test]
fn the_search_goes_back_by_whole_terms_and_always_ends() {
    // Every pair of short logs with rising terms: the leader finds the place where they agree, in a bounded number of probes.
    let logs: Vec<Vec<u64>> =
        (0..3u64.pow(5)).map(|code| (0..5).map(|at| code / 3u64.pow(at) % 3 + 1).collect()).collect();
    let rising = |terms: &Vec<u64>| terms.windows(2).all(|pair| pair[0] <= pair[1]);
    let logs: Vec<Vec<u64>> = logs.into_iter().filter(rising).collect();
    for leader_log in &logs {
        for follower_log in &logs {
            for length in 0..=5 {
                converge(leader_log, &follower_log[..length]);
            }
        }
    }
}

fn converge(leader_log: &[u64], follower_log: &[u64]) {
    let state = |replica| {
        let terms = if replica == id(2) { follower_log } else { leader_log };
        let list = terms.iter().zip(1..).flat_map(|(term, at)| entries(*term, at..=at)).collect();
        let hard_state = quorate_raft::HardState { term: Term(5), voted_for: None };
        quorate_raft::RaftState { hard_state, entries: list, ..Default::default() }
    };
    let mut cluster = Cluster::with(3, RaftSettings::default(), state);
    cluster.elect(1);
    let what = format!("leader {leader_log:?}, follower {follower_log:?}");
    assert_eq!(cluster.core(2).last_entry(), cluster.core(1).last_entry(), "{what}");
    let status = cluster.core(1).status();
    assert!(status.peers.iter().all(|peer| peer.state == "replicate"), "{what}: {status:?}");
    let probes = status.counters.iter().find(|(name, _)| *name == "probes_sent").map_or(0, |(_, count)| *count);
    assert!(probes <= 2 + 5, "{what}: {probes} probes");
}

#[test]
fn entries_flow_without_waiting_for_answers_until_the_window_is_full_and_resume_with_an_answer() {
    let settings = RaftSettings { in_flight_messages: 3, ..RaftSettings::default() };
    let mut cluster = Cluster::with(3, settings, |_| quorate_raft::RaftState::default());
    cluster.elect(1);
    (0..5).for_each(|_| cluster.propose(1, "x"));
    let sent = cluster.under_way(1, 2);
    let indexes: Vec<u64> = appends(&sent).iter().map(|append| append.last_index().0).collect();
    assert_eq!(indexes, [3, 4, 5], "three of five, one after the other");
    cluster.deliver_one(1, 2);
    cluster.deliver_one(2, 1);
    let sent = cluster.under_way(1, 2);
    assert_eq!(appends(&sent).last().map(|append| (append.previous_index.0, append.last_index().0)), Some((5, 7)));
}

#[test]
fn a_window_in_bytes_and_the_caps_of_one_message_hold_and_an_oversized_entry_passes_alone() {
    let settings = RaftSettings { bytes_per_append: 300, in_flight_bytes: 600, ..RaftSettings::default() };
    let mut cluster = Cluster::with(3, settings, |_| quorate_raft::RaftState::default());
    cluster.elect(1);
    cluster.propose_many(1, &[&"a".repeat(50), &"b".repeat(50), &"c".repeat(500), &"d".repeat(50)]);
    let sent = cluster.under_way(1, 2);
    let counts: Vec<usize> = appends(&sent).iter().map(|append| append.entries.len()).collect();
    assert_eq!(counts, [2, 1], "two small ones, the large one alone, and then the window in bytes is full");
    cluster.deliver_all();
    assert_eq!(cluster.core(2).last_entry().0, index(6));
}

#[test]
fn one_append_a_follower_is_sent_for_all_proposals_of_a_turn() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.propose_many(1, &["a", "b", "c"]);
    let sent = cluster.under_way(1, 2);
    assert_eq!(appends(&sent).iter().map(|append| append.entries.len()).collect::<Vec<_>>(), [3]);
}

#[test]
fn what_is_sent_to_each_follower_and_to_the_log_is_the_same_memory() {
    // Encode once: no copy per follower.
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.replica_mut(1).records.clear();
    cluster.propose_many(1, &["one", "two"]);
    let body = |said: Vec<Said>| {
        let mut encoder = Encoder::new();
        match &said[0] {
            Incoming::Message(message) => message.encode(&mut encoder),
            Incoming::Promise(promise) => promise.encode(&mut encoder),
        }
        encoder.finish().body
    };
    let (to_two, to_three) = (body(cluster.under_way(1, 2)), body(cluster.under_way(1, 3)));
    let RaftRecord::Entries { chunks, .. } = &cluster.replica(1).records[0] else { panic!("an append is recorded") };
    assert_eq!((to_two.len(), to_three.len(), chunks.len()), (1, 1, 1));
    assert_eq!(to_two[0].as_ptr(), to_three[0].as_ptr());
    assert_eq!(to_two[0].as_ptr(), chunks[0].as_ptr());
}

#[test]
fn a_stale_refusal_after_recovery_does_not_start_another_search() {
    // RESILIENTDB §9.4 item 2: each of up to 127 stale refusals knocked the follower back to PROBE.
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    (0..4).for_each(|_| cluster.propose(1, "x"));
    let first_request = appends(&cluster.under_way(1, 2))[0].request;
    cluster.network.remove(&(id(1), id(2)));
    let refusal = AppendOutcome::Conflict { term: None, index: index(3) };
    cluster.hand_over(2, 1, reply(1, first_request + 1, refusal));
    assert_eq!(cluster.core(1).status().peers[0].state, "probe");
    cluster.deliver_all();
    assert_eq!(cluster.core(1).status().peers[0].state, "replicate");
    let before = cluster.core(1).clone();
    for request in first_request..first_request + 4 {
        cluster.hand_over(2, 1, reply(1, request, refusal));
    }
    assert_eq!(cluster.core(1).status().peers, before.status().peers);
}

#[test]
fn a_slow_follower_on_a_live_link_gets_one_empty_question_and_nothing_twice() {
    let settings = RaftSettings { in_flight_messages: 1, ..RaftSettings::default() };
    let mut cluster = Cluster::with(3, settings, |_| quorate_raft::RaftState::default());
    cluster.elect(1);
    cluster.propose(1, "x");
    cluster.propose(1, "waits for the window");
    let held = cluster.network.remove(&(id(1), id(2))).unwrap();
    for _ in 0..12 {
        cluster.run_to_deadline(1);
        while cluster.deliver_one(1, 3).is_some() {}
        while cluster.deliver_one(3, 1).is_some() {}
    }
    let sent = cluster.under_way(1, 2);
    let questions: Vec<(u64, usize)> =
        appends(&sent).iter().map(|append| (append.previous_index.0, append.entries.len())).collect();
    assert_eq!(questions, [(3, 0)], "after one election timeout, one append without entries");
    cluster.network.insert((id(1), id(2)), held.into_iter().chain(sent).collect());
    cluster.deliver_all();
    let peer = cluster.core(1).status().peers.remove(0);
    assert_eq!((peer.state, peer.matched, peer.next), ("replicate", index(4), index(5)));
}

#[test]
fn what_was_in_flight_is_sent_again_only_after_the_link_was_lost() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    (0..3).for_each(|_| cluster.propose(1, "x"));
    cluster.network.remove(&(id(1), id(2)));
    cluster.event(id(1), Event::PeerDown { peer: id(2) });
    assert_eq!(cluster.under_way(1, 2), [], "nothing is sent without a link");
    cluster.propose(1, "y");
    cluster.event(id(1), Event::PeerUp { peer: id(2), incarnation: Incarnation(2) });
    let sent = cluster.under_way(1, 2);
    let first = appends(&sent)[0];
    assert_eq!((first.previous_index.0, first.entries.len()), (2, 4), "from what is known to be there");
    cluster.deliver_all();
    assert_eq!(cluster.core(2).last_entry().0, index(6));
}

#[test]
fn a_follower_below_the_cut_log_is_visibly_in_need_of_a_snapshot_and_gets_heartbeats_only() {
    let settings = RaftSettings { log_memory_bytes: 400, ..RaftSettings::default() };
    let mut cluster = Cluster::with(3, settings, |_| quorate_raft::RaftState::default());
    cluster.elect(1);
    cluster.isolate(3);
    cluster.event(id(1), Event::PeerDown { peer: id(3) });
    for _ in 0..20 {
        cluster.propose(1, &"x".repeat(50));
        cluster.deliver_all();
    }
    cluster.heal();
    cluster.event(id(1), Event::PeerUp { peer: id(3), incarnation: Incarnation(3) });
    assert_eq!(cluster.core(1).status().peers[1].state, "needs_snapshot");
    cluster.lose_all();
    cluster.run_to_deadline(1);
    assert!(matches!(cluster.under_way(1, 3)[..], [Incoming::Message(RaftMessage::Heartbeat(_))]));
}

#[test]
fn uncommitted_entries_that_fill_the_bound_make_the_leader_answer_busy_and_executed_ones_make_room() {
    let settings = RaftSettings { log_memory_bytes: 1_000, ..RaftSettings::default() };
    let mut cluster = Cluster::with(3, settings, |_| quorate_raft::RaftState::default());
    cluster.elect(1);
    cluster.replica_mut(1).execute_at_once = false;
    (0..20).for_each(|_| cluster.propose(1, &"x".repeat(100)));
    let refused = cluster.replica(1).refused.len();
    assert!(refused > 10 && cluster.replica(1).refused.iter().all(|refusal| *refusal == Refusal::Busy));
    assert!(cluster.core(1).status().log_memory_bytes <= 1_000);
    cluster.deliver_all();
    cluster.propose(1, "committed but not executed: still no room for a large one, which takes more than what is left");
    let position = cluster.core(1).commit_index();
    cluster.event(id(1), Event::Executed { position, digest: None });
    cluster.propose(1, &"y".repeat(100));
    assert!(cluster.replica(1).accepted.len() > 20 - refused, "room again");
}

#[test]
fn a_follower_redirects_to_its_leader_and_a_replica_without_one_says_so() {
    let mut cluster = Cluster::new(3);
    cluster.event(id(2), Event::Propose(vec![proposal(b"x")]));
    cluster.elect(1);
    cluster.event(id(2), Event::Propose(vec![proposal(b"x")]));
    assert_eq!(
        cluster.replica(2).refused,
        [Refusal::NotLeader { hint: None }, Refusal::NotLeader { hint: Some(id(1)) }]
    );
}

#[test]
fn a_heartbeat_tells_each_follower_to_commit_only_what_it_is_known_to_hold() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.isolate(3);
    cluster.propose(1, "x");
    cluster.deliver_all();
    assert_eq!(cluster.core(1).commit_index(), index(3));
    cluster.heal();
    cluster.run_to_deadline(1);
    let commits: Vec<u64> = [2, 3]
        .into_iter()
        .map(|follower| match cluster.under_way(1, follower)[..] {
            [Incoming::Message(RaftMessage::Heartbeat(heartbeat))] => heartbeat.commit.0,
            ref other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(commits, [3, 2]);
}

#[test]
fn an_idle_cluster_executes_everywhere_within_one_heartbeat() {
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    cluster.propose(1, "x");
    cluster.deliver_all();
    assert_eq!(cluster.executed_payloads(1), ["x"]);
    cluster.run_to_deadline(1);
    cluster.deliver_all();
    assert_eq!(
        (cluster.executed_payloads(2), cluster.executed_payloads(3)),
        (vec!["x".to_owned()], vec!["x".to_owned()])
    );
}

#[test]
fn a_linger_holds_new_entries_back_and_its_clock_sends_them() {
    let linger = std::time::Duration::from_millis(5);
    let settings = RaftSettings { linger, ..RaftSettings::default() };
    let mut cluster = Cluster::with(3, settings, |_| quorate_raft::RaftState::default());
    cluster.elect(1);
    cluster.propose(1, "a");
    cluster.propose(1, "b");
    assert_eq!(cluster.under_way(1, 2), []);
    cluster.run_to_deadline(1);
    let sent = cluster.under_way(1, 2);
    assert_eq!(appends(&sent).iter().map(|append| append.entries.len()).collect::<Vec<_>>(), [2]);
}

#[test]
fn the_next_leader_executes_what_an_acknowledging_majority_holds_and_drops_nothing_on_step_down() {
    // cases/open.md B06.
    let mut cluster = Cluster::new(3);
    cluster.elect(1);
    (0..5).for_each(|_| cluster.propose(1, "x"));
    while cluster.deliver_one(1, 2).is_some() {}
    cluster.lose_all();
    let before = cluster.core(1).last_entry();
    let newer = append(9, 1, (0, 0), 0, Vec::new());
    cluster.hand_over(3, 1, newer);
    assert!(!cluster.core(1).is_leader());
    assert_eq!(cluster.core(1).last_entry(), before);
}
