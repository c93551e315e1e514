//! The simulated world: the shipped core, forming machine, driver, codec and executor under seeds.
//!
//! A seed fixes everything: the plan of faults ([`plan::Plan`]), every delay, every loss, every clock. Time is virtual, so hours pass in
//! seconds. A run has a stormy phase, in which the plan's faults strike, and a healed phase, in which the cluster must make progress
//! within a bound if a majority of bound incarnations lives. Oracles ([`oracle`]) watch all the time.
//!
//! Not deterministic would be: hash order, the real clock, threads, real randomness. None is used; a test runs stormy seeds twice and
//! compares the event logs byte by byte.

pub mod client;
pub mod command;
pub mod coverage;
pub mod disk;
pub mod event;
pub mod network;
pub mod oracle;
pub mod plan;
pub mod process;
pub mod protocol;
pub mod random;
pub mod run;
pub mod shrink;
pub mod world;

pub use coverage::Coverage;
pub use plan::{CrashMode, Plan};
pub use run::{Report, run, run_seed};
