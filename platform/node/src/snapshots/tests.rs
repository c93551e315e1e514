//! The keeper with real files, doubles of what moves snapshots, and a state machine that is a number.

use super::coordinator::{NamingOrder, TurnStart};
use super::*;
use crate::driver::{SnapshotEvent, SnapshotTask};
use crate::shell::storage::NamedSnapshot;
use parking_lot::Mutex;
use quorate_communicator::transfer::{PullEnd, PullError, PullOrder, SnapshotSink};
use quorate_framework::vfs::Vfs;
use quorate_framework::{
    Incarnation, MemberVector, Position, ReplicaId, ServedSnapshot, SnapshotBase, SnapshotId, Ticket, TicketSequence,
    Time,
};
use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ONE: ReplicaId = ReplicaId(1);
const TWO: ReplicaId = ReplicaId(2);

type Ordered = (PullOrder, Box<dyn SnapshotSink>, Box<dyn FnOnce(PullEnd) + Send>);

/// Pulls that a test carries out.
#[derive(Clone, Default)]
struct TestPuller(Arc<Mutex<Vec<Ordered>>>);

impl Puller for TestPuller {
    fn pull(
        &self,
        order: PullOrder,
        sink: Box<dyn SnapshotSink>,
        on_end: Box<dyn FnOnce(PullEnd) + Send>,
    ) -> Box<dyn Any + Send> {
        self.0.lock().push((order, sink, on_end));
        Box::new(())
    }
}

/// A keeper in a real folder.
struct Kept {
    folder: tempfile::TempDir,
    puller: TestPuller,
    removed: Arc<Mutex<Vec<u64>>>,
    keeper: Snapshots<u64>,
    tickets: TicketSequence,
    durable: Ticket,
}

fn base(position: u64) -> SnapshotBase {
    SnapshotBase { position: Position(position), protocol: vec![position as u8], membership: vec![9] }
}

/// The file of a snapshot here: its position as text.
fn load(open: OpenFile<'_>, generation: u64) -> Result<(u64, SnapshotBase, String), String> {
    let file = open().map_err(|error| error.to_string())?;
    let mut bytes = vec![0; file.length().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let position = String::from_utf8(bytes).unwrap().parse().map_err(|_| "damaged".to_owned())?;
    Ok((position * 1_000 + generation, base(position), "a number".to_owned()))
}

impl Kept {
    fn new(durable: bool, named: Option<NamedSnapshot>) -> Kept {
        Kept::loading(durable, named, Arc::new(load))
    }

    fn loading(durable: bool, named: Option<NamedSnapshot>, load: LoadState<u64>) -> Kept {
        let (folder, puller) = (tempfile::tempdir().unwrap(), TestPuller::default());
        let path = folder.path().to_owned();
        let open = move || -> io::Result<Box<dyn Vfs>> {
            quorate_recovery::DirectoryVfs::open_unlocked(&path)
                .map(|vfs| Box::new(vfs) as Box<dyn Vfs>)
                .map_err(io::Error::other)
        };
        let removed = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&removed);
        let keeper = Snapshots::new(SnapshotParts {
            directory: Directory { open: Arc::new(open), keeps_files: durable },
            puller: Box::new(puller.clone()),
            load,
            wake: Arc::new(|| ()),
            named,
            durable,
            remove_generation: Arc::new(move |generation| noted.lock().push(generation)),
        });
        let (tickets, durable) = (TicketSequence::default(), Ticket::RECOVERED);
        Kept { folder, puller, removed, keeper, tickets, durable }
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn events(&mut self) -> Vec<SnapshotEvent> {
        let mut events = Vec::new();
        let start = TurnStart { now: Time::ZERO, durable: self.durable, log_bytes: 0, is_started: true };
        self.keeper.before_turn(start, &mut events);
        events
    }

    /// Looks until something is wanted or told.
    fn wait(&mut self) -> Vec<SnapshotEvent> {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let events = self.events();
            if !events.is_empty() || self.keeper.has_news() {
                return events;
            }
            assert!(Instant::now() < end, "nothing happens");
            thread::yield_now();
        }
    }

    /// Takes a snapshot whose file is the position as text, until its naming is wanted or told.
    fn take(&mut self, position: u64) -> Vec<SnapshotEvent> {
        self.keeper.begun(base(position));
        assert!(self.keeper.wants_piece());
        self.keeper.piece(position.to_string().into_bytes(), true);
        self.wait()
    }

    /// Submits what is to be named.
    fn submit(&mut self) -> Vec<NamedSnapshot> {
        let mut named = Vec::new();
        while let Some(NamingOrder { snapshot, .. }) = self.keeper.submit_naming(|| self.tickets.next_ticket()) {
            named.push(snapshot);
        }
        named
    }

    fn sync(&mut self) {
        self.durable = self.tickets.last();
    }

    /// Carries a pull out with these bytes.
    fn pulled(&mut self, bytes: &[u8]) {
        let (order, mut sink, on_end) = self.puller.0.lock().pop().unwrap();
        sink.write(0, bytes).unwrap();
        drop(sink);
        assert_eq!(order.incarnation, Incarnation(7));
        on_end(PullEnd { result: Ok(()), written: bytes.len() as u64 });
    }

    fn fetch(&mut self, id: u64, position: u64) {
        let length_bytes = position.to_string().len() as u64;
        let snapshot = ServedSnapshot { id: SnapshotId(id), position: Position(position), length_bytes };
        self.keeper.task(&SnapshotTask::Fetch { from: TWO, snapshot }, |_| Some(Incarnation(7)));
    }
}

