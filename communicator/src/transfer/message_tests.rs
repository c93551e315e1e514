use super::*;

const SNAPSHOT: ServedSnapshot =
    ServedSnapshot { id: SnapshotId(0x0807_0605_0403_0201), position: Position(9), length_bytes: 1_000 };

fn fetch() -> Fetch {
    Fetch { snapshot: SNAPSHOT, written: 100, until: 600 }
}

/// A valid fetch with one number overwritten.
fn with(offset: usize, value: u64) -> Result<Fetch, WireError> {
    let mut bytes = fetch().encode();
    bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    Fetch::decode(&bytes)
}

fn chunk(bytes: &[u8]) -> Chunk {
    let header = Chunk::encode_header(SNAPSHOT.id, SNAPSHOT.length_bytes, 100, Outcome::Data);
    Chunk::decode(Bytes::from([&header[..], bytes].concat())).expect("a valid chunk")
}

#[test]
fn a_fetch_has_exactly_these_bytes() {
    let bytes = fetch().encode();
    assert_eq!(bytes[..17], [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 0, 0, 0, 0, 232]);
    assert_eq!((number(&bytes, 16), number(&bytes, 24), number(&bytes, 32)), (1_000, 100, 600));
    assert_eq!(Fetch::decode(&bytes), Ok(fetch()));
}

#[test]
fn a_fetch_whose_numbers_contradict_each_other_is_refused() {
    assert!(Fetch::decode(&fetch().encode()[..39]).is_err(), "cut short");
    assert!(Fetch::decode(&[0; 41]).is_err(), "too long");
    assert!(with(16, limits::SNAPSHOT_BYTES + 1).is_err(), "longer than any snapshot");
    assert!(with(16, 599).is_err(), "it ends beyond the snapshot");
    assert!(with(24, 600).is_err(), "it asks for nothing");
    assert!(with(24, 601).is_err(), "it ends before it begins");
    assert!(with(32, u64::MAX).is_err(), "it ends beyond the snapshot");
    let wide = |until| Fetch { snapshot: ServedSnapshot { length_bytes: 1 << 30, ..SNAPSHOT }, written: 0, until };
    assert!(Fetch::decode(&wide(WINDOW_BYTES).encode()).is_ok());
    assert!(Fetch::decode(&wide(WINDOW_BYTES + 1).encode()).is_err(), "it asks for more than a window");
}

#[test]
fn a_chunk_has_bytes_exactly_if_it_is_data() {
    let decode = |outcome, bytes: &[u8]| {
        let header = Chunk::encode_header(SNAPSHOT.id, SNAPSHOT.length_bytes, 100, outcome);
        Chunk::decode(Bytes::from([&header[..], bytes].concat()))
    };
    assert!(decode(Outcome::Data, b"x").is_ok());
    assert!(decode(Outcome::Data, b"").is_err());
    for outcome in [Outcome::Gone, Outcome::Different, Outcome::Failed] {
        assert_eq!(decode(outcome, b"").map(|chunk| chunk.outcome), Ok(outcome));
        assert!(decode(outcome, b"x").is_err());
    }
    let mut unknown = Chunk::encode_header(SNAPSHOT.id, 1, 0, Outcome::Gone).to_vec();
    unknown[24] = 4;
    assert!(Chunk::decode(Bytes::from(unknown)).is_err(), "an outcome that does not exist");
    assert!(Chunk::decode(Bytes::from_static(&[0; 24])).is_err(), "cut short");
    let long = vec![0; limits::SNAPSHOT_CHUNK_BYTES + 1];
    assert!(decode(Outcome::Data, &long).is_err(), "longer than any chunk");
}

#[test]
fn a_chunk_that_does_not_go_on_where_the_writing_ended_is_refused_by_name() {
    let right = chunk(&[1; 50]);
    assert_eq!(right.check(&SNAPSHOT, 100, 600), Ok(()));
    let refused = |chunk: &Chunk, written, until| match chunk.check(&SNAPSHOT, written, until) {
        Err(WireError::Meaningless { what, .. }) => what,
        other => panic!("refused, not {other:?}"),
    };
    assert_eq!(refused(&Chunk { id: SnapshotId(3), ..right.clone() }, 100, 600), "snapshot id of a chunk");
    assert_eq!(refused(&Chunk { length_bytes: 999, ..right.clone() }, 100, 600), "snapshot length of a chunk");
    assert_eq!(refused(&right, 150, 600), "offset of a chunk", "one that came before");
    assert_eq!(refused(&right, 50, 600), "offset of a chunk", "one that leaves a gap");
    assert_eq!(refused(&right, 100, 149), "length of a chunk beside what was asked for");
}

proptest::proptest! {
    #[test]
    fn whatever_bytes_come_are_read_or_refused_and_read_back_the_same(bytes in proptest::collection::vec(0u8.., 0..100)) {
        if let Ok(fetch) = Fetch::decode(&bytes) {
            proptest::prop_assert_eq!(&fetch.encode()[..], &bytes[..]);
        }
        if let Ok(chunk) = Chunk::decode(Bytes::copy_from_slice(&bytes)) {
            let header = Chunk::encode_header(chunk.id, chunk.length_bytes, chunk.offset, chunk.outcome);
            proptest::prop_assert_eq!([&header[..], &chunk.bytes].concat(), bytes);
        }
    }
}
