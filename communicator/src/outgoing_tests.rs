use super::*;
use crate::bounds::{LaneBound, PEER_LANES};
use crate::frame::verify;
use proptest::prelude::*;

fn message(lane: Lane, head: &[u8], body: Vec<Bytes>) -> Message {
    Message::new(lane, FrameKind::Message, Encoded { head: Bytes::copy_from_slice(head), body }).expect("within limits")
}

fn unbounded() -> OutgoingLanes {
    OutgoingLanes::new([LaneBound { messages: usize::MAX, bytes: usize::MAX }; 5])
}

/// Takes at most `limit` bytes a write, then blocks when `total` is reached.
fn taking(output: &mut Vec<u8>, limit: usize, total: usize) -> impl FnMut(&[IoSlice<'_>]) -> io::Result<usize> {
    move |slices| {
        if output.len() >= total {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let before = output.len();
        let room = limit.min(total - before);
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        output.extend_from_slice(&all[..room.min(all.len())]);
        Ok(output.len() - before)
    }
}

/// The frames of a stream: header and content.
fn frames(mut bytes: &[u8]) -> Vec<(FrameHeader, Vec<u8>)> {
    let mut list = Vec::new();
    while let Some((header_bytes, rest)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() {
        let header = FrameHeader::decode(header_bytes).expect("a frame starts where one ended");
        let (content, rest) = rest.split_at(header.head_length + header.body_length);
        let covered = if header.kind.covers_body() { content } else { &content[..header.head_length] };
        verify(header_bytes, [covered]).expect("checksum");
        list.push((header, content.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "the stream ends with a whole frame");
    list
}

#[test]
fn a_broadcast_body_is_never_copied() {
    let body = Bytes::from(vec![9u8; 5_000]);
    let message = message(Lane::Replication, b"append", vec![body.clone()]);
    for _follower in 0..3 {
        let mut lanes = unbounded();
        lanes.push(message.clone()).expect("no bound");
        let mut seen = Vec::new();
        let flushed = lanes.flush(|slices| {
            seen.extend(slices.iter().map(|slice| (slice.as_ptr() as usize, slice.len())));
            Ok(slices.iter().map(|slice| slice.len()).sum())
        });
        assert_eq!(flushed.expect("taken").writes, 1);
        assert_eq!(seen.len(), 3, "header, head and body");
        assert_eq!(seen[2], (body.as_ptr() as usize, body.len()), "the sender's own memory is what is written");
    }
}

#[test]
fn many_frames_leave_in_one_write_in_the_order_of_their_lanes() {
    let mut lanes = unbounded();
    for lane in Lane::ALL.into_iter().rev() {
        lanes.push(message(lane, b"first", vec![])).expect("no bound");
        lanes.push(message(lane, b"second", vec![])).expect("no bound");
    }
    let mut output = Vec::new();
    let flushed = lanes.flush(taking(&mut output, usize::MAX, usize::MAX)).expect("taken");
    assert_eq!((flushed.writes, flushed.frames, flushed.blocked), (1, [2; 5], false));
    assert_eq!(flushed.bytes, output.len() as u64);
    let order: Vec<(Lane, Vec<u8>)> =
        frames(&output).into_iter().map(|(header, content)| (header.lane, content)).collect();
    let wanted = Lane::ALL.into_iter().flat_map(|lane| [(lane, b"first".to_vec()), (lane, b"second".to_vec())]);
    assert_eq!(order, wanted.collect::<Vec<_>>());
    assert!(lanes.is_empty());
    assert_eq!(lanes.waiting(), (0, 0));
}

#[test]
fn a_control_frame_passes_between_the_parts_of_a_long_message() {
    let body = Bytes::from(vec![4u8; 8 << 20]);
    let mut lanes = unbounded();
    lanes.push(message(Lane::Replication, b"append", vec![body.clone()])).expect("no bound");
    lanes.push(message(Lane::Replication, b"next", vec![])).expect("no bound");
    let mut output = Vec::new();
    // The connection takes a part and a half, then a vote is due.
    let flushed = lanes.flush(taking(&mut output, usize::MAX, 3 << 19)).expect("taken");
    assert!(flushed.blocked);
    lanes.push(message(Lane::Control, b"vote", vec![])).expect("no bound");
    lanes.flush(taking(&mut output, usize::MAX, usize::MAX)).expect("taken");
    let list = frames(&output);
    let lanes_seen: Vec<Lane> = list.iter().map(|(header, _)| header.lane).collect();
    assert_eq!(lanes_seen[..4], [Lane::Replication, Lane::Replication, Lane::Control, Lane::Replication]);
    assert_eq!(list.len(), 9 + 2, "nine parts, the vote and the next message");
    let body_of_parts: usize =
        list.iter().filter(|(header, _)| header.is_part()).map(|(header, _)| header.body_length).sum();
    assert_eq!(body_of_parts, body.len());
    assert_eq!(list.last().map(|(_, content)| &content[..]), Some(&b"next"[..]), "order within the lane stays");
}

#[test]
fn a_lane_is_bounded_in_messages_and_in_bytes_and_one_larger_message_passes_alone() {
    let mut bounds = PEER_LANES;
    bounds[0] = LaneBound { messages: 2, bytes: 1_000 };
    let mut lanes = OutgoingLanes::new(bounds);
    let of = |length| message(Lane::Control, &vec![1; length], vec![]);
    lanes.push(of(2_000)).expect("alone");
    let full = OutgoingFull { lane: Lane::Control, messages: 1, bytes: 2_020 };
    assert_eq!(lanes.push(of(1)), Err(full));
    lanes.push(message(Lane::Client, b"x", vec![])).expect("another lane has room");
    lanes.flush(taking(&mut Vec::new(), usize::MAX, usize::MAX)).expect("taken");
    lanes.push(of(1)).expect("room again");
    lanes.push(of(1)).expect("two");
    assert_eq!(lanes.push(of(1)), Err(OutgoingFull { lane: Lane::Control, messages: 2, bytes: 42 }));
}

#[test]
fn small_frames_share_one_slice_and_its_memory_is_used_again() {
    let mut lanes = unbounded();
    let mut place = None;
    for round in 0..3 {
        for number in 0..100u8 {
            lanes.push_small(Lane::Client, FrameKind::Reply, &[&[number], b"-reply"]).expect("no bound");
        }
        let mut output = Vec::new();
        let flushed = lanes.flush(|slices| {
            assert_eq!(slices.len(), 1);
            let before = place.replace(slices[0].as_ptr() as usize);
            assert!(round < 2 || before == place, "the block's memory is used again");
            output.extend_from_slice(&slices[0]);
            Ok(slices[0].len())
        });
        assert_eq!(flushed.expect("taken").frames, [0, 0, 0, 100, 0]);
        let list = frames(&output);
        assert_eq!(list.len(), 100);
        assert_eq!(list[7].1, b"\x07-reply");
    }
}

#[test]
fn what_no_receiver_accepts_is_refused_at_once() {
    let refused = |head: usize, body: usize| {
        let encoded = Encoded { head: Bytes::from(vec![0; head]), body: vec![Bytes::from(vec![0; body])] };
        Message::new(Lane::Control, FrameKind::Message, encoded).is_err()
    };
    assert!(refused(0, 0) && refused(MESSAGE_HEAD_BYTES + 1, 0) && refused(1, crate::frame::MESSAGE_BODY_BYTES + 1));
    assert!(!refused(MESSAGE_HEAD_BYTES, 0) && !refused(0, 1));
}

#[test]
fn a_failed_write_is_reported() {
    let mut lanes = unbounded();
    lanes.push(message(Lane::Control, b"x", vec![])).expect("no bound");
    let failed = lanes.flush(|_| Err(io::ErrorKind::BrokenPipe.into()));
    assert_eq!(failed.expect_err("broken").kind(), io::ErrorKind::BrokenPipe);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn writes_of_any_size_make_the_same_frames(
        list in prop::collection::vec((0usize..5, 0usize..40, prop::collection::vec(0usize..3_000, 0..4), any::<bool>()), 1..30),
        limits in prop::collection::vec(1usize..4_000, 1..8),
    ) {
        let mut lanes = unbounded();
        let mut wanted: [Vec<Vec<u8>>; 5] = Default::default();
        for (number, (lane, head, chunks, small)) in list.into_iter().enumerate() {
            let head = vec![number as u8; head + 1];
            if small {
                lanes.push_small(Lane::Client, FrameKind::Reply, &[&head]).expect("no bound");
                wanted[Lane::Client as usize].push(head);
            } else {
                let chunks: Vec<Bytes> = chunks.into_iter().map(|length| Bytes::from(vec![number as u8; length])).collect();
                wanted[lane].push([head.clone(), chunks.concat()].concat());
                lanes.push(message(Lane::ALL[lane], &head, chunks)).expect("no bound");
            }
        }
        let (mut output, mut round) = (Vec::new(), 0);
        while !lanes.is_empty() {
            let limit = limits[round % limits.len()];
            let total = output.len() + 3 * limit;
            lanes.flush(taking(&mut output, limit, total)).expect("taken");
            round += 1;
        }
        let mut seen: [Vec<Vec<u8>>; 5] = Default::default();
        frames(&output).into_iter().for_each(|(header, content)| seen[header.lane as usize].push(content));
        prop_assert_eq!(seen, wanted);
        prop_assert_eq!(lanes.waiting(), (0, 0));
    }
}
