//! What the load client itself costs. It is counted for the whole process, so this is the only test here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use quorate_performance::plan::{LoadInput, LoadPlan};
use quorate_performance::run::run;
use std::sync::Arc;
use support::{Behaviour, Replica};

#[test]
fn a_batch_takes_a_write_and_a_read_of_the_client_at_most_and_several_may_share_them() {
    let (replica, folder) = (Replica::start(Behaviour::default()), tempfile::tempdir().unwrap());
    let given = |text: &str| Some(text.to_owned());
    let input = LoadInput { duration: given("1"), warm_up: given("0.2"), ..LoadInput::default() };
    let plan = LoadPlan::new(replica.cluster(), &input, folder.path().to_owned()).unwrap();
    let result = run(&plan, &Arc::default(), Box::new(|_| {})).unwrap();
    let calls = result.client_socket_calls_per_1000_transactions.unwrap();
    // A hundred batches of ten, sixteen in flight: all sixteen together, or each by itself.
    let (least, most) = (100.0 / 16.0 * 2.0, 100.0 * 2.0);
    assert!(calls > least * 0.9 && calls < most * 1.1, "{calls}, not within {least} and {most}");
}
