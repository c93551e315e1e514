//! The engine under a scripted cluster: time and answers are the test's.

use super::*;
use crate::options::ReplicaEndpoint;
use crate::outcome::Done;
use quorate_framework::{ClientFrame, Position, ReplyHeader, ReplyKind, Status};
use rand::SeedableRng;
use std::time::Duration;

#[derive(Default)]
struct Wire {
    sent: Vec<(LinkId, ClientFrame)>,
    dialled: Vec<usize>,
    full: bool,
}

impl Output for Wire {
    fn send(&mut self, link: LinkId, frame: &Bytes) -> bool {
        if !self.full {
            self.sent.push((link, ClientFrame::parse(frame.clone()).unwrap()));
        }
        !self.full
    }

    fn dial(&mut self, replica: usize) {
        self.dialled.push(replica);
    }
}

/// An engine with three replicas, its time, and what it has sent.
struct World {
    engine: Engine,
    wire: Wire,
    now: Instant,
    links: u64,
}

const WINDOW: u64 = 8;

impl World {
    fn new(change: impl FnOnce(&mut ClientOptions)) -> World {
        let replica = |id| ReplicaEndpoint { id: ReplicaId(id), host: "h".into(), port: 1 };
        let mut options = ClientOptions::new(None, (1..=3).map(replica).collect());
        (options.window_frames, options.session_window_frames) = (4, WINDOW);
        change(&mut options);
        let now = Instant::now();
        World { engine: Engine::new(options, SmallRng::seed_from_u64(1), now), wire: Wire::default(), now, links: 0 }
    }

    /// With a session open at replica `leader` over one connection.
    fn open() -> (World, usize, LinkId) {
        let mut world = World::new(|_| {});
        let leader = world.target();
        let link = world.connect();
        let (_, frame) = world.sent().pop().unwrap();
        world.reply(link, &frame, Status::Ok, None);
        assert_eq!(world.events(), [ClientEvent::Leader(ReplicaId(leader as u32 + 1))]);
        (world, leader, link)
    }

    fn target(&self) -> usize {
        self.engine.search.target()
    }

    /// Connects the target, which the engine must have asked for.
    fn connect(&mut self) -> LinkId {
        self.pump();
        let replica = self.wire.dialled.pop().expect("the target is dialled");
        assert_eq!(replica, self.target());
        self.links += 1;
        self.engine.link_up(self.now, LinkId(self.links), replica);
        LinkId(self.links)
    }

    fn pump(&mut self) {
        self.engine.on_time(self.now);
        self.engine.pump(self.now, &mut self.wire);
    }

    fn sent(&mut self) -> Vec<(LinkId, ClientFrame)> {
        self.pump();
        std::mem::take(&mut self.wire.sent)
    }

    fn one_sent(&mut self) -> (LinkId, ClientFrame) {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "one frame is sent");
        sent.remove(0)
    }

    fn reply(&mut self, link: LinkId, to: &ClientFrame, status: Status, hint: Option<usize>) {
        let opens = to.header.session.is_none();
        let session = match (opens, status) {
            (true, Status::Ok) => SessionId { position: Position(7), offset: 0 },
            _ => to.header.session,
        };
        let header = ReplyHeader {
            status,
            kind: ReplyKind::Committed,
            hint: hint.map(|replica| ReplicaId(replica as u32 + 1)),
            session,
            sequence: to.header.sequence,
            position: Position(9),
        };
        self.engine.on_reply(self.now, link, &header, Bytes::from_static(b"why"));
    }

    fn submit(&mut self, number: u64) -> bool {
        self.engine.submit(self.now, number, 1, b"body")
    }

    fn pass(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }

    fn events(&mut self) -> Vec<ClientEvent> {
        let mut events = Vec::new();
        self.engine.take_events(&mut events);
        events
    }

    fn outcomes(&mut self) -> Vec<(u64, Outcome)> {
        let ended = |event| match event {
            ClientEvent::Ended(ended) => Some((ended.number, ended.outcome)),
            _ => None,
        };
        self.events().into_iter().filter_map(ended).collect()
    }
}

