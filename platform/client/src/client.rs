//! The simple client: any number of tasks share it, each waits for its own requests.

use crate::options::ClientOptions;
use crate::outcome::{ClientCounters, ClientEvent, Done, Ended, NotDone, Outcome};
use crate::session_client::{ConnectError, FRAME_BYTES_MAX, SessionClient};
use bytes::Bytes;
use parking_lot::Mutex;
use quorate_executor::{Command, CommandWriter};
use quorate_framework::request::REQUEST_HEADER_BYTES;
use quorate_framework::{ReplicaId, limits};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Requests of all tasks that wait to be put in flight, at most; further ones wait in their tasks.
const WAITING_REQUESTS: usize = 64;

struct Submission {
    count: u32,
    body: Vec<u8>,
    answer: oneshot::Sender<Outcome>,
}

#[derive(Debug, Default)]
struct Shown {
    counters: ClientCounters,
    leader: Option<ReplicaId>,
}

/// A client of a cluster; clones are the same client. It ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Client {
    submissions: mpsc::Sender<Submission>,
    shown: Arc<Mutex<Shown>>,
    request_deadline: Duration,
}

impl Client {
    /// Connects within `time_limit` and starts the client's task on the current runtime.
    ///
    /// # Errors
    /// [`ConnectError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn connect(options: ClientOptions, time_limit: Duration) -> Result<Client, ConnectError> {
        let request_deadline = options.request_deadline;
        let session_client = SessionClient::connect(options, time_limit).await?;
        let (submissions, waiting) = mpsc::channel(WAITING_REQUESTS);
        let shown = Arc::<Mutex<Shown>>::default();
        tokio::spawn(run(session_client, waiting, Arc::clone(&shown)));
        Ok(Client { submissions, shown, request_deadline })
    }

    /// Has one batch of commands executed: all in one frame, at one position, exactly once. Waits for a slot for at most the
    /// request's deadline, then for the outcome for at most twice as long. Dropping the future does not undo the request.
    pub async fn execute(&self, commands: &[Command<'_>]) -> Outcome {
        let mut body = Vec::with_capacity(commands.iter().map(Command::encoded_bytes).sum());
        let mut writer = CommandWriter::new(&mut body);
        commands.iter().for_each(|command| writer.push(*command));
        let count = writer.count();
        if commands.len() > limits::COMMANDS_PER_FRAME || REQUEST_HEADER_BYTES + body.len() > FRAME_BYTES_MAX {
            return Outcome::NotDone(NotDone::Invalid(format!(
                "{} commands in {} bytes do not fit one frame",
                commands.len(),
                body.len()
            )));
        }
        let (answer, outcome) = oneshot::channel();
        let submission = Submission { count, body, answer };
        match self.submissions.send_timeout(submission, self.request_deadline).await {
            Ok(()) => {}
            Err(SendTimeoutError::Closed(_)) => return Outcome::NotDone(NotDone::Closed),
            Err(SendTimeoutError::Timeout(_)) => return Outcome::NotDone(NotDone::NotTaken { last_refusal: None }),
        }
        // The task answers everything it has taken; if it is gone, or has not taken it yet, nobody knows.
        match timeout(2 * self.request_deadline, outcome).await {
            Ok(Ok(outcome)) => outcome,
            _ => Outcome::Unknown,
        }
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> ClientCounters {
        self.shown.lock().counters
    }

    /// The replica that has last proven to lead.
    #[must_use]
    pub fn leader(&self) -> Option<ReplicaId> {
        self.shown.lock().leader
    }
}

async fn run(mut client: SessionClient, mut waiting: mpsc::Receiver<Submission>, shown: Arc<Mutex<Shown>>) {
    let mut answers: HashMap<u64, oneshot::Sender<Outcome>> = HashMap::new();
    let mut events = Vec::new();
    let mut number = 0;
    let mut open = true;
    while open || !answers.is_empty() {
        tokio::select! {
            biased;
            () = client.turn(&mut events) => {}
            submission = waiting.recv(), if open && client.capacity() > 0 => match submission {
                None => open = false,
                Some(first) => {
                    let mut next = Some(first);
                    while let Some(submission) = next {
                        number += 1;
                        submit(&mut client, &mut answers, number, submission);
                        next = if client.capacity() > 0 { waiting.try_recv().ok() } else { None };
                    }
                }
            },
        }
        for event in events.drain(..) {
            if let ClientEvent::Ended(Ended { number, outcome, .. }) = event
                && let Some(answer) = answers.remove(&number)
            {
                // Nobody may be waiting any more.
                let _ = answer.send(detached(outcome));
            }
        }
        let mut shown = shown.lock();
        (shown.counters, shown.leader) = (client.counters(), client.leader());
    }
}

fn submit(
    client: &mut SessionClient,
    answers: &mut HashMap<u64, oneshot::Sender<Outcome>>,
    number: u64,
    Submission { count, body, answer }: Submission,
) {
    match client.submit(number, count, &body) {
        Ok(()) => {
            answers.insert(number, answer);
        }
        Err(error) => {
            let _ = answer.send(Outcome::NotDone(NotDone::Invalid(error.to_string())));
        }
    }
}

/// The outcome in memory of its own: a slice would pin its whole read buffer for as long as the user keeps it.
fn detached(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Done(done) => Outcome::Done(Done { body: Bytes::copy_from_slice(&done.body), ..done }),
        other => other,
    }
}