#[test]
fn a_snapshot_is_told_as_taken_when_the_metadata_name_it_and_only_then_the_one_before_goes() {
    let mut kept = Kept::new(true, None);
    assert_eq!(kept.take(5), []);
    let named = kept.submit();
    assert_eq!((named[0].base.clone(), named[0].store_generation, named[0].released), (base(5), 0, Position::ZERO));
    assert_eq!(kept.events(), [], "not before it is durable");
    kept.sync();
    assert_eq!(kept.events(), [SnapshotEvent::Taken(Position(5))]);
    assert_eq!(kept.take(8), []);
    kept.submit();
    let (five, eight) = ("snapshot-0000000000000005.dat".to_owned(), "snapshot-0000000000000008.dat".to_owned());
    // Whatever else happens, what the metadata still name stays.
    kept.fetch(1, 9);
    kept.keeper.task(&SnapshotTask::Cancel, |_| None);
    assert_eq!(kept.names(), [five, eight.clone()]);
    kept.sync();
    assert_eq!(kept.events(), [SnapshotEvent::Taken(Position(8))]);
    assert_eq!(kept.names(), [eight]);
    assert_eq!(kept.keeper.figures().taken, 2);
}

#[test]
fn a_peer_is_served_the_newest_that_is_of_use_and_otherwise_a_new_one_is_asked_for_once() {
    let mut kept = Kept::new(true, None);
    let offer = |to, at_least| SnapshotTask::Offer { to, at_least: Position(at_least) };
    kept.keeper.task(&offer(ONE, 3), |_| None);
    assert_eq!(kept.events(), [SnapshotEvent::Due]);
    assert_eq!(kept.events(), [], "once");
    let events = kept.take(5);
    let Some(SnapshotEvent::Ready { to: ONE, snapshot }) = events.first().cloned() else { panic!("{events:?}") };
    assert_eq!((snapshot.position, snapshot.length_bytes), (Position(5), 1));
    kept.keeper.task(&offer(TWO, 5), |_| None);
    assert_eq!(kept.events(), [SnapshotEvent::Ready { to: TWO, snapshot }], "the same one, without taking another");
    kept.submit();
    kept.sync();
    kept.keeper.task(&offer(TWO, 6), |_| None);
    let events = kept.events();
    assert_eq!(events, [SnapshotEvent::Taken(Position(5)), SnapshotEvent::Due], "that one is too old");

    let source = kept.keeper.source();
    kept.keeper.set_members(&MemberVector::from([(ONE, Incarnation(3))]));
    assert!(source.admits(ONE, Incarnation(3)).is_ok());
    assert!(source.admits(ONE, Incarnation(4)).is_err() && source.admits(TWO, Incarnation(3)).is_err());
    assert_eq!((source.served(ONE, snapshot.id), source.served(ONE, SnapshotId(1))), (Some(snapshot), None));
    let mut part = [0; 8];
    assert_eq!((source.read(snapshot.id, 0, &mut part), part[0]), (Ok(1), b'5'));
    source.pulled(ONE, snapshot.id, 1);
    assert_eq!(kept.events(), [SnapshotEvent::Progress(ONE)]);
    // A newer one takes its name away; whoever pulls goes on.
    kept.take(8);
    kept.submit();
    kept.sync();
    kept.events();
    assert_eq!(kept.names(), ["snapshot-0000000000000008.dat"]);
    assert_eq!(source.read(snapshot.id, 0, &mut part), Ok(1));
    kept.keeper.task(&SnapshotTask::Withdraw(ONE), |_| None);
    assert_eq!(source.served(ONE, snapshot.id), None);
}