fn done() -> Outcome {
    let body = Bytes::from_static(b"why");
    Outcome::Done(Done { status: Status::Ok, position: Position(9), count: 1, body })
}

#[test]
fn a_session_is_opened_under_the_same_nonce_in_every_attempt() {
    let mut world = World::new(|_| {});
    assert!(!world.submit(1), "nothing is taken before a session is open");
    let link = world.connect();
    let (_, first) = world.one_sent();
    assert!(first.header.session.is_none());
    let target = world.target();
    world.reply(link, &first, Status::NotLeader, Some((target + 1) % 3));
    world.connect();
    let (link, second) = world.one_sent();
    assert_eq!(second.bytes, first.bytes);
    world.reply(link, &second, Status::Ok, None);
    assert_eq!((world.engine.sessions_missing(), world.engine.capacity()), (0, 4));
    assert!(world.submit(1));
    assert_eq!(world.one_sent().1.header.session.position, Position(7));
}

#[test]
fn a_redirect_repeats_the_same_bytes_at_the_hinted_replica_and_keeps_the_slot() {
    let (mut world, leader, link) = World::open();
    assert!(world.submit(1));
    let (_, first) = world.one_sent();
    let hint = (leader + 2) % 3;
    world.reply(link, &first, Status::NotLeader, Some(hint));
    let refused = ClientEvent::Refused { number: 1, status: Status::NotLeader, hint: Some(ReplicaId(hint as u32 + 1)) };
    assert_eq!(world.events(), [refused]);
    assert_eq!((world.engine.in_flight(), world.target()), (1, hint));
    let new_link = world.connect();
    let (sent_on, second) = world.one_sent();
    assert_eq!((sent_on, &second.bytes), (new_link, &first.bytes));
    world.reply(new_link, &second, Status::Ok, None);
    assert_eq!(world.outcomes(), [(1, done())]);
    let counters = world.engine.counters();
    assert_eq!((counters.not_leader, counters.retried, counters.leader_changes), (1, 1, 1));
}

#[test]
fn a_replica_that_has_not_proven_to_lead_is_asked_with_one_request() {
    let (mut world, leader, link) = World::open();
    (1..=4).for_each(|number| assert!(world.submit(number)));
    let sent = world.sent();
    assert_eq!(sent.len(), 4, "a proven leader gets all");
    let hint = (leader + 1) % 3;
    for (_, frame) in &sent {
        world.reply(link, frame, Status::NotLeader, Some(hint));
    }
    let new_link = world.connect();
    let (_, probe) = world.one_sent();
    assert_eq!(world.sent(), [], "the others wait for its answer");
    world.reply(new_link, &probe, Status::Ok, None);
    assert_eq!(world.sent().len(), 3);
}

#[test]
fn after_a_lost_connection_a_refusal_elsewhere_leaves_the_outcome_unknown_until_the_session_answers() {
    let (mut world, _, link) = World::open();
    assert!(world.submit(1) && world.submit(2));
    let sent = world.sent();
    world.engine.link_down(world.now, link);
    let new_link = world.connect();
    let (_, again) = world.one_sent();
    assert_eq!(again.bytes, sent[0].1.bytes, "the oldest comes first, with its sequence");
    world.reply(new_link, &again, Status::NotLeader, None);
    world.pass(10_000);
    assert_eq!(world.sent(), []);
    assert_eq!(world.outcomes(), [(1, Outcome::Unknown), (2, Outcome::Unknown)]);

    let (mut world, _, link) = World::open();
    assert!(world.submit(1));
    world.sent();
    world.engine.link_down(world.now, link);
    let new_link = world.connect();
    let (_, again) = world.one_sent();
    world.reply(new_link, &again, Status::Ok, None);
    assert_eq!(world.outcomes(), [(1, done())]);
}

