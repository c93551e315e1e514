//! The native client of Quorate: sessions, redirects, deadlines, retries, pipelining.
//!
//! A request is executed exactly once or its outcome is said to be unknown. It gets a sequence of a session that was opened through
//! the replicated log; every further attempt repeats the same bytes with the same sequence, so the cluster recognises it. Nothing is
//! ever repeated outside its session. [`Outcome`] keeps *done*, *certainly not done* and *unknown* apart:
//!
//! | what happened | outcome |
//! | --- | --- |
//! | an answer of the session | `Done` (or `NotDone(Invalid)`) |
//! | the deadline passed, and every attempt was refused by its replica, or none was made | `NotDone` |
//! | the deadline passed, and an attempt was lost with its connection, ran out of time, or was answered `Unknown` | `Unknown` |
//! | the cluster no longer knows the session | `Expired` |
//!
//! A refusal (`NotLeader`, `Busy`) speaks of its own attempt only: a request of which an earlier attempt may have been proposed stays
//! unknown until an answer of its session settles it.
//!
//! [`SessionClient`] is made for load: it runs in the task that calls it, submits by the thousand and coalesces what one turn has
//! gathered. [`Client`] is the simple one for everybody else.

mod backoff;
mod client;
mod deadlines;
mod engine;
mod in_flight_limit;
mod options;
mod outcome;
mod request;
mod search;
mod session;
mod session_client;

pub use client::Client;
pub use options::{ClientOptions, OptionsError, Pauses, ReplicaEndpoint};
pub use outcome::{ClientCounters, ClientEvent, Done, Ended, NotDone, Outcome};
pub use session_client::{ConnectError, FRAME_BYTES_MAX, SessionClient, SubmitError};
