use super::*;
use crate::bounds::LaneBound;
use crate::outgoing::{Message, OutgoingLanes};
use proptest::prelude::*;
use quorate_framework::Encoded;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::ReadBuf;

/// Gives its bytes in pieces of the sizes given, over and over.
struct Chopped {
    bytes: Vec<u8>,
    offset: usize,
    sizes: Vec<usize>,
    reads: usize,
}

impl AsyncRead for Chopped {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let size = self.sizes[self.reads % self.sizes.len()];
        let end = self.bytes.len().min(self.offset + size.min(room.remaining()));
        room.put_slice(&self.bytes[self.offset..end]);
        (self.offset, self.reads) = (end, self.reads + 1);
        Poll::Ready(Ok(()))
    }
}

fn message(lane: Lane, kind: FrameKind, head: &[u8], body: &Bytes) -> Message {
    let encoded = Encoded { head: Bytes::copy_from_slice(head), body: vec![body.clone()] };
    Message::new(lane, kind, encoded).expect("a message within limits")
}

fn bytes_of(messages: impl IntoIterator<Item = Message>) -> Vec<u8> {
    let mut lanes = OutgoingLanes::new([LaneBound { messages: usize::MAX, bytes: usize::MAX }; 5]);
    messages.into_iter().for_each(|message| lanes.push(message).expect("no bound"));
    let mut bytes = Vec::new();
    lanes
        .flush(|slices| {
            slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
            Ok(slices.iter().map(|slice| slice.len()).sum())
        })
        .expect("a vector takes everything");
    bytes
}

/// Everything a reader gives for these bytes, chopped in this way.
fn read_all(reader: &mut FrameReader, bytes: Vec<u8>, sizes: Vec<usize>) -> Result<Vec<Received>, WireError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let mut source = Chopped { bytes, offset: 0, sizes, reads: 0 };
    let mut output = Vec::new();
    loop {
        while let Some(message) = reader.next_message()? {
            output.push(message);
        }
        if runtime.block_on(reader.fill(&mut source)).expect("memory does not fail") == Fill::Closed {
            return Ok(output);
        }
    }
}

fn peer_reader() -> FrameReader {
    FrameReader::new(Expected::Peer)
}

#[test]
fn messages_read_back_when_they_come_one_byte_at_a_time() {
    let small = Bytes::from(vec![3; 700]);
    let large = Bytes::from((0..300_000u32).map(|number| number as u8).collect::<Vec<_>>());
    let sent = [
        message(Lane::Control, FrameKind::Promise, b"vote", &Bytes::new()),
        message(Lane::Replication, FrameKind::Message, b"append", &small),
        message(Lane::Replication, FrameKind::Message, b"", &large),
    ];
    let mut reader = peer_reader();
    let read = read_all(&mut reader, bytes_of(sent), vec![1]).expect("what was sent is understood");
    let bodies: Vec<&Bytes> = read.iter().map(|message| &message.body).collect();
    assert_eq!(bodies, [&Bytes::new(), &small, &large]);
    let heads: Vec<&[u8]> = read.iter().map(|message| &message.head[..]).collect();
    assert_eq!(heads, [&b"vote"[..], b"append", b""]);
    assert_eq!(read[0].kind, FrameKind::Promise);
    assert!(reader.is_between_messages());
}

#[test]
fn a_body_between_replicas_pins_exactly_its_own_length() {
    for length in [1, 200, limits::SHARED_PAYLOAD_BYTES - 1, limits::SHARED_PAYLOAD_BYTES, 90_000, 3 << 20] {
        let body = Bytes::from(vec![7; length]);
        let bytes = bytes_of([message(Lane::Replication, FrameKind::Message, b"head", &body)]);
        for sizes in [vec![usize::MAX], vec![1_000]] {
            let mut reader = peer_reader();
            let read = read_all(&mut reader, bytes.clone(), sizes).expect("understood").remove(0).body;
            assert_eq!(read, body);
            // The reader and its buffer are still alive: nobody else holds the body's memory, and it is no larger than the body.
            let alone = read.try_into_mut().expect("the body shares memory with nobody");
            assert_eq!(alone.capacity(), length);
        }
    }
}

#[test]
fn a_small_request_is_a_slice_of_the_read_buffer_and_a_large_one_is_not() {
    let request = |length| message(Lane::Client, FrameKind::Request, b"", &Bytes::from(vec![1; length]));
    let (small, large) = (limits::SHARED_PAYLOAD_BYTES - 1, limits::SHARED_PAYLOAD_BYTES);
    let mut reader = FrameReader::new(Expected::Requests);
    let bytes = bytes_of([request(small), request(small), request(large)]);
    let mut read = read_all(&mut reader, bytes, vec![usize::MAX]).expect("understood").into_iter();
    let bodies = [(); 3].map(|()| read.next().expect("three requests").body);
    let [first, second, third] = bodies;
    let distance = second.as_ptr() as usize - first.as_ptr() as usize;
    assert_eq!(distance, small + FRAME_HEADER_BYTES, "neighbours in one buffer");
    assert!(first.try_into_mut().is_err(), "shared with its buffer");
    assert_eq!(third.try_into_mut().expect("shared with nobody").capacity(), large);
}