#[test]
fn a_request_that_was_only_ever_refused_ends_as_not_done() {
    let (mut world, _, link) = World::open();
    assert!(world.submit(1));
    let (_, frame) = world.one_sent();
    world.reply(link, &frame, Status::Busy, None);
    world.pass(10_000);
    world.engine.on_time(world.now);
    let not_taken = NotDone::NotTaken { last_refusal: Some(Status::Busy) };
    assert_eq!(world.outcomes(), [(1, Outcome::NotDone(not_taken))]);
    assert_eq!(world.engine.capacity(), 4, "the slot is free again");
}

#[test]
fn an_unknown_answer_is_asked_again_with_the_same_sequence() {
    let (mut world, _, link) = World::open();
    assert!(world.submit(1));
    let (_, frame) = world.one_sent();
    world.reply(link, &frame, Status::Unknown, None);
    let (_, again) = world.one_sent();
    assert_eq!(again.bytes, frame.bytes);
    world.reply(link, &again, Status::Busy, None);
    world.pass(10_000);
    world.engine.on_time(world.now);
    assert_eq!(world.outcomes(), [(1, Outcome::Unknown)], "a refusal speaks of its own attempt only");
}

#[test]
fn a_busy_leader_is_left_alone_for_growing_pauses_that_count_as_latency() {
    let (mut world, _, link) = World::open();
    assert!(world.submit(1));
    let started = world.now;
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let (_, frame) = world.one_sent();
        world.reply(link, &frame, Status::Busy, None);
        assert_eq!(world.sent(), []);
        let wake = world.engine.next_wake(world.now).unwrap();
        pauses.push((wake - world.now).as_micros() as u64);
        world.now = wake;
    }
    for (number, pause) in pauses.iter().enumerate() {
        let full = (1_000 << number).min(100_000);
        assert!((full / 2..=full).contains(pause), "pause {number} is {pause} µs");
    }
    let (_, frame) = world.one_sent();
    world.reply(link, &frame, Status::Ok, None);
    let events = world.events();
    let Some(ClientEvent::Ended(ended)) = events.last() else { panic!("{events:?}") };
    assert_eq!((ended.latency, ended.attempts), (world.now - started, 10));
    assert_eq!(world.engine.counters().busy, 9);
}

#[test]
fn a_leader_that_took_two_of_four_is_given_two_at_a_time_until_answers_show_that_there_is_room() {
    let (mut world, _, link) = World::open();
    (1..=4).for_each(|number| assert!(world.submit(number)));
    let sent = world.sent();
    assert_eq!(sent.len(), 4);
    sent[2..].iter().for_each(|(_, frame)| world.reply(link, frame, Status::Busy, None));
    world.pass(1);
    assert_eq!(world.sent(), [], "their pauses are over, and two are out");
    world.reply(link, &sent[0].1, Status::Ok, None);
    let third = world.one_sent();
    world.reply(link, &sent[1].1, Status::Ok, None);
    let fourth = world.one_sent();
    (5..=6).for_each(|number| assert!(world.submit(number)));
    assert_eq!(world.one_sent().1.header.sequence, Sequence(5), "after two answers three may be out");
    for (link, frame) in [third, fourth] {
        world.reply(link, &frame, Status::Ok, None);
    }
    assert_eq!(world.one_sent().1.header.sequence, Sequence(6));
}

#[test]
fn a_refused_frame_is_sent_again_at_the_next_answer_and_before_newer_ones() {
    let (mut world, _, link) = World::open();
    (1..=2).for_each(|number| assert!(world.submit(number)));
    let sent = world.sent();
    (3..=4).for_each(|number| assert!(world.submit(number)));
    world.reply(link, &sent[1].1, Status::Busy, None);
    assert_eq!(world.sent(), []);
    world.reply(link, &sent[0].1, Status::Ok, None);
    assert_eq!(world.sent()[0].1.bytes, sent[1].1.bytes, "or its session could not go on beyond its window");
}