#[test]
fn what_is_fetched_is_checked_and_loaded_and_its_install_is_told_when_the_metadata_name_it() {
    let named = NamedSnapshot { base: base(5), store_generation: 3, released: Position::ZERO };
    let mut kept = Kept::new(true, Some(named));
    kept.fetch(77, 9);
    kept.pulled(b"9");
    assert_eq!(kept.wait(), [SnapshotEvent::Fetched(SnapshotId(77))]);
    assert_eq!(kept.names(), ["snapshot-0000000000000009.dat"], "durable under its own name, and not named yet");
    let mut machine = 5_003;
    kept.keeper.install(SnapshotId(77), &base(9), &mut machine).unwrap();
    assert_eq!(machine, 9_004, "the next generation");
    assert_eq!(kept.submit()[0].store_generation, 4);
    assert_eq!((kept.events(), kept.removed.lock().clone()), (vec![], vec![]), "the old state is still the one named");
    kept.sync();
    assert_eq!(kept.events(), [SnapshotEvent::Installed(Position(9))]);
    let end = Instant::now() + Duration::from_secs(30);
    while kept.removed.lock().is_empty() {
        assert!(Instant::now() < end, "the old generation stays");
        thread::yield_now();
    }
    assert_eq!(*kept.removed.lock(), [3]);
}

#[test]
fn what_is_not_the_snapshot_that_was_announced_is_not_fetched_and_leaves_no_file() {
    let mut kept = Kept::new(true, None);
    for bytes in [&b"8"[..], b"x", b"99"] {
        kept.fetch(77, 9);
        kept.pulled(bytes);
        assert_eq!(kept.wait(), [SnapshotEvent::NotFetched(SnapshotId(77))]);
        assert_eq!(kept.names(), [""; 0]);
    }
    assert_eq!(*kept.removed.lock(), [1, 2, 3], "nor a generation of the store, however far it came");
    kept.fetch(78, 9);
    let (_, sink, on_end) = kept.puller.0.lock().pop().unwrap();
    drop(sink);
    on_end(PullEnd { result: Err(PullError::Gone), written: 0 });
    assert_eq!(kept.wait(), [SnapshotEvent::NotFetched(SnapshotId(78))]);
    let unbound = ServedSnapshot { id: SnapshotId(1), position: Position(9), length_bytes: 1 };
    kept.keeper.task(&SnapshotTask::Fetch { from: ONE, snapshot: unbound }, |_| None);
    assert_eq!(kept.events(), [SnapshotEvent::NotFetched(SnapshotId(1))], "from nobody that is bound");
}

#[test]
fn a_snapshot_of_another_base_than_the_one_that_was_ordered_is_not_installed() {
    let (mut kept, mut machine) = (Kept::new(true, None), 0);
    kept.fetch(77, 9);
    assert!(kept.keeper.install(SnapshotId(77), &base(9), &mut machine).is_err(), "it is not loaded");
    kept.fetch(77, 9);
    kept.pulled(b"9");
    kept.wait();
    let other = SnapshotBase { membership: vec![1], ..base(9) };
    let refused = kept.keeper.install(SnapshotId(77), &other, &mut machine).unwrap_err();
    assert!(refused.contains("not the one that its source announced"), "{refused}");
}

