//! Drives a client with what a performance manager wants executed.

use quorate_client::{ClientCounters, ClientEvent, Ended, Outcome, SessionClient};
use quorate_executor::CommandResults;
use quorate_framework::{LoadBatch, PerformanceManager, Status};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Batches submitted between two writes at most, so that the first ones are on their way while the next are made.
const BATCHES_PER_TURN: usize = 64;
/// A client that has nothing in flight and takes nothing for so long has lost its sessions for good: the run ends.
const STUCK_LIMIT: Duration = Duration::from_secs(10);

/// What became of batches that were not answered `Ok`, and who leads.
pub trait Watcher {
    /// A replica has proven to lead.
    fn leads(&mut self, replica: u32);

    /// What the client has counted by the end of a turn.
    fn counted(&mut self, counters: ClientCounters);

    /// A batch ended in another way than `Ok`.
    fn failed(&mut self, outcome: Failure);
}

/// How a batch failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// Certainly not executed.
    #[error("not done: {0}")]
    NotDone(String),
    /// It may have been executed.
    #[error("outcome unknown at the deadline")]
    Unknown,
    /// Its session was gone.
    #[error("the session was no longer known")]
    Expired,
    /// A command in it was answered with this status.
    #[error("answered {0:?}")]
    Command(Status),
    /// Its answer could not be read.
    #[error("unreadable answer: {0}")]
    Unreadable(String),
}

/// Runs until the manager has no more batches and all that were sent have ended.
pub async fn drive(client: &mut SessionClient, manager: &mut impl PerformanceManager, watcher: &mut impl Watcher) {
    let (mut events, mut batches) = (Vec::new(), Vec::new());
    let mut generating = true;
    let mut stuck_since = None;
    loop {
        let mut submitted = 0;
        while generating && submitted < BATCHES_PER_TURN && client.capacity() > 0 {
            let most = client.capacity().min(BATCHES_PER_TURN - submitted);
            match now_or_later(manager.next_batches(most, &mut batches)).await {
                Poll::Ready(true) => submitted += submit(client, manager, watcher, &mut batches),
                Poll::Ready(false) => generating = false,
                Poll::Pending => break,
            }
        }
        if client.in_flight() == 0 {
            if !generating {
                return;
            }
            if client.capacity() == 0 && stuck_since.get_or_insert_with(Instant::now).elapsed() > STUCK_LIMIT {
                watcher.failed(Failure::NotDone(format!("no replica has opened a session for {STUCK_LIMIT:?}")));
                return;
            }
        } else {
            stuck_since = None;
        }
        if submitted == BATCHES_PER_TURN {
            // More may be wanted at once: only write and look.
            let _ = now_or_later(client.turn(&mut events)).await;
        } else {
            let may_send = generating && client.capacity() > 0;
            tokio::select! {
                biased;
                () = client.turn(&mut events) => {}
                () = tokio::time::sleep(STUCK_LIMIT / 10), if stuck_since.is_some() => {}
                goes_on = manager.next_batches(1, &mut batches), if may_send => {
                    generating = goes_on;
                    submit(client, manager, watcher, &mut batches);
                }
            }
        }
        // A batch is in flight until its slot is given back, which is now: an answer that waited for its turn here waited.
        let now = Instant::now();
        for event in events.drain(..) {
            handle(event, now, manager, watcher);
        }
        watcher.counted(client.counters());
    }
}

/// Submits all of `batches` and gives how many they were.
fn submit(
    client: &mut SessionClient,
    manager: &mut impl PerformanceManager,
    watcher: &mut impl Watcher,
    batches: &mut Vec<LoadBatch>,
) -> usize {
    let (count, now) = (batches.len(), Instant::now());
    for batch in batches.drain(..) {
        if let Err(error) = client.submit_at(now, batch.number, batch.count, &batch.body) {
            watcher.failed(Failure::NotDone(error.to_string()));
            manager.on_lost(batch.number);
        }
    }
    count
}

fn handle(event: ClientEvent, now: Instant, manager: &mut impl PerformanceManager, watcher: &mut impl Watcher) {
    match event {
        ClientEvent::Leader(replica) => watcher.leads(replica.0),
        ClientEvent::Refused { number, hint, .. } => manager.on_redirect(number, hint),
        ClientEvent::Ended(Ended { number, outcome, submitted_at, .. }) => {
            let latency = now.saturating_duration_since(submitted_at);
            let failure = match outcome {
                Outcome::Done(done) => match check_answer(done.status, done.count, &done.body) {
                    Ok(()) => return manager.on_reply(number, Status::Ok, latency),
                    Err(failure) => failure,
                },
                Outcome::NotDone(reason) => Failure::NotDone(reason.to_string()),
                Outcome::Unknown => Failure::Unknown,
                Outcome::Expired => Failure::Expired,
            };
            if let Failure::Command(status) = failure {
                manager.on_reply(number, status, latency);
            } else {
                manager.on_lost(number);
            }
            watcher.failed(failure);
        }
    }
}

/// Whether every command of an answer was executed: each has a result, and none but a get of a missing key is anything but `Ok`.
///
/// # Errors
/// The first thing that is otherwise.
pub fn check_answer(status: Status, count: u32, body: &[u8]) -> Result<(), Failure> {
    if status != Status::Ok {
        return Err(Failure::Command(status));
    }
    // The answer to puts alone: one zero byte each.
    if body.len() == count as usize && body.iter().all(|byte| *byte == Status::Ok as u8) {
        return Ok(());
    }
    for result in CommandResults::new(body, count) {
        match result {
            Ok(result) if matches!(result.status, Status::Ok | Status::NotFound) => {}
            Ok(result) => return Err(Failure::Command(result.status)),
            Err(error) => return Err(Failure::Unreadable(error.to_string())),
        }
    }
    Ok(())
}

/// Polls a future once; it must not lose anything by being dropped.
async fn now_or_later<T>(future: impl Future<Output = T>) -> Poll<T> {
    let mut future = pin!(future);
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_executor::CommandResult;

    fn check(results: &[CommandResult<'_>], count: u32) -> Result<(), Failure> {
        let mut body = Vec::new();
        results.iter().for_each(|result| result.encode(&mut body));
        check_answer(Status::Ok, count, &body)
    }

    #[test]
    fn an_answer_counts_only_if_every_command_has_a_good_result() {
        let ok = CommandResult::plain(Status::Ok);
        let missing = CommandResult::plain(Status::NotFound);
        assert_eq!(check(&[ok; 3], 3), Ok(()));
        assert_eq!(check(&[ok, CommandResult::bytes(b"v"), missing], 3), Ok(()));
        let conflict = CommandResult::plain(Status::Conflict);
        assert_eq!(check(&[ok, conflict, ok], 3), Err(Failure::Command(Status::Conflict)));
        assert!(matches!(check(&[ok; 2], 3), Err(Failure::Unreadable(_))), "a result is missing");
        assert!(matches!(check(&[ok; 4], 3), Err(Failure::Unreadable(_))), "a result too many");
        assert_eq!(check_answer(Status::Conflict, 1, &[0]), Err(Failure::Command(Status::Conflict)));
    }
}