#[test]
fn the_low_mark_of_a_frame_is_the_ended_prefix_at_its_submit() {
    let (mut world, _, link) = World::open();
    (1..=3).for_each(|number| assert!(world.submit(number)));
    let sent = world.sent();
    world.reply(link, &sent[1].1, Status::Ok, None);
    assert!(world.submit(4));
    assert_eq!(world.one_sent().1.header.acknowledged, Sequence(0), "sequence 1 has not ended");
    world.reply(link, &sent[0].1, Status::Ok, None);
    assert!(world.submit(5));
    let (_, frame) = world.one_sent();
    assert_eq!((frame.header.sequence, frame.header.acknowledged), (Sequence(5), Sequence(2)));
}

#[test]
fn a_session_keeps_half_of_its_window_in_flight() {
    let mut world = World::new(|options| options.window_frames = 6);
    let mut sessions = 0;
    let link = world.connect();
    while world.engine.sessions_missing() > 0 {
        for (link, frame) in world.sent() {
            sessions += 1;
            let header = ReplyHeader {
                status: Status::Ok,
                kind: ReplyKind::Committed,
                hint: None,
                session: SessionId { position: Position(sessions), offset: 0 },
                sequence: frame.header.sequence,
                position: Position(sessions),
            };
            world.engine.on_reply(world.now, link, &header, Bytes::new());
        }
    }
    assert_eq!((sessions, world.engine.capacity()), (2, 6));
    (1..=6).for_each(|number| assert!(world.submit(number)));
    assert!(!world.submit(7), "the window is full");
    let sent = world.sent();
    let of_first = sent.iter().filter(|(_, frame)| frame.header.session.position == Position(1)).count();
    assert_eq!((sent.len(), of_first), (6, 3));
    world.reply(link, &sent[0].1, Status::Ok, None);
    assert_eq!(world.engine.capacity(), 1);
}

#[test]
fn an_expired_session_ends_what_may_have_happened_as_expired_and_is_opened_anew() {
    let (mut world, _, link) = World::open();
    assert!(world.submit(1) && world.submit(2));
    let sent = world.sent();
    world.wire.full = true;
    assert!(world.submit(3));
    world.reply(link, &sent[0].1, Status::Expired, None);
    let expected = [(1, Outcome::Expired), (2, Outcome::Expired), (3, Outcome::NotDone(NotDone::SessionEnded))];
    assert_eq!(world.outcomes(), expected);
    assert_eq!((world.engine.capacity(), world.engine.sessions_missing()), (0, 1));
    world.wire.full = false;
    let (_, open) = world.one_sent();
    assert!(open.header.session.is_none());
    world.reply(link, &open, Status::Ok, None);
    assert_eq!(world.engine.capacity(), 4);
    assert!(world.submit(4));
    assert_eq!(world.one_sent().1.header.sequence, Sequence(1));
}

#[test]
fn silence_is_suspected_after_the_attempts_time_and_another_replica_is_asked_in_the_session() {
    let (mut world, leader, _) = World::open();
    assert!(world.submit(1));
    let (_, frame) = world.one_sent();
    world.pass(999);
    assert_eq!(world.sent(), []);
    world.pass(1);
    world.pump();
    world.pass(100); // the search's pause
    let other = world.connect();
    assert_ne!(world.target(), leader);
    assert_eq!(world.one_sent(), (other, frame));
    assert_eq!(world.engine.counters().timed_out, 1);
}

#[test]
fn a_leader_that_answers_others_is_slow_and_not_asked_again_at_once() {
    let (mut world, leader, link) = World::open();
    assert!(world.submit(1));
    world.one_sent();
    for number in 2..5 {
        assert!(world.submit(number));
        let (_, other) = world.one_sent();
        world.pass(600);
        world.reply(link, &other, Status::Ok, None);
        world.pass(400);
        assert_eq!(world.sent(), []);
    }
    assert_eq!((world.target(), world.engine.counters().timed_out), (leader, 0));
}