#[test]
fn the_read_buffer_is_used_again_once_nobody_holds_a_slice_of_it() {
    let bytes = bytes_of((0..40).map(|_| message(Lane::Client, FrameKind::Request, b"", &Bytes::from(vec![1; 3_000]))));
    let mut reader = FrameReader::new(Expected::Requests);
    read_all(&mut reader, bytes.clone(), vec![usize::MAX]).expect("understood");
    reader.make_room();
    let place = reader.buffer.as_ptr();
    for _ in 0..10 {
        read_all(&mut reader, bytes.clone(), vec![10_000]).expect("understood");
    }
    reader.make_room();
    assert_eq!((reader.buffer.as_ptr(), reader.buffer.capacity()), (place, limits::READ_BUFFER_BYTES));
}

#[test]
fn a_message_of_the_wrong_kind_for_its_connection_is_refused() {
    let bytes = bytes_of([message(Lane::Client, FrameKind::Request, b"", &Bytes::from_static(b"x"))]);
    let what = "frame class on this connection";
    for expected in [Expected::Handshake, Expected::Peer, Expected::Replies] {
        let read = read_all(&mut FrameReader::new(expected), bytes.clone(), vec![9]);
        assert_eq!(read, Err(WireError::Meaningless { what, value: FrameKind::Request as u64 }), "{expected:?}");
    }
}

#[test]
fn every_flipped_bit_of_header_head_and_request_is_noticed() {
    let peers = bytes_of([message(Lane::Control, FrameKind::Message, b"head", &Bytes::new())]);
    let request = bytes_of([message(Lane::Client, FrameKind::Request, b"", &Bytes::from_static(b"request"))]);
    for (expected, bytes) in [(Expected::Peer, peers), (Expected::Requests, request)] {
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let read = read_all(&mut FrameReader::new(expected), damaged, vec![usize::MAX]);
            // A larger length may leave the reader waiting for more; what it never does is give a message.
            assert!(read.is_err() || read == Ok(Vec::new()), "{expected:?}, bit {bit}");
        }
    }
}

#[test]
fn the_last_part_of_a_request_in_parts_is_checked_too() {
    let mut bytes = bytes_of([message(Lane::Client, FrameKind::Request, b"", &Bytes::from(vec![5; 2 << 20]))]);
    let last = bytes.len() - 1;
    assert_eq!(
        read_all(&mut FrameReader::new(Expected::Requests), bytes.clone(), vec![100_000]).map(|read| read.len()),
        Ok(1)
    );
    bytes[last] ^= 1;
    let read = read_all(&mut FrameReader::new(Expected::Requests), bytes, vec![100_000]);
    assert_eq!(read, Err(WireError::Checksum { what: "frame" }));
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let part = |more, continued, body_length, total_length| {
        let header = FrameHeader {
            lane: Lane::Replication,
            kind: FrameKind::Message,
            more,
            continued,
            head_length: 0,
            body_length,
            total_length,
        };
        [&header.encode([])[..], &vec![0; body_length]].concat()
    };
    let whole = part(false, false, 10, 10);
    for (claim, bytes) in [
        ("a continuation of nothing", part(true, true, 10, 100)),
        ("a whole message between parts", [part(true, false, 10, 100), whole].concat()),
        ("a second first part", [part(true, false, 10, 100), part(true, false, 10, 100)].concat()),
        ("another total", [part(true, false, 10, 100), part(true, true, 10, 90)].concat()),
        ("more than the total", [part(true, false, 60, 100), part(true, true, 60, 100)].concat()),
        ("less than the total", [part(true, false, 10, 100), part(false, true, 10, 100)].concat()),
    ] {
        assert!(read_all(&mut peer_reader(), bytes, vec![7]).is_err(), "{claim}");
    }
    let right = [part(true, false, 40, 100), part(true, true, 40, 100), part(false, true, 20, 100)].concat();
    assert_eq!(read_all(&mut peer_reader(), right, vec![7]).map(|read| read[0].body.len()), Ok(100));
}

