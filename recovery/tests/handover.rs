//! The hand-over between threads, under every schedule that shuttle tries. The queue and the waiters are the shipped files, compiled
//! here over shuttle's locks.
#![allow(clippy::unwrap_used, dead_code, unreachable_pub)]

#[path = "../src/inbox.rs"]
mod inbox;
#[path = "../src/progress.rs"]
mod progress;

mod sync {
    pub(crate) use shuttle::sync::{Condvar, Mutex};
}

use inbox::{Inbox, InboxBounds, Patience, Refused, Taken};
use progress::Progress;
use quorate_framework::{Ticket, TicketSequence};
use shuttle::sync::Mutex;
use shuttle::{future, thread};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

const ITERATIONS: usize = 1_500;
const BOUNDS: InboxBounds = InboxBounds { items: 100, bytes: 1_000 };

fn tickets(count: usize) -> Vec<Ticket> {
    let mut sequence = TicketSequence::default();
    (0..count).map(|_| sequence.next_ticket()).collect()
}

/// What the disk of these tests knows.
#[derive(Default)]
struct Medium {
    written: Vec<Ticket>,
    synced: Vec<Ticket>,
}

/// The writer's loop, as `writer_loop.rs` has it, over a medium whose sync covers what was written when it began.
fn write_all(
    inbox: &Inbox<Ticket>,
    progress: &Arc<Progress<&'static str>>,
    medium: &Mutex<Medium>,
    fail_at: Option<usize>,
) {
    let mut items = Vec::new();
    let mut syncs = 0;
    loop {
        match inbox.take(&mut items, Patience::Unlimited) {
            Taken::Items => {}
            Taken::Closed => return,
            Taken::Nothing => panic!("it waits without limit"),
        }
        let last = *items.last().unwrap();
        let count = items.len() as u64;
        medium.lock().unwrap().written.append(&mut items);
        let began = medium.lock().unwrap().written.clone();
        thread::yield_now();
        syncs += 1;
        if fail_at == Some(syncs) {
            inbox.close(true);
            progress.fail("the disk failed");
            return;
        }
        medium.lock().unwrap().synced = began;
        inbox.done(count);
        progress.reached(last);
    }
}

fn run(fail_at: Option<usize>) {
    let inbox = Arc::new(Inbox::new(BOUNDS));
    let progress = Arc::new(Progress::new());
    let medium = Arc::new(Mutex::new(Medium::default()));
    let writer = {
        let (inbox, progress, medium) = (Arc::clone(&inbox), Arc::clone(&progress), Arc::clone(&medium));
        thread::spawn(move || write_all(&inbox, &progress, &medium, fail_at))
    };
    let list = tickets(4);
    let mut waiters = Vec::new();
    for pair in list.chunks(2) {
        let pushed = inbox.push(&mut pair.to_vec(), 2);
        assert!(pushed.is_ok() || (fail_at.is_some() && pushed == Err(Refused::Closed)));
        for ticket in pair {
            let (waiting, medium, ticket) = (progress.wait_for(*ticket), Arc::clone(&medium), *ticket);
            waiters.push(thread::spawn(move || {
                let result = future::block_on(waiting);
                let is_synced = medium.lock().unwrap().synced.contains(&ticket);
                match result {
                    Ok(durable) => assert!(durable >= ticket && is_synced, "{ticket} was released before its sync"),
                    Err(reason) => assert_eq!(reason, "the disk failed"),
                }
                result.is_ok()
            }));
        }
    }
    let released = waiters.into_iter().map(|waiter| waiter.join().unwrap()).filter(|is_ok| *is_ok).count();
    assert!(fail_at.is_some() || released == 4);
    inbox.close(false);
    writer.join().unwrap();
    assert!(fail_at.is_some() || inbox.pending_bytes() == 0);
}

#[test]
fn no_wake_up_is_lost_and_nobody_is_released_before_the_sync_that_covers_him() {
    shuttle::check_random(|| run(None), ITERATIONS);
    shuttle::check_pct(|| run(None), ITERATIONS, 3);
}

#[test]
fn a_failure_releases_every_waiter() {
    shuttle::check_random(|| run(Some(1)), ITERATIONS);
    shuttle::check_random(|| run(Some(2)), ITERATIONS);
}

/// Waits for a ticket and gives up after one poll, while another thread lets it become durable.
fn give_up(progress: &Arc<Progress<&'static str>>, ticket: Ticket) {
    let mut waiting = Some(progress.wait_for(ticket));
    future::block_on(std::future::poll_fn(|context| {
        let Some(mut future) = waiting.take() else { return Poll::Ready(()) };
        let _ = Pin::new(&mut future).poll(context);
        drop(future);
        context.waker().wake_by_ref();
        Poll::Pending
    }));
}

#[test]
fn whoever_gives_up_is_forgotten_and_takes_no_wake_up_of_another() {
    shuttle::check_random(
        || {
            let progress = Arc::new(Progress::new());
            let list = tickets(2);
            let impatient: Vec<_> = list
                .iter()
                .map(|ticket| {
                    let (progress, ticket) = (Arc::clone(&progress), *ticket);
                    thread::spawn(move || give_up(&progress, ticket))
                })
                .collect();
            let (waiting, second) = (progress.wait_for(list[1]), list[1]);
            let patient = thread::spawn(move || assert_eq!(future::block_on(waiting), Ok(second)));
            list.iter().for_each(|ticket| progress.reached(*ticket));
            impatient.into_iter().for_each(|thread| thread.join().unwrap());
            patient.join().unwrap();
            assert_eq!(progress.waiting(), 0);
        },
        ITERATIONS,
    );
}

#[test]
fn what_was_queued_before_a_close_is_taken_and_what_comes_after_is_refused() {
    shuttle::check_random(
        || {
            let inbox = Arc::new(Inbox::new(BOUNDS));
            let pusher = {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || (0..3u32).filter(|number| inbox.push(&mut vec![*number], 1).is_ok()).count())
            };
            let closer = {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || inbox.close(false))
            };
            let (mut taken, mut items) = (0, Vec::new());
            while inbox.take(&mut items, Patience::Unlimited) == Taken::Items {
                taken += items.len();
                items.clear();
            }
            closer.join().unwrap();
            assert_eq!(pusher.join().unwrap(), taken);
        },
        ITERATIONS,
    );
}

#[test]
fn the_bounds_hold_and_a_single_heavy_push_passes_alone() {
    shuttle::check_random(
        || {
            let inbox = Inbox::new(InboxBounds { items: 3, bytes: 10 });
            assert_eq!(inbox.push(&mut vec![1, 2], 500), Ok(()), "nothing else is pending");
            assert_eq!(inbox.push(&mut vec![3], 1), Err(Refused::Full), "too many bytes");
            inbox.done(500);
            assert_eq!(inbox.push(&mut vec![3], 10), Ok(()));
            assert_eq!(inbox.push(&mut vec![4], 0), Err(Refused::Full), "too many items");
            let mut items = Vec::new();
            assert_eq!(inbox.take(&mut items, Patience::Now), Taken::Items);
            assert_eq!((items, inbox.pending_bytes()), (vec![1, 2, 3], 10));
            assert_eq!(inbox.take(&mut Vec::new(), Patience::Now), Taken::Nothing);
        },
        10,
    );
}