#[test]
fn a_late_answer_settles_a_request_and_the_answer_to_its_repetition_changes_nothing() {
    let (mut world, _, link) = World::open();
    assert!(world.submit(1));
    let (_, frame) = world.one_sent();
    world.pass(1_000);
    world.pump();
    world.pass(100);
    let other = world.connect();
    let (_, again) = world.one_sent();
    world.reply(link, &frame, Status::Ok, None);
    world.reply(other, &again, Status::Ok, None);
    assert_eq!(world.outcomes(), [(1, done())]);
    assert_eq!((world.engine.in_flight(), world.engine.capacity()), (0, 4));
}

#[test]
fn a_late_refusal_of_an_earlier_attempt_says_nothing_of_the_present_one() {
    for status in [Status::NotLeader, Status::Busy, Status::Unsupported, Status::Stopped] {
        let (mut world, _, link) = World::open();
        assert!(world.submit(1));
        let (_, frame) = world.one_sent();
        world.pass(1_000);
        world.pump();
        world.pass(100);
        let other = world.connect();
        let (_, again) = world.one_sent();
        let target = world.target();
        world.reply(link, &frame, status, Some((target + 1) % 3));
        assert_eq!((world.sent().len(), world.target(), world.engine.in_flight()), (0, target, 1), "{status:?}");
        world.reply(other, &again, Status::Ok, None);
        assert_eq!(world.outcomes(), [(1, done())], "{status:?}");
    }
}

#[test]
fn an_invalid_request_is_certainly_not_done_and_says_why() {
    let (mut world, _, link) = World::open();
    assert!(world.submit(1));
    let (_, frame) = world.one_sent();
    world.reply(link, &frame, Status::Invalid, None);
    assert_eq!(world.outcomes(), [(1, Outcome::NotDone(NotDone::Invalid("why".into())))]);
}

#[test]
fn a_speculative_answer_settles_nothing() {
    let (mut world, _, link) = World::open();
    assert!(world.submit(1));
    let (_, frame) = world.one_sent();
    let header = ReplyHeader {
        status: Status::Ok,
        kind: ReplyKind::Speculative,
        hint: None,
        session: frame.header.session,
        sequence: frame.header.sequence,
        position: Position(9),
    };
    world.engine.on_reply(world.now, link, &header, Bytes::new());
    assert_eq!((world.outcomes(), world.engine.in_flight()), (vec![], 1));
}

#[test]
fn replicas_that_cannot_be_reached_are_named_with_their_error_and_asked_again_later() {
    let mut world = World::new(|_| {});
    for _ in 0..3 {
        world.pump();
        let replica = world.wire.dialled.pop().expect("one after the other is dialled");
        world.engine.dial_failed(world.now, replica, format!("refused {replica}"));
        world.pass(10);
    }
    let mut errors: Vec<_> = world.engine.dial_errors().collect();
    errors.sort_unstable();
    assert_eq!(errors, [(0, "refused 0"), (1, "refused 1"), (2, "refused 2")]);
    world.pass(1_000);
    world.pump();
    assert_eq!(world.wire.dialled.len(), 1);
}

#[test]
fn closing_ends_what_was_sent_as_unknown_and_the_rest_as_not_done() {
    let (mut world, _, _) = World::open();
    assert!(world.submit(1));
    world.sent();
    assert!(world.submit(2));
    world.engine.close();
    assert_eq!(world.outcomes(), [(1, Outcome::Unknown), (2, Outcome::NotDone(NotDone::Closed))]);
}

#[test]
fn a_pause_that_is_over_does_not_wake_again() {
    let (mut world, _, link) = World::open();
    assert!(world.submit(1) && world.submit(2));
    for (_, frame) in world.sent() {
        world.reply(link, &frame, Status::NotLeader, None);
    }
    world.pass(200);
    world.connect();
    world.one_sent();
    let wake = world.engine.next_wake(world.now).unwrap();
    assert!(wake > world.now, "the task would spin");
}
