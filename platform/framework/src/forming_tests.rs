use super::*;

fn claim(incarnation: u64) -> MemberClaim {
    MemberClaim { incarnation: Incarnation(incarnation), formed_on: None, start_counter: 1, start_nonce: incarnation }
}

fn id(number: u32) -> ReplicaId {
    ReplicaId(number)
}

fn seed(count: u32) -> BTreeSet<ReplicaId> {
    (1..=count).map(ReplicaId).collect()
}

fn vector(members: &[(u32, u64)]) -> MemberVector {
    members.iter().map(|(replica, incarnation)| (ReplicaId(*replica), Incarnation(*incarnation))).collect()
}

/// Replica 1 of three, incarnation 10.
fn replica_one() -> Forming {
    Forming::new(id(1), claim(10), seed(3), None)
}

fn formed_one() -> Forming {
    let mut forming = replica_one();
    let mut effects = Vec::new();
    forming.link_up(id(2), claim(20), &mut effects);
    forming.link_up(id(3), claim(30), &mut effects);
    forming.vector_persisted(&mut effects);
    forming
}

#[test]
fn a_replica_forms_after_its_own_handshakes_with_all_members_and_only_once_the_vector_is_durable() {
    let mut forming = replica_one();
    let mut effects = Vec::new();
    forming.start(&mut effects);
    forming.link_up(id(2), claim(20), &mut effects);
    assert_eq!(effects, []);
    assert_eq!(forming.status(), FormingStatus::Forming { waiting_for: vec![id(3)] });

    forming.link_up(id(3), claim(30), &mut effects);
    let all = vector(&[(1, 10), (2, 20), (3, 30)]);
    assert_eq!(effects, [FormingEffect::PersistVector(all.clone())]);
    assert_eq!(forming.vector(), None, "not formed before the vector is durable");

    effects.clear();
    forming.vector_persisted(&mut effects);
    assert_eq!(
        effects,
        [
            FormingEffect::Announce(MemberClaim { formed_on: Some(vector_digest(&all)), ..claim(10) }),
            FormingEffect::Formed(all),
            FormingEffect::PeerUp(id(2), Incarnation(20)),
            FormingEffect::PeerUp(id(3), Incarnation(30)),
        ]
    );
}

#[test]
fn a_peer_formed_on_another_vector_keeps_a_replica_from_forming() {
    let mut forming = replica_one();
    let mut effects = Vec::new();
    let other = vector_digest(&vector(&[(1, 11), (2, 20), (3, 30)]));
    forming.link_up(id(2), MemberClaim { formed_on: Some(other), ..claim(20) }, &mut effects);
    forming.link_up(id(3), claim(30), &mut effects);
    assert_eq!(effects, []);
}

#[test]
fn a_peer_formed_on_the_identical_vector_does_not() {
    let mut forming = replica_one();
    let mut effects = Vec::new();
    let all = vector(&[(1, 10), (2, 20), (3, 30)]);
    forming.link_up(id(2), MemberClaim { formed_on: Some(vector_digest(&all)), ..claim(20) }, &mut effects);
    forming.link_up(id(3), claim(30), &mut effects);
    assert_eq!(effects, [FormingEffect::PersistVector(all)]);
}

#[test]
fn a_link_that_went_down_before_the_last_handshake_keeps_a_replica_from_forming() {
    let mut forming = replica_one();
    let mut effects = Vec::new();
    forming.link_up(id(2), claim(20), &mut effects);
    forming.link_down(id(2), &mut effects);
    forming.link_up(id(3), claim(30), &mut effects);
    assert_eq!(effects, []);
    assert_eq!(forming.status(), FormingStatus::Forming { waiting_for: vec![id(2)] });
}

#[test]
fn a_restarted_incarnation_never_reaches_the_protocol() {
    let mut forming = formed_one();
    let mut effects = Vec::new();
    forming.link_down(id(3), &mut effects);
    forming.link_up(id(3), claim(31), &mut effects);
    let all = vector(&[(1, 10), (2, 20), (3, 30)]);
    assert_eq!(
        effects,
        [
            FormingEffect::PeerDown(id(3)),
            FormingEffect::Send(id(3), FormingMessage::Vector { vector: all, elected: false })
        ]
    );
    assert!(!forming.is_counted(id(3)));
    assert_eq!(forming.unbound_peers().collect::<Vec<_>>(), [id(3)]);
}

