//! Where the hand-over between threads takes its locks from: the standard library here; the test of the hand-over compiles the same
//! files over shuttle's.

pub(crate) use std::sync::{Condvar, Mutex};
