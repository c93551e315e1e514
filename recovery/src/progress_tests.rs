//! The waiters of the writer's progress. Not in `progress.rs`: the test of the hand-over compiles that file over shuttle's locks.

use crate::progress::{Persisted, Progress};
use quorate_framework::{Ticket, TicketSequence};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

type Failure = &'static str;

/// Notes its name when it is woken.
struct Note {
    name: usize,
    woken: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap().push(self.name);
    }
}

struct Bench {
    progress: Arc<Progress<Failure>>,
    tickets: Vec<Ticket>,
    woken: Arc<Mutex<Vec<usize>>>,
}

impl Bench {
    fn new(tickets: usize) -> Bench {
        let mut sequence = TicketSequence::default();
        let tickets = (0..tickets).map(|_| sequence.next_ticket()).collect();
        Bench { progress: Arc::new(Progress::new()), tickets, woken: Arc::default() }
    }

    fn waker(&self, name: usize) -> Waker {
        Waker::from(Arc::new(Note { name, woken: Arc::clone(&self.woken) }))
    }

    /// A future of the ticket at this place, polled once in vain by the waker of this name.
    fn waiting(&self, place: usize, name: usize) -> Persisted<Failure> {
        let mut future = self.progress.wait_for(self.tickets[place]);
        assert_eq!(self.poll(&mut future, name), Poll::Pending);
        future
    }

    fn poll(&self, future: &mut Persisted<Failure>, name: usize) -> Poll<Result<Ticket, Failure>> {
        Pin::new(future).poll(&mut Context::from_waker(&self.waker(name)))
    }

    fn woken(&self) -> Vec<usize> {
        std::mem::take(&mut *self.woken.lock().unwrap())
    }
}

#[test]
fn waiters_are_released_up_to_the_ticket_in_the_order_of_their_tickets() {
    let bench = Bench::new(5);
    let mut futures: Vec<_> = [3, 0, 4, 1, 2, 1].map(|place| bench.waiting(place, place)).into();
    bench.progress.reached(bench.tickets[2]);
    assert_eq!(bench.woken(), [0, 1, 1, 2]);
    assert_eq!(bench.progress.waiting(), 2);
    let third = bench.tickets[2];
    let polled: Vec<_> = futures.iter_mut().map(|future| bench.poll(future, 9)).collect();
    let ready = Poll::Ready(Ok(third));
    assert_eq!(polled, [Poll::Pending, ready, Poll::Pending, ready, ready, ready]);
    bench.progress.reached(bench.tickets[4]);
    assert_eq!(bench.woken(), [9, 9], "by the waker of their last poll");
}

#[test]
fn an_earlier_ticket_reached_late_takes_nothing_back() {
    let bench = Bench::new(3);
    let mut later = bench.waiting(2, 2);
    bench.progress.reached(bench.tickets[1]);
    bench.progress.reached(bench.tickets[0]);
    assert_eq!(bench.progress.durable(), bench.tickets[1]);
    assert_eq!((bench.poll(&mut later, 2), bench.woken()), (Poll::Pending, vec![]));
}

#[test]
fn a_future_polled_again_is_woken_once_and_by_its_last_waker() {
    let bench = Bench::new(1);
    let mut future = bench.waiting(0, 1);
    assert_eq!(bench.poll(&mut future, 2), Poll::Pending);
    assert_eq!(bench.poll(&mut future, 2), Poll::Pending);
    assert_eq!(bench.progress.waiting(), 1);
    bench.progress.reached(bench.tickets[0]);
    assert_eq!(bench.woken(), [2]);
}

#[test]
fn two_futures_of_one_task_and_one_ticket_are_both_released() {
    let bench = Bench::new(1);
    let (first, second) = (bench.waiting(0, 1), bench.waiting(0, 1));
    drop(first);
    bench.progress.reached(bench.tickets[0]);
    assert_eq!(bench.woken(), [1], "the other one still waited");
    drop(second);
}

#[test]
fn a_future_that_is_dropped_is_forgotten() {
    let bench = Bench::new(2);
    let (kept, given_up) = (bench.waiting(0, 0), bench.waiting(1, 1));
    drop(given_up);
    assert_eq!(bench.progress.waiting(), 1);
    bench.progress.reached(bench.tickets[1]);
    assert_eq!((bench.woken(), bench.progress.waiting()), (vec![0], 0));
    drop(kept);
}

#[test]
fn a_failure_releases_all_and_what_was_durable_stays_so() {
    let bench = Bench::new(3);
    bench.progress.reached(bench.tickets[0]);
    let mut futures = [bench.waiting(2, 2), bench.waiting(1, 1)];
    bench.progress.fail("the disk failed");
    bench.progress.fail("and again");
    assert_eq!((bench.woken(), bench.progress.waiting()), (vec![1, 2], 0));
    let failed = Poll::Ready(Err("the disk failed"));
    assert_eq!(futures.each_mut().map(|future| bench.poll(future, 9)), [failed, failed]);
    assert_eq!(bench.poll(&mut bench.progress.wait_for(bench.tickets[0]), 9), Poll::Ready(Ok(bench.tickets[0])));
}

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls that many futures, one a ticket, twice each, and then lets the tickets become durable one by one.
fn time_of(waiters: usize) -> Duration {
    let bench = Bench::new(waiters);
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    let started = Instant::now();
    let mut futures: Vec<_> = bench.tickets.iter().map(|ticket| bench.progress.wait_for(*ticket)).collect();
    for _ in 0..2 {
        for future in &mut futures {
            assert!(Pin::new(future).poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    bench.tickets.iter().for_each(|ticket| bench.progress.reached(*ticket));
    drop(futures);
    assert_eq!((count.0.load(Ordering::Relaxed), bench.progress.waiting()), (waiters, 0));
    started.elapsed()
}

#[test]
fn a_hundred_times_the_waiters_cost_nothing_like_ten_thousand_times_the_time() {
    time_of(1_000);
    // The best of several: the machine may be busy with something else.
    let best = |waiters, runs| (0..runs).map(|_| time_of(waiters)).min().unwrap();
    let (few, many) = (best(500, 9), best(50_000, 3));
    assert!(many < few * 1_500, "500 waiters took {few:?}, 50,000 took {many:?}");
}
