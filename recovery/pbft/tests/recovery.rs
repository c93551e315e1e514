//! A PBFT replica's data, written and read back through the shared log.
#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use quorate_framework::{ClusterId, Decoder, Digest, Encoder, Position, RecoverySpec, ReplicaId, TicketSequence};
use quorate_recovery::{BootId, MetadataChange, Pump, Recovered, RecoveryError, StartOptions, Submission, WalSettings};
use quorate_recovery_pbft::{
    PbftRecord, PbftRecovery, PbftState, Signatures, ViewMode, pbft_identity, snapshot_change,
};
use quorate_simulated_disk::{CrashPolicy, SimulatedDisk};

fn numbers(seed: u64) -> impl FnMut() -> u64 + Send + 'static {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state
    }
}

fn try_open(disk: &SimulatedDisk, seed: u64) -> Result<Recovered<PbftRecord>, RecoveryError> {
    let settings = WalSettings { segment_bytes: 32 << 10, ..WalSettings::default() };
    let identity = pbft_identity(ClusterId([7; 16]), ReplicaId(1));
    let options = StartOptions { identity, boot: BootId([1; 16]), settings, random: Box::new(numbers(seed)) };
    PbftRecovery::open(Box::new(disk.mount()), options)
}

fn fresh() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    PbftRecovery::init(&disk, &pbft_identity(ClusterId([7; 16]), ReplicaId(1)), &mut numbers(9)).unwrap();
    disk
}

struct Writer {
    pump: Pump<PbftRecord>,
    tickets: TicketSequence,
}

impl Writer {
    fn on(disk: &SimulatedDisk, seed: u64) -> Writer {
        Writer { pump: try_open(disk, seed).unwrap().pump, tickets: TicketSequence::default() }
    }

    fn records(&mut self, records: impl IntoIterator<Item = PbftRecord>) {
        for record in records {
            self.pump.submit(Submission::record(self.tickets.next_ticket(), record)).unwrap();
            self.pump.run_group().unwrap();
        }
    }

    fn change(&mut self, change: MetadataChange) {
        self.pump.submit(Submission::metadata(self.tickets.next_ticket(), change)).unwrap();
        self.pump.run_group().unwrap();
        while self.pump.has_maintenance() {
            self.pump.maintain().unwrap();
        }
    }
}

fn digest(number: u64) -> Digest {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&number.to_le_bytes());
    Digest(digest)
}

fn signatures() -> Signatures {
    Signatures::from([(ReplicaId(2), [2; 64]), (ReplicaId(3), [3; 64]), (ReplicaId(4), [4; 64])])
}

fn pre_prepare(view: u64, position: u64, number: u64) -> PbftRecord {
    let body = Bytes::from(format!("batch {position}"));
    PbftRecord::PrePrepare { view, position: Position(position), digest: digest(number), body }
}

fn prepared(view: u64, position: u64, number: u64) -> PbftRecord {
    PbftRecord::Prepared { view, position: Position(position), digest: digest(number), signatures: signatures() }
}

fn committed(view: u64, position: u64, number: u64) -> PbftRecord {
    PbftRecord::Committed { view, position: Position(position), digest: digest(number) }
}

fn stable(position: u64) -> PbftRecord {
    PbftRecord::StableCheckpoint {
        position: Position(position),
        digest: digest(900 + position),
        signatures: signatures(),
    }
}

fn all_kinds() -> Vec<PbftRecord> {
    let message = Bytes::from_static(b"signed message");
    vec![
        PbftRecord::ViewState { view: 3, mode: ViewMode::Normal },
        PbftRecord::ViewState { view: 3, mode: ViewMode::Changing { to: 4 } },
        pre_prepare(3, 7, 70),
        prepared(3, 7, 70),
        committed(3, 7, 70),
        stable(6),
        PbftRecord::ViewChangeSent { to: 5, message: message.clone() },
        PbftRecord::NewView { view: 5, message },
    ]
}

#[test]
fn every_kind_of_record_reads_back_and_no_cut_of_one_does() {
    for record in all_kinds() {
        let mut encoder = Encoder::new();
        record.clone().encode(&mut encoder);
        let encoded = encoder.finish();
        let body = Bytes::from(encoded.body.concat());
        assert_eq!(PbftRecord::decode(Decoder::new(&encoded.head, body.clone())), Ok(record.clone()));
        assert!(record.weight() >= encoded.length(), "{record:?}");
        for end in 0..encoded.head.len() {
            let cut = PbftRecord::decode(Decoder::new(&encoded.head[..end], body.clone()));
            assert!(cut.is_err(), "{record:?} cut at {end}");
        }
    }
}

#[test]
fn a_set_of_signatures_has_one_coding_and_a_bounded_size() {
    let mut head = vec![5];
    head.extend([0; 40]);
    head.extend(u32::MAX.to_le_bytes());
    assert!(PbftRecord::decode(Decoder::new(&head, Bytes::new())).is_err());
    let mut twice = head[..41].to_vec();
    twice.extend(2u32.to_le_bytes());
    for _ in 0..2 {
        twice.extend(7u32.to_le_bytes());
        twice.extend([1; 64]);
    }
    assert!(PbftRecord::decode(Decoder::new(&twice, Bytes::new())).is_err());
}

