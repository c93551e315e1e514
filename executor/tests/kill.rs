//! A process that executes is killed at any moment, again and again: position, data and sessions are found together.
#![allow(missing_docs)]

mod support;

use quorate_executor::lsm::{LsmOptions, LsmStore};
use quorate_executor::{KeyValue, KvExecutor, ReplicatedLimits};
use quorate_framework::Position;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::workload::append_and_count;
use support::{Replica, open, range};

const DIRECTORY: &str = "QUORATE_KILL_TEST_DIRECTORY";
const ROUNDS: u64 = 12;

fn options() -> LsmOptions {
    LsmOptions { cache_bytes: 1 << 20, memory_table_bytes: 64 << 10, journal_bytes: 64 << 20, ..LsmOptions::default() }
}

fn opened(directory: &Path) -> KvExecutor<LsmStore> {
    LsmStore::open(directory, 1, options(), Position::ZERO).expect("it opens after a kill").0
}

/// What stands at a position: first a session is opened, then each frame appends its number and counts.
fn frame(position: u64) -> bytes::Bytes {
    if position == 1 { open(5, false) } else { append_and_count(1, position - 1) }
}

/// Executes until it is killed, and says how far it is.
#[test]
#[ignore = "the child process of the test below"]
fn execute_until_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let mut replica = Replica::over(opened(&directory));
    let mut output = std::io::stdout().lock();
    loop {
        let first = replica.next();
        let frames: Vec<_> = (first..=first + first % 5).map(frame).collect();
        replica.execute_range(range(first, &frames));
        // Some states are checkpointed, and most are not.
        if first.is_multiple_of(4) {
            let checkpoint = replica.executor.persist().expect("written out");
            writeln!(output, "checkpointed {checkpoint}").expect("the parent listens");
        }
        writeln!(output, "executed {}", replica.executor.executed()).expect("the parent listens");
        output.flush().expect("the parent listens");
    }
}

#[test]
fn after_kill_9_position_data_and_sessions_are_those_of_one_moment() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    drop(LsmStore::create(directory.path(), 1, options(), ReplicatedLimits::default()).expect("a fresh generation"));
    // Beside it a replica in memory executes every frame exactly once.
    let mut plain = Replica::new();
    for round in 1..=ROUNDS {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "execute_until_killed", "--ignored", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a child process");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let wanted = plain.executor.executed().0 + 100 * round;
        let (mut said, mut checkpoint) = (0, 0);
        for line in lines {
            let line = line.expect("readable");
            if let Some(position) = line.strip_prefix("checkpointed ") {
                checkpoint = position.parse().expect("a position");
            }
            if let Some(position) = line.strip_prefix("executed ") {
                said = position.parse().expect("a position");
                if said >= wanted {
                    break;
                }
            }
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
        assert!(said >= wanted, "the child executed until it was killed, it said {said} of {wanted}");

        let mut found = Replica::over(opened(directory.path()));
        let position = found.executor.executed().0;
        assert!(
            checkpoint > 0 && position >= checkpoint,
            "what it had checkpointed is there: {checkpoint}, {position}"
        );
        let first = plain.next();
        plain.execute_range(range(first, &(first..=position).map(frame).collect::<Vec<_>>()));
        let count = found.executor.store().get(b"count").expect("read").expect("counted").to_vec();
        assert_eq!(count, (position - 1).to_string().into_bytes(), "each frame counted once");
        assert_eq!(found.digest(), plain.digest(), "round {round}, position {position}");
    }
    // The last frame again is answered from the session table, and not applied again.
    let mut found = Replica::over(opened(directory.path()));
    let last = frame(found.executor.executed().0);
    let count = found.executor.store().get(b"count").expect("read").map(|value| value.to_vec());
    assert_eq!(found.execute(last.clone()), plain.execute(last));
    assert_eq!(found.executor.store().get(b"count").expect("read").map(|value| value.to_vec()), count);
}