#[test]
fn a_restarted_replica_learns_that_it_is_unbound_and_never_takes_such_a_vector() {
    let mut restarted = Forming::new(id(3), claim(31), seed(3), None);
    let mut effects = Vec::new();
    restarted.link_up(id(1), claim(10), &mut effects);
    let all = vector(&[(1, 10), (2, 20), (3, 30)]);
    restarted.message(id(1), FormingMessage::Vector { vector: all, elected: true }, &mut effects);
    assert_eq!(effects, []);
    let reason = format!(
        "the cluster is formed with {} as replica 3, this process is {}; {LOST_DATA}",
        Incarnation(30),
        Incarnation(31)
    );
    assert_eq!(restarted.status(), FormingStatus::Unbound { reason });
}

#[test]
fn a_replica_that_was_added_to_the_file_of_a_formed_cluster_is_told_that_it_is_no_member_and_not_that_its_data_is_lost()
{
    let mut added = Forming::new(id(4), claim(40), seed(4), None);
    let mut effects = Vec::new();
    added.link_up(id(1), claim(10), &mut effects);
    let all = vector(&[(1, 10), (2, 20), (3, 30)]);
    added.message(id(1), FormingMessage::Vector { vector: all, elected: true }, &mut effects);
    assert_eq!(effects, []);
    let reason = "the cluster was formed with replicas 1, 2, 3, and replica 4 is not one of them; changing which replicas are members is \
        not part of this version";
    assert_eq!(added.status(), FormingStatus::Unbound { reason: reason.to_owned() });
}

#[test]
fn a_vector_is_taken_second_hand_only_from_an_elected_leader() {
    let mut forming = replica_one();
    let mut effects = Vec::new();
    let all = vector(&[(1, 10), (2, 20), (3, 30)]);
    forming.link_up(id(2), MemberClaim { formed_on: Some(vector_digest(&all)), ..claim(20) }, &mut effects);
    forming.message(id(2), FormingMessage::Vector { vector: all.clone(), elected: false }, &mut effects);
    assert_eq!(effects, []);
    forming.message(id(2), FormingMessage::Vector { vector: all.clone(), elected: true }, &mut effects);
    assert_eq!(effects, [FormingEffect::PersistVector(all)]);
}

#[test]
fn an_elected_leader_gives_its_vector_to_peers_that_are_still_forming() {
    let mut forming = formed_one();
    let mut effects = Vec::new();
    forming.message(
        id(2),
        FormingMessage::Claim(MemberClaim { formed_on: forming.claim().formed_on, ..claim(20) }),
        &mut effects,
    );
    forming.elected(true, &mut effects);
    let all = vector(&[(1, 10), (2, 20), (3, 30)]);
    assert_eq!(effects, [FormingEffect::Send(id(3), FormingMessage::Vector { vector: all, elected: true })]);
}

#[test]
fn a_copied_directory_is_refused_and_a_plain_restart_is_not() {
    let mut forming = formed_one();
    let mut effects = Vec::new();
    forming.link_down(id(2), &mut effects);
    effects.clear();
    forming.link_up(id(2), MemberClaim { start_nonce: 99, ..claim(20) }, &mut effects);
    let reason = format!(
        "incarnation {} of replica 2 was seen with start 1 or later from another process: its data directory was copied or rolled back, \
         and only the one of the latest start may go on; {LOST_DATA}",
        Incarnation(20)
    );
    assert_eq!(effects, [FormingEffect::Refuse(id(2), reason)], "same counter, another start");

    effects.clear();
    forming.link_up(id(2), MemberClaim { start_nonce: 98, start_counter: 2, ..claim(20) }, &mut effects);
    assert!(effects.contains(&FormingEffect::PeerUp(id(2), Incarnation(20))), "{effects:?}");
}

#[test]
fn a_cluster_of_one_forms_by_itself() {
    let mut forming = Forming::new(id(1), claim(10), seed(1), None);
    let mut effects = Vec::new();
    forming.start(&mut effects);
    assert_eq!(effects, [FormingEffect::PersistVector(vector(&[(1, 10)]))]);
}

#[test]
fn a_stranger_is_refused_by_name() {
    let mut forming = replica_one();
    let mut effects = Vec::new();
    forming.link_up(id(9), claim(90), &mut effects);
    assert_eq!(effects, [FormingEffect::Refuse(id(9), "replica 9 is not in the cluster file".to_owned())]);
}

#[test]
fn a_member_list_from_the_log_unbinds_and_binds_links() {
    let mut forming = formed_one();
    let mut effects = Vec::new();
    forming.link_up(id(3), claim(31), &mut effects);
    effects.clear();
    let changed = vector(&[(1, 10), (2, 20), (3, 31)]);
    forming.members(changed, &mut effects);
    assert!(matches!(effects[..], [FormingEffect::Announce(_), FormingEffect::PeerUp(ReplicaId(3), Incarnation(31))]));
}
