//! The coordinator alone: exact effects, events and namings. A state machine is a name, an open file a number.

use super::*;
use quorate_framework::{ServedSnapshot, SnapshotId, TicketSequence};

const ONE: ReplicaId = ReplicaId(1);
const TWO: ReplicaId = ReplicaId(2);
const BOUND: Incarnation = Incarnation(7);

type Effect = SnapshotEffect<&'static str, u32>;

/// A coordinator whose effects a test carries out.
struct Decided {
    coordinator: Coordinator<&'static str, u32>,
    tickets: TicketSequence,
    durable: Ticket,
    log_bytes: u64,
}

fn base(position: u64) -> SnapshotBase {
    SnapshotBase { position: Position(position), protocol: vec![position as u8], membership: vec![9] }
}

fn named(position: u64, store_generation: u64, released: u64) -> NamedSnapshot {
    NamedSnapshot { base: base(position), store_generation, released: Position(released) }
}

/// Named by a number, so that a test can see whether it is another.
fn served(id: u64, position: u64) -> ServedSnapshot {
    ServedSnapshot { id: SnapshotId(id), position: Position(position), length_bytes: 100 }
}

fn ready(id: u64, position: u64) -> ReadySnapshot<u32> {
    ReadySnapshot { snapshot: served(id, position), file: id as u32 }
}

