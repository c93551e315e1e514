use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use quorate_framework::{Encoded, FrameClass, Lane, TicketSequence};

fn frame(to: &[u32], number: u64) -> PeerFrame {
    PeerFrame {
        to: to.iter().copied().map(ReplicaId).collect(),
        lane: Lane::Acknowledgement,
        class: FrameClass::Promise,
        encoded: Encoded { head: Bytes::copy_from_slice(&number.to_le_bytes()), body: Vec::new() },
    }
}

fn tickets(count: usize) -> Vec<Ticket> {
    let mut sequence = TicketSequence::default();
    std::iter::once(Ticket::RECOVERED).chain((0..count).map(|_| sequence.next_ticket())).collect()
}

#[test]
fn a_promise_leaves_only_once_its_ticket_is_durable() {
    let tickets = tickets(2);
    let mut gate = PromiseGate::default();
    let mut frames = Vec::new();
    assert_eq!(gate.offer(tickets[0], frame(&[2], 0)), Some(frame(&[2], 0)), "recovered means durable");
    assert_eq!(gate.offer(tickets[2], frame(&[2], 1)), None);
    gate.persisted(tickets[1], &mut frames);
    assert_eq!((frames.as_slice(), gate.waiting()), (&[][..], 1));
    gate.persisted(tickets[2], &mut frames);
    assert_eq!((frames, gate.waiting(), gate.held_bytes), (vec![frame(&[2], 1)], 0, 0));
}

#[test]
fn a_waiting_promise_does_not_block_a_later_one_with_a_lower_ticket() {
    let tickets = tickets(3);
    let mut gate = PromiseGate::default();
    let mut frames = Vec::new();
    assert_eq!(gate.offer(tickets[3], frame(&[2], 1)), None);
    assert_eq!(gate.offer(tickets[1], frame(&[2], 2)), None);
    gate.persisted(tickets[2], &mut frames);
    assert_eq!(frames, [frame(&[2], 2)]);
}

#[test]
fn a_promise_that_waits_is_lost_for_a_peer_whose_link_goes_down_and_for_no_other() {
    let tickets = tickets(1);
    let mut gate = PromiseGate::default();
    let mut frames = Vec::new();
    gate.offer(tickets[1], frame(&[2, 3], 1));
    gate.offer(tickets[1], frame(&[2], 2));
    gate.peer_down(ReplicaId(2));
    gate.persisted(tickets[1], &mut frames);
    assert_eq!((frames, gate.held_bytes), (vec![frame(&[3], 1)], 0));
}

#[test]
fn a_promise_above_the_bound_is_dropped_and_counted() {
    let tickets = tickets(1);
    let mut gate = PromiseGate::default();
    for number in 0..=PROMISES_HELD as u64 {
        assert_eq!(gate.offer(tickets[1], frame(&[2], number)), None);
    }
    assert_eq!((gate.waiting(), gate.dropped()), (PROMISES_HELD, 1));
}

#[derive(Clone, Debug)]
enum Act {
    Offer { after: usize, to: u32 },
    Persist(usize),
    Down(u32),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0usize..20, 2u32..5).prop_map(|(after, to)| Act::Offer { after, to }),
        2 => (0usize..20).prop_map(Act::Persist),
        1 => (2u32..5).prop_map(Act::Down),
    ]
}

proptest! {
    #[test]
    fn the_gate_does_what_a_plain_list_does(acts in proptest::collection::vec(act(), 0..80)) {
        let tickets = tickets(20);
        let mut gate = PromiseGate::default();
        let mut model: Vec<(usize, u32, u64)> = Vec::new();
        let mut durable = 0;
        for (number, act) in acts.into_iter().enumerate() {
            let number = number as u64;
            match act {
                Act::Offer { after, to } => {
                    let passed = gate.offer(tickets[after], frame(&[to], number));
                    prop_assert_eq!(passed, (after <= durable).then(|| frame(&[to], number)));
                    if after > durable {
                        model.push((after, to, number));
                    }
                }
                Act::Persist(ticket) => {
                    durable = durable.max(ticket);
                    let mut frames = Vec::new();
                    gate.persisted(tickets[ticket], &mut frames);
                    let due: Vec<PeerFrame> = model
                        .iter()
                        .filter(|(after, ..)| *after <= durable)
                        .map(|(_, to, number)| frame(&[*to], *number))
                        .collect();
                    prop_assert_eq!(frames, due);
                    model.retain(|(after, ..)| *after > durable);
                }
                Act::Down(peer) => {
                    gate.peer_down(ReplicaId(peer));
                    model.retain(|(_, to, _)| *to != peer);
                }
            }
            prop_assert_eq!((gate.waiting(), gate.held_bytes), (model.len(), model.len() * 8));
        }
    }
}