#[test]
fn what_was_promised_before_a_power_cut_is_known_after_it() {
    let disk = fresh();
    let mut writer = Writer::on(&disk, 1);
    writer.records([pre_prepare(0, 1, 10), prepared(0, 1, 10), committed(0, 1, 10), pre_prepare(0, 2, 20)]);
    let message = Bytes::from_static(b"view change");
    writer.records([PbftRecord::ViewChangeSent { to: 1, message: message.clone() }]);
    disk.crash(CrashPolicy::SyncedOnly);
    let state = try_open(&disk, 2).unwrap().state;
    assert_eq!((state.view, state.mode), (0, ViewMode::Changing { to: 1 }));
    assert_eq!(state.view_change, Some((1, message)));
    assert_eq!(state.slots[&Position(1)].committed, Some((0, digest(10))));
    let prepared = state.slots[&Position(1)].prepared.clone().unwrap();
    assert_eq!((prepared.view, prepared.digest, prepared.signatures), (0, digest(10), signatures()));
    assert_eq!(state.slots[&Position(2)].candidates[&0], (digest(20), Bytes::from_static(b"batch 2")));
}

#[test]
fn views_and_the_stable_checkpoint_outlive_the_segments_they_were_written_to() {
    let disk = fresh();
    let mut writer = Writer::on(&disk, 1);
    let message = Bytes::from_static(b"new view");
    writer.records([
        PbftRecord::ViewChangeSent { to: 2, message: message.clone() },
        PbftRecord::NewView { view: 2, message: message.clone() },
    ]);
    for position in 1..=20 {
        writer.records([
            pre_prepare(2, position, position),
            prepared(2, position, position),
            committed(2, position, position),
        ]);
    }
    writer.records([stable(16)]);
    for position in 21..=30 {
        writer.records([pre_prepare(2, position, position)]);
    }
    writer.change(snapshot_change(Position(16), digest(916), 1, Position(16)));
    assert!(writer.pump.metadata().first_group > 40, "{}", writer.pump.metadata().first_group);
    disk.crash(CrashPolicy::SyncedOnly);
    for start in 2..4 {
        let recovered = try_open(&disk, start).unwrap();
        let state: &PbftState = &recovered.state;
        assert_eq!((state.view, state.mode), (2, ViewMode::Normal));
        assert_eq!(state.new_view, Some((2, message.clone())));
        assert_eq!(state.stable.as_ref().map(|stable| stable.position), Some(Position(16)));
        assert_eq!(state.snapshot, Some((Position(16), digest(916))));
        assert_eq!(state.slots.keys().map(|position| position.0).collect::<Vec<_>>(), (17..=30).collect::<Vec<u64>>());
        assert!(recovered.report.anomalies.is_empty(), "{:?}", recovered.report.anomalies);
        disk.crash(CrashPolicy::SyncedOnly);
    }
}

#[test]
fn a_prepared_proof_of_a_higher_view_wins_and_the_older_proposal_stays_known() {
    let disk = fresh();
    let mut writer = Writer::on(&disk, 1);
    writer.records([pre_prepare(0, 1, 10), prepared(0, 1, 10)]);
    writer.records([PbftRecord::NewView { view: 1, message: Bytes::new() }, pre_prepare(1, 1, 11), prepared(1, 1, 11)]);
    disk.crash(CrashPolicy::SyncedOnly);
    let slot = try_open(&disk, 2).unwrap().state.slots[&Position(1)].clone();
    assert_eq!(slot.prepared.map(|prepared| (prepared.view, prepared.digest)), Some((1, digest(11))));
    assert_eq!(slot.candidates.keys().copied().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn what_a_correct_replica_never_writes_is_refused() {
    let contradictions = [
        vec![pre_prepare(0, 1, 10), pre_prepare(0, 1, 11)],
        vec![pre_prepare(0, 1, 10), prepared(0, 1, 11)],
        vec![prepared(0, 1, 10)],
        vec![committed(0, 1, 10), committed(1, 1, 11)],
        vec![stable(6), stable(5)],
        vec![
            PbftRecord::ViewState { view: 2, mode: ViewMode::Normal },
            PbftRecord::ViewState { view: 1, mode: ViewMode::Normal },
        ],
        vec![
            PbftRecord::ViewChangeSent { to: 3, message: Bytes::new() },
            PbftRecord::ViewState { view: 0, mode: ViewMode::Normal },
        ],
    ];
    for records in contradictions {
        let disk = fresh();
        Writer::on(&disk, 1).records(records.clone());
        disk.crash(CrashPolicy::SyncedOnly);
        let error = try_open(&disk, 2).err().unwrap();
        assert!(matches!(error, RecoveryError::Replay { .. }), "{records:?}: {error}");
    }
}

#[test]
fn a_stable_checkpoint_above_what_is_known_to_be_committed_is_reported() {
    let disk = fresh();
    let mut writer = Writer::on(&disk, 1);
    writer.records([pre_prepare(0, 1, 10), committed(0, 1, 10), pre_prepare(0, 2, 20), stable(2)]);
    disk.crash(CrashPolicy::SyncedOnly);
    let anomalies = try_open(&disk, 2).unwrap().report.anomalies;
    assert_eq!(anomalies.len(), 1);
    assert!(anomalies[0].starts_with("checkpoint 2 is stable, and sequence 2 below it"), "{anomalies:?}");
}

#[test]
fn the_directory_of_a_raft_replica_is_refused() {
    let disk = fresh();
    let identity =
        quorate_recovery::Identity { protocol: "raft".to_owned(), ..pbft_identity(ClusterId([7; 16]), ReplicaId(1)) };
    let options = StartOptions {
        identity,
        boot: BootId([1; 16]),
        settings: WalSettings::default(),
        random: Box::new(numbers(1)),
    };
    let error = PbftRecovery::open(Box::new(disk), options).err().unwrap();
    assert!(matches!(error, RecoveryError::Foreign { .. }), "{error}");
}