#[test]
fn memory_of_unfinished_requests_comes_from_the_budget_and_goes_back() {
    let budget = Budget::new(3 << 20);
    let bytes = bytes_of([message(Lane::Client, FrameKind::Request, b"", &Bytes::from(vec![5; 2 << 20]))]);
    let half = bytes[..bytes.len() / 2].to_vec();
    let reader = || {
        let mut reader = FrameReader::new(Expected::Requests);
        reader.limit_by(Arc::clone(&budget));
        reader
    };
    let mut first = reader();
    assert_eq!(read_all(&mut first, half.clone(), vec![60_000]), Ok(Vec::new()));
    assert_eq!((budget.used(), first.unfinished()), (2 << 20, Some(Lane::Client)));
    assert!(matches!(read_all(&mut reader(), half, vec![60_000]), Err(WireError::TooLarge { .. })));
    drop(first);
    assert_eq!(read_all(&mut reader(), bytes, vec![60_000]).map(|read| read.len()), Ok(1));
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_hostile_header_takes_no_memory() {
    let budget = Budget::new(1 << 30);
    let mut refused = 0;
    for offset in [0, 4, 8] {
        for value in [u32::MAX, i32::MIN as u32, 0, 64 << 20] {
            let header = message(Lane::Client, FrameKind::Request, b"", &Bytes::from(vec![5; 300_000]));
            let mut bytes = bytes_of([header])[..FRAME_HEADER_BYTES].to_vec();
            bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
            let mut reader = FrameReader::new(Expected::Requests);
            reader.limit_by(Arc::clone(&budget));
            refused += usize::from(read_all(&mut reader, bytes, vec![usize::MAX]).is_err());
            assert!(budget.used() <= 300_000, "a length was believed: {} bytes", budget.used());
        }
    }
    assert_eq!(refused, 11, "all but the head length of zero, which is right");
}

fn any_message() -> impl Strategy<Value = (usize, usize, Vec<u8>, usize)> {
    let body = prop_oneof![8 => 0usize..10_000, 3 => 60_000usize..140_000, 1 => 1_000_000usize..2_200_000];
    (0usize..5, 0usize..3, prop::collection::vec(any::<u8>(), 1..300), body)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn messages_read_back_however_they_are_chopped(
        list in prop::collection::vec(any_message(), 1..12),
        sizes in prop::collection::vec(prop_oneof![1usize..40, 1_000usize..300_000], 1..6),
    ) {
        let kinds = [FrameKind::Message, FrameKind::Promise, FrameKind::Forming];
        let sent: Vec<Received> = list.into_iter().map(|(lane, kind, head, length)| {
            let body = Bytes::from((0..length).map(|place| (place * 31 + length) as u8).collect::<Vec<_>>());
            Received { lane: Lane::ALL[lane], kind: kinds[kind], head: Bytes::from(head), body }
        }).collect();
        // Sizes of a few bytes with megabytes to read take too long to be worth it.
        let total: usize = sent.iter().map(|message| message.body.len()).sum();
        let sizes: Vec<usize> = sizes.into_iter().map(|size| size.max(total / 20_000)).collect();
        let bytes = bytes_of(sent.iter().map(|sent| message(sent.lane, sent.kind, &sent.head, &sent.body)));
        let read = read_all(&mut peer_reader(), bytes, sizes).expect("what was sent is understood");
        for lane in Lane::ALL {
            let of_lane = |list: &[Received]| list.iter().filter(|message| message.lane == lane).cloned().collect::<Vec<_>>();
            prop_assert_eq!(of_lane(&read), of_lane(&sent));
        }
        prop_assert_eq!(read.len(), sent.len());
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..3_000),
        sizes in prop::collection::vec(1usize..500, 1..4),
        expected in prop_oneof![Just(Expected::Peer), Just(Expected::Requests), Just(Expected::Replies), Just(Expected::Handshake)],
    ) {
        let _ = read_all(&mut FrameReader::new(expected), bytes, sizes);
    }

    #[test]
    fn damaged_frames_never_panic(
        flips in prop::collection::vec((0usize..600, any::<u8>()), 1..6),
        sizes in prop::collection::vec(1usize..500, 1..4),
    ) {
        let body = Bytes::from(vec![1; 200]);
        let mut bytes = bytes_of((0..3).map(|_| message(Lane::Replication, FrameKind::Message, b"head", &body)));
        for (place, value) in flips {
            if let Some(byte) = bytes.get_mut(place) {
                *byte = value;
            }
        }
        let _ = read_all(&mut peer_reader(), bytes, sizes);
    }
}

/// Gives all the room that is asked for, or one byte, or lets wait once, as its steps say.
struct Steps(std::vec::IntoIter<Step>);

enum Step {
    Full,
    OneByte,
    Wait,
}

impl AsyncRead for Steps {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.0.next() {
            Some(Step::Full) => {
                let all = room.remaining();
                room.initialize_unfilled().fill(0);
                room.advance(all);
            }
            Some(Step::OneByte) => room.put_slice(&[0]),
            Some(Step::Wait) => {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            None => return Poll::Ready(Ok(())),
        }
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_read_that_waits_has_asked_the_kernel_only_if_the_one_before_filled_its_room() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let mut reader = peer_reader();
    let steps =
        vec![Step::Wait, Step::OneByte, Step::Wait, Step::Wait, Step::Full, Step::Wait, Step::Wait, Step::OneByte];
    let mut source = Steps(steps.into_iter());
    let mut empty = Vec::new();
    for _ in 0..4 {
        runtime.block_on(reader.fill(&mut source)).expect("no error");
        empty.push(reader.take_empty_reads());
    }
    assert_eq!(
        empty,
        [0, 0, 1, 1],
        "the first waits ask nobody, the first after the full read does, and the end is a read"
    );
}
