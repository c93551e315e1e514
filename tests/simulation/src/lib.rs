//! The simulated world: the shipped core, forming machine, driver, codec, executor, write-ahead log, recovery and snapshots under seeds.
//!
//! A seed fixes everything: the plan of faults ([`plan::Plan`]), every delay, every loss, every clock. Time is virtual, so hours pass in
//! seconds. A run has a stormy phase, in which the plan's faults strike, and a healed phase, in which the cluster must make progress
//! within a bound if a majority of bound incarnations lives. Oracles ([`oracle`]) watch all the time.
//!
//! With recovery on, each replica has a simulated disk ([`quorate_simulated_disk`]), and its log is the shipped pump, driven step by step
//! ([`wal`]): a crash may fall between any two steps, and inside each of them before any operation of the disk. Every start goes through
//! the shipped recovery, and what it finds is compared with what was handed over and reported ([`model`]). What is done about
//! snapshots is decided by the shipped coordinator and done by the shipped writer, steps on files and reader ([`snapshots`]).
//!
//! Not deterministic would be: hash order, the real clock, threads, real randomness. None is used; a test runs stormy seeds twice and
//! compares the event logs byte by byte.

pub mod client;
pub mod clock;
pub mod command;
pub mod coverage;
pub mod event;
pub mod fault;
pub mod model;
pub mod network;
pub mod oracle;
pub mod plan;
pub mod process;
pub mod protocol;
pub mod raft_contents;
pub mod random;
pub mod rot;
pub mod run;
pub mod shrink;
pub mod snapshots;
pub mod wal;
pub mod world;
pub mod written_out;

pub use coverage::Coverage;
pub use plan::{CrashMode, Plan};
pub use run::{Report, run, run_seed};