fn loaded(own_id: u64, position: u64, generation: u64, machine: &'static str) -> LoadedSnapshot<&'static str, u32> {
    LoadedSnapshot {
        machine,
        base: base(position),
        ready: ready(own_id, position),
        store_generation: generation,
        summary: "loaded".to_owned(),
    }
}

fn complete(position: u64) -> SnapshotName {
    SnapshotName::Complete(Position(position))
}

fn fetched(id: u64) -> SnapshotName {
    SnapshotName::Fetched(SnapshotId(id))
}

impl Decided {
    fn new(kind: CheckpointKind, named: Option<NamedSnapshot>, newest: Option<ReadySnapshot<u32>>) -> Decided {
        let coordinator = Coordinator::new(kind, named, newest);
        Decided { coordinator, tickets: TicketSequence::default(), durable: Ticket::RECOVERED, log_bytes: 0 }
    }

    fn turn(&mut self, seconds: u64) -> Vec<SnapshotEvent> {
        let now = Time::ZERO + std::time::Duration::from_secs(seconds);
        let mut events = Vec::new();
        let start = TurnStart { now, durable: self.durable, log_bytes: self.log_bytes, is_started: true };
        self.coordinator.before_turn(start, &mut events);
        events
    }

    fn events(&mut self) -> Vec<SnapshotEvent> {
        self.turn(0)
    }

    /// What is to be done, without what is only said.
    fn effects(&mut self) -> Vec<Effect> {
        let effects = std::iter::from_fn(|| self.coordinator.next_effect());
        effects.filter(|effect| !matches!(effect, SnapshotEffect::Note(_))).collect()
    }

    fn task(&mut self, task: SnapshotTask) -> Vec<Effect> {
        self.coordinator.task(&task, |peer| (peer == ONE || peer == TWO).then_some(BOUND));
        self.effects()
    }

    fn offer(&mut self, to: ReplicaId, at_least: u64) -> Vec<Effect> {
        self.task(SnapshotTask::Offer { to, at_least: Position(at_least) })
    }

    fn fetch(&mut self, id: u64, position: u64) -> Vec<Effect> {
        self.task(SnapshotTask::Fetch { from: TWO, snapshot: served(id, position) })
    }

    fn report(&mut self, report: SnapshotReport<&'static str, u32>) -> Vec<Effect> {
        self.coordinator.report(report);
        self.effects()
    }

    /// Begins and writes a snapshot.
    fn write(&mut self, id: u64, position: u64) -> Vec<Effect> {
        self.coordinator.begun(base(position));
        assert_eq!(self.effects(), [SnapshotEffect::Write(base(position))]);
        self.report(SnapshotReport::Written { base: base(position), outcome: Ok(ready(id, position)) })
    }

    fn pulled(&mut self, id: u64) -> Vec<Effect> {
        self.report(SnapshotReport::Pulled { id: SnapshotId(id), outcome: Ok(()) })
    }

    fn loaded(&mut self, id: u64, loaded: LoadedSnapshot<&'static str, u32>) -> Vec<Effect> {
        self.report(SnapshotReport::Loaded { id: SnapshotId(id), outcome: Ok(loaded) })
    }

    /// Fetches and loads a snapshot.
    fn get(&mut self, id: u64, position: u64, generation: u64, machine: &'static str) {
        self.fetch(id, position);
        let snapshot = served(id, position);
        assert_eq!(self.pulled(id), [SnapshotEffect::Load { snapshot, store_generation: generation }]);
        assert_eq!(self.loaded(id, loaded(id + 1_000, position, generation, machine)), []);
        assert_eq!(self.events(), [SnapshotEvent::Fetched(SnapshotId(id))]);
    }

    /// Submits all that is to be named.
    fn submit(&mut self) -> Vec<NamedSnapshot> {
        let mut submitted = Vec::new();
        while let Some(order) = self.coordinator.submit_naming(|| self.tickets.next_ticket()) {
            assert_eq!(order.ticket, self.tickets.last());
            submitted.push(order.snapshot);
        }
        submitted
    }

    /// Everything that was submitted until now is durable.
    fn sync(&mut self) -> Vec<SnapshotEvent> {
        self.durable = self.tickets.last();
        self.events()
    }
}

#[test]
fn a_snapshot_that_is_written_is_told_as_taken_only_when_the_change_that_names_it_is_durable() {
    let mut decided = Decided::new(CheckpointKind::File, None, None);
    assert_eq!(decided.coordinator.take(), TakeSteps { view: true, persist: false });
    assert_eq!(decided.write(50, 5), []);
    assert_eq!(decided.events(), []);
    assert_eq!(decided.submit(), [named(5, 0, 0)]);
    assert_eq!(decided.submit(), [], "once");
    assert_eq!((decided.events(), decided.effects()), (vec![], vec![]), "submitted is not durable");
    assert_eq!(decided.sync(), [SnapshotEvent::Taken(Position(5))]);
    assert_eq!(decided.effects(), [SnapshotEffect::RemoveFilesBut(vec![complete(5)])]);
    assert_eq!(decided.events(), [], "once");
}

#[test]
fn the_file_of_a_replaced_snapshot_goes_when_no_start_can_find_it_named_any_more_and_not_before() {
    let mut decided = Decided::new(CheckpointKind::File, Some(named(5, 0, 0)), Some(ready(50, 5)));
    decided.write(80, 8);
    decided.submit();
    decided.fetch(1, 9);
    let both = vec![complete(5), complete(8)];
    assert_eq!(
        decided.task(SnapshotTask::Cancel),
        [SnapshotEffect::StopPulling, SnapshotEffect::RemoveFilesBut(both)],
        "the metadata name the one, and will name the other"
    );
    decided.sync();
    assert_eq!(decided.effects(), [SnapshotEffect::RemoveFilesBut(vec![complete(8)])]);
}

#[test]
fn what_a_change_on_its_way_names_keeps_its_file_though_a_later_change_names_another() {
    let mut decided = Decided::new(CheckpointKind::File, Some(named(5, 0, 0)), Some(ready(50, 5)));
    decided.write(80, 8);
    decided.submit();
    decided.get(1, 9, 1, "fetched");
    let mut machine = "own";
    decided.coordinator.install(SnapshotId(1), &base(9), &mut machine).unwrap();
    assert_eq!(decided.effects(), []);
    let first = decided.tickets.last();
    assert_eq!(decided.submit(), [named(9, 1, 0)]);
    decided.fetch(2, 12);
    assert_eq!(
        decided.task(SnapshotTask::Cancel),
        [SnapshotEffect::StopPulling, SnapshotEffect::RemoveFilesBut(vec![complete(5), complete(8), complete(9)])]
    );
    decided.durable = first;
    assert_eq!(decided.events(), [SnapshotEvent::Taken(Position(8))]);
    assert_eq!(
        decided.effects(),
        [SnapshotEffect::RemoveFilesBut(vec![complete(8), complete(9)])],
        "and the state of the generation that is still named is not discarded"
    );
    assert_eq!(decided.sync(), [SnapshotEvent::Installed(Position(9))]);
    assert_eq!(
        decided.effects(),
        [
            SnapshotEffect::RemoveFilesBut(vec![complete(9)]),
            SnapshotEffect::Discard { machine: "own", store_generation: 0 }
        ]
    );
}

#[test]
fn a_fetched_snapshot_is_pulled_then_loaded_then_installed_each_only_when_the_one_before_is_complete() {
    let mut decided = Decided::new(CheckpointKind::Store, Some(named(5, 3, 2)), None);
    let mut machine = "own";
    let pull = SnapshotEffect::Pull { from: TWO, incarnation: BOUND, snapshot: served(77, 9) };
    assert_eq!(decided.fetch(77, 9), [pull]);
    assert_eq!(decided.fetch(77, 9), [], "a repeated order is no second one");
    let not_loaded = "the snapshot at 9 was to be installed and is not loaded";
    let mut early = decided.coordinator.clone();
    assert_eq!(early.install(SnapshotId(77), &base(9), &mut machine).unwrap_err(), not_loaded);
    assert_eq!(decided.pulled(77), [SnapshotEffect::Load { snapshot: served(77, 9), store_generation: 4 }]);
    let mut early = decided.coordinator.clone();
    assert_eq!(early.install(SnapshotId(77), &base(9), &mut machine).unwrap_err(), not_loaded);
    assert_eq!(decided.events(), []);
    assert_eq!(decided.loaded(77, loaded(90, 9, 4, "fetched")), []);
    assert_eq!(decided.events(), [SnapshotEvent::Fetched(SnapshotId(77))]);
    assert_eq!((machine, decided.submit()), ("own", vec![]), "nothing changes before the protocol orders it");

    decided.coordinator.install(SnapshotId(77), &base(9), &mut machine).unwrap();
    assert_eq!((machine, decided.effects()), ("fetched", vec![]));
    assert_eq!(decided.submit(), [named(9, 4, 2)]);
    assert_eq!(decided.events(), []);
    assert_eq!(decided.sync(), [SnapshotEvent::Installed(Position(9))]);
    assert_eq!(
        decided.effects(),
        [SnapshotEffect::RemoveFilesBut(vec![]), SnapshotEffect::Discard { machine: "own", store_generation: 3 }]
    );
    assert_eq!((decided.coordinator.figures().installed, decided.coordinator.figures().position), (1, 9));
}

#[test]
fn a_snapshot_whose_base_is_not_the_one_that_was_ordered_is_not_installed() {
    let mut decided = Decided::new(CheckpointKind::File, None, None);
    decided.get(77, 9, 1, "fetched");
    let (other, mut machine) = (SnapshotBase { membership: vec![1], ..base(9) }, "own");
    let refused = decided.coordinator.install(SnapshotId(77), &other, &mut machine).unwrap_err();
    assert_eq!(refused, "the snapshot at 9 is not the one that its source announced");
    assert_eq!((machine, decided.submit()), ("own", vec![]));
}

#[test]
fn an_install_ends_the_writing_of_the_state_before_and_what_that_still_tells_is_not_taken_for_a_snapshot() {
    let mut decided = Decided::new(CheckpointKind::File, None, None);
    decided.get(77, 9, 1, "fetched");
    decided.coordinator.begun(base(5));
    decided.effects();
    let mut machine = "own";
    decided.coordinator.install(SnapshotId(77), &base(9), &mut machine).unwrap();
    assert_eq!(decided.effects(), [SnapshotEffect::StopWriting]);
    let late = decided.report(SnapshotReport::Written { base: base(5), outcome: Ok(ready(50, 5)) });
    assert_eq!(late, [SnapshotEffect::RemoveFilesBut(vec![complete(9)])]);
    assert_eq!(decided.submit(), [named(9, 1, 0)]);
    let newest = SnapshotEffect::Serve { to: ONE, ready: ready(1_077, 9) };
    assert_eq!(decided.offer(ONE, 9), [newest], "the fetched one is served on");
}

#[test]
fn a_fetch_that_is_replaced_is_stopped_and_its_files_go_before_the_next_begins() {
    let mut decided = Decided::new(CheckpointKind::File, Some(named(5, 0, 0)), None);
    decided.fetch(77, 9);
    assert_eq!(
        decided.fetch(78, 10),
        [
            SnapshotEffect::StopPulling,
            SnapshotEffect::RemoveFilesBut(vec![complete(5)]),
            SnapshotEffect::Pull { from: TWO, incarnation: BOUND, snapshot: served(78, 10) }
        ]
    );
    let kept = vec![complete(5), fetched(78), complete(10)];
    assert_eq!(decided.pulled(77), [SnapshotEffect::RemoveFilesBut(kept)], "of the first nothing is loaded");
    assert_eq!(decided.events(), []);
}

#[test]
fn a_snapshot_is_not_fetched_again_while_threads_still_work_on_an_earlier_fetch_of_it() {
    let mut decided = Decided::new(CheckpointKind::File, None, None);
    decided.fetch(77, 9);
    decided.pulled(77);
    let given_up = [SnapshotEffect::StopLoading, SnapshotEffect::RemoveFilesBut(vec![])];
    assert_eq!(decided.task(SnapshotTask::Cancel), given_up);
    assert_eq!(decided.fetch(77, 9), [], "the loader may still rename the file");
    assert_eq!(decided.events(), [SnapshotEvent::NotFetched(SnapshotId(77))]);
    assert_eq!(
        decided.loaded(77, loaded(90, 9, 1, "late")),
        [SnapshotEffect::Discard { machine: "late", store_generation: 1 }, SnapshotEffect::RemoveFilesBut(vec![])]
    );
    assert_eq!(decided.events(), [], "it was given up");
    let again = SnapshotEffect::Pull { from: TWO, incarnation: BOUND, snapshot: served(77, 9) };
    assert_eq!(decided.fetch(77, 9), [again]);
    let load = SnapshotEffect::Load { snapshot: served(77, 9), store_generation: 2 };
    assert_eq!(decided.pulled(77), [load], "never as a generation that was begun before");
}

#[test]
fn a_fetch_that_is_replaced_while_it_is_loaded_is_given_up_before_the_next_begins() {
    let mut decided = Decided::new(CheckpointKind::Store, None, None);
    decided.fetch(77, 9);
    decided.pulled(77);
    assert_eq!(
        decided.fetch(78, 10),
        [
            SnapshotEffect::StopLoading,
            SnapshotEffect::RemoveFilesBut(vec![]),
            SnapshotEffect::Pull { from: TWO, incarnation: BOUND, snapshot: served(78, 10) }
        ]
    );
    let outcome = Err("it was given up".to_owned());
    let kept = vec![fetched(78), complete(10)];
    let report = SnapshotReport::Loaded { id: SnapshotId(77), outcome };
    assert_eq!(decided.report(report), [SnapshotEffect::RemoveFilesBut(kept)]);
    assert_eq!(decided.events(), [], "nobody waits for it");
}

#[test]
fn a_loaded_snapshot_that_is_given_up_is_discarded_with_its_generation() {
    let mut decided = Decided::new(CheckpointKind::Store, Some(named(5, 3, 0)), None);
    decided.get(77, 9, 4, "fetched");
    assert_eq!(
        decided.task(SnapshotTask::Cancel),
        [SnapshotEffect::Discard { machine: "fetched", store_generation: 4 }, SnapshotEffect::RemoveFilesBut(vec![])]
    );
}

#[test]
fn what_cannot_be_pulled_or_loaded_or_comes_from_no_member_is_told_as_not_fetched_and_its_files_go() {
    let mut decided = Decided::new(CheckpointKind::File, None, None);
    let stranger = SnapshotTask::Fetch { from: ReplicaId(9), snapshot: served(76, 9) };
    assert_eq!((decided.task(stranger), decided.events()), (vec![], vec![SnapshotEvent::NotFetched(SnapshotId(76))]));
    let gone = [SnapshotEffect::RemoveFilesBut(vec![])];
    decided.fetch(77, 9);
    let outcome = Err("gone".to_owned());
    assert_eq!(decided.report(SnapshotReport::Pulled { id: SnapshotId(77), outcome }), gone);
    assert_eq!(decided.events(), [SnapshotEvent::NotFetched(SnapshotId(77))]);
    decided.fetch(77, 9);
    decided.pulled(77);
    let outcome = Err("damaged".to_owned());
    assert_eq!(decided.report(SnapshotReport::Loaded { id: SnapshotId(77), outcome }), gone);
    assert_eq!(decided.events(), [SnapshotEvent::NotFetched(SnapshotId(77))]);
    assert_eq!(decided.coordinator.figures().fetching, 0);
}

#[test]
fn a_peer_is_served_at_once_if_the_newest_is_of_use_and_else_one_is_asked_for_once() {
    let mut decided = Decided::new(CheckpointKind::File, Some(named(5, 0, 0)), Some(ready(50, 5)));
    assert_eq!(decided.offer(ONE, 5), [SnapshotEffect::Serve { to: ONE, ready: ready(50, 5) }]);
    assert_eq!(decided.events(), [SnapshotEvent::Ready { to: ONE, snapshot: served(50, 5) }]);
    assert_eq!(decided.offer(TWO, 6), []);
    assert_eq!(decided.events(), [SnapshotEvent::Due]);
    assert_eq!(decided.coordinator.after_turn(true, None), None);
    assert_eq!(decided.events(), [], "once");
    assert_eq!(decided.write(80, 8), [SnapshotEffect::Serve { to: TWO, ready: ready(80, 8) }]);
    assert_eq!(decided.events(), [SnapshotEvent::Ready { to: TWO, snapshot: served(80, 8) }]);
    assert_eq!(decided.coordinator.figures().serving, 2);
    assert_eq!(decided.task(SnapshotTask::Withdraw(TWO)), [SnapshotEffect::Withdraw(TWO)]);
    assert_eq!(decided.coordinator.figures().serving, 1);
}

#[test]
fn a_peer_that_withdraws_while_it_waits_is_not_served_and_none_is_asked_for_it() {
    let mut decided = Decided::new(CheckpointKind::File, None, None);
    decided.offer(ONE, 5);
    decided.task(SnapshotTask::Withdraw(ONE));
    assert_eq!(decided.events(), []);
    assert_eq!(decided.write(50, 5), []);
}

#[test]
fn while_one_is_taken_or_named_no_other_is_due_and_what_was_due_meanwhile_is_due_afterwards() {
    let mut decided = Decided::new(CheckpointKind::File, None, None);
    let interval = std::time::Duration::from_secs(3_600);
    let settings = CheckpointSettings { interval, transactions: 10, log_bytes: 1_000 };
    decided.coordinator.schedule(Some(settings), Time::ZERO);
    decided.coordinator.executed(10);
    assert_eq!(decided.events(), [SnapshotEvent::Due]);
    decided.coordinator.begun(base(5));
    decided.effects();
    decided.log_bytes = 1_000;
    decided.offer(ONE, 6);
    assert_eq!(decided.events(), [], "one is being written");
    assert_eq!(decided.coordinator.take(), TakeSteps { view: false, persist: false });
    decided.report(SnapshotReport::Written { base: base(5), outcome: Ok(ready(50, 5)) });
    assert_eq!(decided.events(), [], "it is to be named");
    decided.submit();
    assert_eq!(decided.events(), [], "it is being named");
    assert_eq!(decided.sync(), [SnapshotEvent::Taken(Position(5)), SnapshotEvent::Due], "for the peer");
    assert_eq!(decided.events(), [SnapshotEvent::Due], "and for the log");
    assert_eq!(decided.events(), []);
}

#[test]
fn for_a_peer_that_the_snapshot_asked_for_by_another_does_not_serve_one_is_asked_for_again() {
    let mut decided = Decided::new(CheckpointKind::File, None, None);
    decided.offer(ONE, 5);
    assert_eq!(decided.events(), [SnapshotEvent::Due]);
    decided.coordinator.begun(base(8));
    decided.effects();
    decided.offer(TWO, 10);
    decided.report(SnapshotReport::Written { base: base(8), outcome: Ok(ready(80, 8)) });
    assert_eq!(decided.events(), [SnapshotEvent::Ready { to: ONE, snapshot: served(80, 8) }]);
    decided.submit();
    assert_eq!(decided.sync(), [SnapshotEvent::Taken(Position(8)), SnapshotEvent::Due]);
    assert_eq!(decided.events(), []);
}

#[test]
fn none_is_due_before_the_protocol_has_started() {
    let mut decided = Decided::new(CheckpointKind::File, None, None);
    decided.offer(ONE, 1);
    let mut events = Vec::new();
    let start = TurnStart { now: Time::ZERO, durable: Ticket::RECOVERED, log_bytes: 0, is_started: false };
    decided.coordinator.before_turn(start, &mut events);
    assert_eq!(events, []);
    assert_eq!(decided.events(), [SnapshotEvent::Due]);
}

#[test]
fn a_named_snapshot_without_a_file_is_made_again_for_a_peer_while_its_state_is_still_the_present_one() {
    let mut decided = Decided::new(CheckpointKind::Store, Some(named(5, 0, 0)), None);
    decided.offer(ONE, 3);
    assert_eq!(decided.events(), [SnapshotEvent::Due]);
    assert_eq!(decided.coordinator.after_turn(false, Some(Position(5))), Some(base(5)));
    assert_eq!(decided.write(50, 5), [SnapshotEffect::Serve { to: ONE, ready: ready(50, 5) }]);
    assert_eq!(decided.submit(), [], "the store holds the state already");

    decided.offer(TWO, 6);
    assert_eq!(decided.turn(0).last(), Some(&SnapshotEvent::Due));
    assert_eq!(decided.coordinator.after_turn(false, Some(Position(6))), None, "there is a newer state");
    assert_eq!(decided.events(), [SnapshotEvent::Due], "so it is asked again");
    assert_eq!(decided.coordinator.after_turn(false, None), None, "something waits to be executed");
    assert_eq!(decided.events(), [SnapshotEvent::Due]);
    assert_eq!(decided.coordinator.after_turn(true, Some(Position(5))), None, "one was ordered");
    assert_eq!(decided.events(), []);
    assert_eq!(decided.coordinator.after_turn(false, Some(Position(5))), None, "nobody asked in this turn");
}

#[test]
fn a_checkpoint_of_a_store_on_disk_is_its_sync_and_a_file_is_made_only_for_peers() {
    let mut decided = Decided::new(CheckpointKind::Store, None, None);
    assert_eq!(decided.coordinator.take(), TakeSteps { view: false, persist: true });
    decided.offer(ONE, 1);
    assert_eq!(decided.coordinator.take(), TakeSteps { view: true, persist: true });
    decided.write(50, 5);
    assert_eq!(decided.submit(), [], "a file is not named");
    decided.coordinator.persisted(base(5));
    assert_eq!(decided.submit(), [named(5, 0, 0)]);
    decided.sync();
    assert_eq!(decided.effects(), [SnapshotEffect::RemoveFilesBut(vec![])]);
    assert_eq!(decided.coordinator.figures().taken, 1);
}

#[test]
fn peers_that_wait_are_told_when_none_can_be_taken_and_the_next_try_may_succeed() {
    let mut decided = Decided::new(CheckpointKind::File, None, None);
    decided.offer(ONE, 1);
    decided.events();
    decided.coordinator.begun(base(5));
    decided.effects();
    let outcome = Err("the disk is full".to_owned());
    assert_eq!(decided.report(SnapshotReport::Written { base: base(5), outcome }), []);
    let told = [SnapshotEvent::NotTaken(Position(5)), SnapshotEvent::Unready(ONE)];
    assert_eq!(decided.events(), told, "and so is the protocol, which may know of others");
    assert_eq!((decided.submit(), decided.coordinator.figures().failed), (vec![], 1));
    assert!(!decided.coordinator.is_busy());
    decided.offer(ONE, 1);
    assert_eq!(decided.events(), [SnapshotEvent::Due]);
    assert_eq!(decided.write(60, 6), [SnapshotEffect::Serve { to: ONE, ready: ready(60, 6) }]);
}

#[test]
fn a_checkpoint_of_a_store_on_disk_is_not_called_failed_because_the_file_for_peers_is() {
    let mut decided = Decided::new(CheckpointKind::Store, None, None);
    decided.offer(ONE, 1);
    decided.events();
    decided.coordinator.begun(base(5));
    decided.coordinator.persisted(base(5));
    decided.effects();
    let outcome = Err("the disk is full".to_owned());
    assert_eq!(decided.report(SnapshotReport::Written { base: base(5), outcome }), []);
    assert_eq!(decided.events(), [SnapshotEvent::Unready(ONE)]);
    assert_eq!(decided.submit(), [named(5, 0, 0)]);
    assert_eq!(decided.sync(), [SnapshotEvent::Taken(Position(5))]);
}

#[test]
fn the_log_is_released_by_a_change_of_its_own_that_names_the_latest_snapshot_and_tells_nothing() {
    let mut decided = Decided::new(CheckpointKind::File, Some(named(5, 0, 0)), None);
    decided.task(SnapshotTask::ForgetLog(Position(3)));
    decided.task(SnapshotTask::ForgetLog(Position(3)));
    decided.write(80, 8);
    decided.task(SnapshotTask::ForgetLog(Position(2)));
    decided.task(SnapshotTask::ForgetLog(Position(4)));
    assert_eq!(decided.submit(), [named(5, 0, 3), named(8, 0, 3), named(8, 0, 4)]);
    assert_eq!(decided.sync(), [SnapshotEvent::Taken(Position(8))]);
}

#[test]
fn without_metadata_a_snapshot_counts_at_once_and_no_file_keeps_its_name() {
    let mut decided = Decided::new(CheckpointKind::Passing, None, None);
    assert_eq!(decided.write(50, 5), [SnapshotEffect::RemoveFilesBut(vec![])]);
    assert_eq!(decided.events(), [SnapshotEvent::Taken(Position(5))]);
    decided.task(SnapshotTask::ForgetLog(Position(5)));
    assert_eq!(decided.submit(), [], "there is no log to forget");
    decided.get(77, 9, 1, "fetched");
    let mut machine = "own";
    decided.coordinator.install(SnapshotId(77), &base(9), &mut machine).unwrap();
    assert_eq!(
        decided.effects(),
        [SnapshotEffect::RemoveFilesBut(vec![]), SnapshotEffect::Discard { machine: "own", store_generation: 0 }]
    );
    assert_eq!(decided.events(), [SnapshotEvent::Installed(Position(9))]);
}

#[test]
fn a_sign_of_life_of_a_peer_that_pulls_is_passed_on() {
    let mut decided = Decided::new(CheckpointKind::File, None, None);
    decided.report(SnapshotReport::Progress(TWO));
    assert!(decided.coordinator.has_news());
    assert_eq!(decided.events(), [SnapshotEvent::Progress(TWO)]);
    assert!(!decided.coordinator.has_news());
}
