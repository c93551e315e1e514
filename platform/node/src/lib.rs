//! A Quorate replica put together: the driver's turn, its async shell, threads, status.
//!
//! [`driver`] is the synchronous heart of a replica, which the node and the simulator both run.

pub mod driver;