#[test]
fn a_cancelled_fetch_that_ends_all_the_same_changes_nothing() {
    let mut kept = Kept::new(true, None);
    kept.fetch(77, 9);
    kept.keeper.task(&SnapshotTask::Cancel, |_| None);
    kept.pulled(b"9");
    assert_eq!((kept.events(), kept.names()), (vec![], vec![]));
}

#[test]
fn a_loading_that_is_given_up_ends_at_its_next_read_and_its_generation_goes() {
    let reads = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&reads);
    // Reads for as long as it can.
    let endless = move |open: OpenFile<'_>, _generation| {
        let file = open().map_err(|error| error.to_string())?;
        loop {
            file.read_exact_at(&mut [0], 0).map_err(|error| error.to_string())?;
            counted.fetch_add(1, Ordering::Relaxed);
            thread::yield_now();
        }
    };
    let mut kept = Kept::loading(true, None, Arc::new(endless));
    kept.fetch(77, 9);
    kept.pulled(b"9");
    let end = Instant::now() + Duration::from_secs(30);
    while reads.load(Ordering::Relaxed) == 0 {
        assert!(Instant::now() < end, "it is not loaded");
        assert_eq!(kept.events(), []);
        thread::yield_now();
    }
    kept.keeper.task(&SnapshotTask::Cancel, |_| None);
    while kept.removed.lock().is_empty() {
        assert!(Instant::now() < end, "it is loaded for ever");
        thread::yield_now();
    }
    assert_eq!((kept.events(), kept.names(), kept.removed.lock().clone()), (vec![], vec![], vec![1]));
}

#[test]
fn a_snapshot_that_cannot_be_written_is_told_to_who_waits_and_the_next_may_succeed() {
    let mut kept = Kept::new(true, None);
    kept.keeper.task(&SnapshotTask::Offer { to: ONE, at_least: Position(1) }, |_| None);
    // A folder in its place cannot be made a file.
    let in_the_way = kept.folder.path().join("snapshot-0000000000000005.tmp");
    std::fs::create_dir(&in_the_way).unwrap();
    kept.keeper.begun(base(5));
    kept.keeper.piece(b"5".to_vec(), true);
    assert_eq!(kept.wait(), [SnapshotEvent::NotTaken(Position(5)), SnapshotEvent::Unready(ONE)]);
    assert_eq!((kept.keeper.figures().failed, kept.keeper.figures().taking), (1, false));
    std::fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(kept.take(6), []);
    assert_eq!(kept.submit()[0].base, base(6));
}

#[test]
fn the_log_is_released_by_naming_the_same_snapshot_again_and_never_twice() {
    let named = NamedSnapshot { base: base(5), store_generation: 0, released: Position::ZERO };
    let mut kept = Kept::new(true, Some(named));
    kept.keeper.task(&SnapshotTask::ForgetLog(Position(3)), |_| None);
    kept.keeper.task(&SnapshotTask::ForgetLog(Position(3)), |_| None);
    let submitted = kept.submit();
    assert_eq!(submitted.iter().map(|named| (named.base.position.0, named.released.0)).collect::<Vec<_>>(), [(5, 3)]);
    kept.sync();
    assert_eq!(kept.events(), [], "the protocol need not hear of it");
}

#[test]
fn in_memory_a_snapshot_is_taken_at_once_and_lives_only_while_it_is_served() {
    let mut kept = Kept::new(false, None);
    kept.keeper.task(&SnapshotTask::Offer { to: ONE, at_least: Position(1) }, |_| None);
    let events = kept.take(5);
    assert!(
        matches!(events[..], [SnapshotEvent::Ready { to: ONE, .. }, SnapshotEvent::Taken(Position(5))]),
        "{events:?}"
    );
    assert_eq!((kept.submit(), kept.names()), (vec![], vec![]));
    kept.keeper.task(&SnapshotTask::ForgetLog(Position(5)), |_| None);
    assert_eq!(kept.submit(), [], "there is no log to forget");
}
