//! Data directories that real replicas have left behind, then damaged, robbed or configured otherwise: what `quorate serve` and
//! `quorate wal check` say of each, and with which exit code. Both say 1 of data that is damaged or lost, and 2 of a wrong input.

#![allow(clippy::unwrap_used)] // Helpers of tests are tests, too.

mod common;

use common::{Process, durable_cluster_file, folder, run, text};
use quorate_executor::snapshot::{SnapshotSummary, verify};
use quorate_framework::LOST_DATA;
use quorate_framework::vfs::Vfs;
use quorate_recovery::{DirectoryVfs, METADATA_FILE, Metadata};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SEGMENT: &str = "segment-0000000000000000.wal";
const LIMIT: Duration = Duration::from_secs(30);

/// What a replica has left that ran, took a checkpoint and was stopped.
struct Left {
    folder: TempDir,
    config: PathBuf,
    data: PathBuf,
}

/// What is done to a copy.
type Change<'a> = &'a dyn Fn(&Path);

/// What a command said of a directory.
struct Said {
    code: i32,
    last_line: String,
}

fn settings(store: &str) -> Value {
    json!({ "store": store, "checkpoint_transactions": 1, "wal_segment_bytes": 1 << 20 })
}

fn metadata(data: &Path) -> Metadata {
    Metadata::decode(&fs::read(data.join(METADATA_FILE)).unwrap()).unwrap()
}

impl Left {
    fn by(store: &str) -> Left {
        for _ in 0..5 {
            let folder = folder();
            let config = durable_cluster_file(folder.path(), 1, &settings(store));
            let made = run(&["init", "--bootstrap", "--config", text(&config), "--id", "1"]);
            assert_eq!(made.code, 0, "{}", made.err);
            let data = folder.path().join("quorate-data/replica-1");
            let mut replica = Process::serve(&config, 1, folder.path().join("log"));
            let waited = run(&["cluster", "wait", "--config", text(&config), "--timeout-s", "20"]);
            // Another process may take a port between the look for free ones and the start.
            if replica.has_ended() && replica.log().contains("cannot be used on 127.0.0.1") {
                continue;
            }
            assert_eq!(waited.code, 0, "{}{}", waited.err, replica.log());
            let end = Instant::now() + LIMIT;
            while metadata(&data).snapshot.is_none() {
                assert!(Instant::now() < end, "no checkpoint in time: {}", replica.log());
                std::thread::sleep(Duration::from_millis(5));
            }
            replica.signal("TERM");
            assert!(replica.wait(LIMIT).success(), "{}", replica.log());
            return Left { folder, config, data };
        }
        panic!("no free ports five times in a row");
    }

    /// A copy of the directory, changed.
    fn changed(&self, name: &str, change: impl FnOnce(&Path)) -> PathBuf {
        let copy = self.folder.path().join(name);
        copy_directory(&self.data, &copy);
        change(&copy);
        copy
    }

    fn serve(&self, data: &Path) -> Said {
        let log = self.folder.path().join("refusal");
        let mut refused = Process::serve_with(&self.config, 1, &["--data-dir", text(data)], log);
        let code = refused.wait(LIMIT).code().unwrap();
        Said { code, last_line: refused.log().lines().last().unwrap_or_default().to_owned() }
    }

    /// The cluster file says another store from now on.
    fn configure(&self, from: &str, to: &str) {
        let file = fs::read_to_string(&self.config).unwrap();
        let (from, to) = (format!("\"{from}\""), format!("\"{to}\""));
        assert_eq!(file.matches(&from).count(), 1, "{file}");
        fs::write(&self.config, file.replace(&from, &to)).unwrap();
    }

    fn snapshot(&self) -> (String, SnapshotSummary) {
        let position = metadata(&self.data).snapshot.unwrap().position;
        let name = format!("snapshot-{:016x}.dat", position.0);
        let vfs = DirectoryVfs::open_unlocked(&self.data).unwrap();
        let (header, summary) = verify(vfs.open(Path::new(&name)).unwrap()).unwrap();
        assert_eq!(header.base.position, position);
        (name, summary)
    }
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_directory(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn check(data: &Path) -> Said {
    let checked = run(&["wal", "check", text(data)]);
    Said { code: checked.code, last_line: checked.err.lines().last().unwrap_or_default().to_owned() }
}

fn flip(file: &Path, offset: u64) {
    let file = fs::File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
}

fn remove_segments(data: &Path) {
    for entry in fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|extension| extension == "wal") {
            fs::remove_file(entry).unwrap();
        }
    }
}

/// Both commands say the same, with this exit code.
fn both_say(left: &Left, data: &Path, code: i32, said: &str) {
    for (command, answer) in [("serve", left.serve(data)), ("wal check", check(data))] {
        assert_eq!(answer.code, code, "{command}: {}", answer.last_line);
        assert!(answer.last_line.contains(said), "{command}: {said}: {}", answer.last_line);
    }
}

#[test]
fn damaged_and_lost_data_end_a_start_and_a_check_with_1_and_a_wrong_input_with_2() {
    let left = Left::by("memory");
    let (snapshot, _) = left.snapshot();
    let kinds: [(&str, Change<'_>, String); 6] = [
        ("metadata", &|data| flip(&data.join(METADATA_FILE), 30), "metadata.dat is damaged (its CRC is wrong)".into()),
        (
            "without metadata",
            &|data| fs::remove_file(data.join(METADATA_FILE)).unwrap(),
            "metadata.dat is missing beside segment-".into(),
        ),
        ("without log", &remove_segments, "the log is missing: ".into()),
        ("rot", &|data| flip(&data.join(SEGMENT), 4_096 + 70), format!("{SEGMENT} at byte 4096: ")),
        ("snapshot", &|data| flip(&data.join(&snapshot), 40), "the snapshot is damaged at byte 0: ".into()),
        (
            "without snapshot",
            &|data| fs::remove_file(data.join(&snapshot)).unwrap(),
            format!("and neither {snapshot} nor store-0 is there"),
        ),
    ];
    for (name, change, said) in kinds {
        let damaged = left.changed(name, change);
        both_say(&left, &damaged, 1, &said);
        assert!(check(&damaged).last_line.ends_with(LOST_DATA), "{name}");
    }
    let empty = left.folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    both_say(&left, &empty, 2, "the data directory holds no replica");
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    let of_another = left.changed("of another cluster", |_| ());
    let other = folder();
    let config = durable_cluster_file(other.path(), 1, &settings("memory"));
    let refused = run(&["serve", "--config", text(&config), "--id", "1", "--data-dir", text(&of_another)]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("metadata.dat belongs to replica 1 of cluster "), "{}", refused.err);
}

#[test]
fn a_file_that_cannot_be_read_is_no_lost_data_and_both_commands_say_what_to_do() {
    let left = Left::by("memory");
    let (snapshot, _) = left.snapshot();
    let position = metadata(&left.data).snapshot.unwrap().position;
    let directory_instead = |file: PathBuf| {
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
    };
    let is_a_directory =
        "Is a directory (os error 21); something else stands where it belongs: put that right and try again";
    let kinds: [(&str, Change<'_>, String); 2] = [
        (
            "snapshot",
            &|data| directory_instead(data.join(&snapshot)),
            format!(
                "the snapshot at {position} that metadata.dat names cannot be read: opening the snapshot: {is_a_directory}"
            ),
        ),
        (
            "metadata",
            &|data| directory_instead(data.join(METADATA_FILE)),
            format!("metadata.dat: opening failed: {is_a_directory}"),
        ),
    ];
    for (name, change, said) in kinds {
        let unreadable = left.changed(name, change);
        both_say(&left, &unreadable, 1, &said);
        for answer in [left.serve(&unreadable), check(&unreadable)] {
            assert!(!answer.last_line.contains(LOST_DATA), "{}", answer.last_line);
        }
    }
}

#[test]
fn a_snapshot_of_another_version_asks_for_the_program_that_wrote_it_and_one_that_is_none_is_told_in_plain_words() {
    let left = Left::by("memory");
    let (snapshot, _) = left.snapshot();
    let of_another = left.changed("version", |data| flip(&data.join(&snapshot), 8));
    let said = "cannot be used: the snapshot is of format version 0, this program reads version 1; \
        use the version of this program that wrote it";
    both_say(&left, &of_another, 2, said);
    assert!(check(&of_another).last_line.ends_with(said), "nothing is lost");
    let none = left.changed("none", |data| flip(&data.join(&snapshot), 0));
    let said =
        "the snapshot is damaged at byte 0: snapshot cannot be decoded: it does not begin as every snapshot does";
    both_say(&left, &none, 1, said);
}

#[test]
fn a_segment_of_another_cluster_is_told_by_both_commands_with_what_to_do() {
    let (left, other) = (Left::by("memory"), Left::by("memory"));
    let foreign = left.changed("foreign", |data| {
        fs::copy(other.data.join(SEGMENT), data.join(SEGMENT)).unwrap();
    });
    both_say(&left, &foreign, 2, "; put each file back where it belongs, or name another directory");
}

#[test]
fn a_cluster_file_with_other_replicas_than_the_cluster_was_formed_with_is_refused_and_nothing_is_changed() {
    let left = Left::by("memory");
    let old = fs::read_to_string(&left.config).unwrap();
    let mut file: Value = serde_json::from_str(&old).unwrap();
    let mut second = file["replicas"][0].clone();
    second["id"] = 2.into();
    for port in ["port", "http_port", "resp_port"] {
        second[port] = (second[port].as_u64().unwrap() + 1).into();
    }
    file["replicas"].as_array_mut().unwrap().push(second);
    fs::write(&left.config, file.to_string()).unwrap();
    let copy = left.changed("copy", |_| ());
    let refused = left.serve(&copy);
    let said = format!(
        "error: data directory {}: the cluster was formed with replicas 1, and the cluster file lists 1, 2. Nothing was changed; put the \
         replicas back into the cluster file (their addresses may change; changing which replicas are members is not part of this version)",
        copy.display()
    );
    assert_eq!((refused.code, refused.last_line), (2, said));
    assert_eq!(metadata(&copy), metadata(&left.data), "not even the start was counted");
}

/// The log of another run on these data; none if somebody else has taken the ports meanwhile.
fn log_of_another_run(left: &Left) -> Option<String> {
    let mut replica = Process::serve(&left.config, 1, left.folder.path().join("second log"));
    let waited = run(&["cluster", "wait", "--config", text(&left.config), "--timeout-s", "20"]);
    if replica.has_ended() && replica.log().contains("cannot be used on 127.0.0.1") {
        return None;
    }
    assert_eq!(waited.code, 0, "{}{}", waited.err, replica.log());
    let end = Instant::now() + LIMIT;
    while !replica.log().contains(" leads") {
        assert!(Instant::now() < end, "nothing is told in time: {}", replica.log());
        std::thread::sleep(Duration::from_millis(5));
    }
    replica.signal("TERM");
    assert!(replica.wait(LIMIT).success(), "{}", replica.log());
    Some(replica.log())
}

#[test]
fn that_a_cluster_is_formed_is_told_as_news_by_the_run_in_which_it_was_and_as_earlier_by_the_next() {
    for _ in 0..5 {
        let left = Left::by("memory");
        let Some(second) = log_of_another_run(&left) else { continue };
        let first = fs::read_to_string(left.folder.path().join("log")).unwrap();
        let told = |log: &str| -> Vec<String> {
            let lines = log.lines().filter_map(|line| line.split_once("formed"));
            lines.map(|(_, rest)| format!("formed{rest}")).collect()
        };
        assert_eq!(told(&first), ["formed with replicas 1"], "{first}");
        assert_eq!(told(&second), ["formed earlier with replicas 1"], "{second}");
        return;
    }
    panic!("no free ports five times in a row");
}

#[test]
fn a_state_without_metadata_is_told_as_that_and_neither_served_nor_made_anew() {
    for store in ["memory", "lsm"] {
        let left = Left::by(store);
        // The stop may have come before an older snapshot was removed.
        let kept = if store == "memory" { "snapshot-0" } else { "store-0" };
        let robbed = left.changed("robbed", |data| {
            fs::remove_file(data.join(METADATA_FILE)).unwrap();
            remove_segments(data);
        });
        both_say(&left, &robbed, 1, &format!("metadata.dat is missing beside {kept}"));
        let (config, data) = (text(&left.config), text(&robbed));
        let made = run(&["init", "--bootstrap", "--config", config, "--id", "1", "--data-dir", data]);
        assert_eq!(made.code, 2, "{}", made.err);
        assert!(made.err.contains(&format!("robbed: {kept}")), "{}", made.err);
        assert!(made.err.contains(" is there already: this directory belongs to a replica"), "{}", made.err);
        assert!(!robbed.join(METADATA_FILE).exists());
    }
}

#[test]
fn a_check_reads_the_snapshot_that_the_metadata_name_and_changes_nothing() {
    let left = Left::by("memory");
    let (name, summary) = left.snapshot();
    let before = fs::read(left.data.join(&name)).unwrap();
    let checked = run(&["wal", "check", text(&left.data)]);
    assert_eq!((checked.code, checked.err.as_str()), (0, ""));
    let SnapshotSummary { position, entries, sessions, answers, file_bytes, .. } = summary;
    let end = format!(
        "state        {name}: {entries} entries, {sessions} sessions, {answers} answers, {file_bytes} bytes, whole\n\
         sound        yes: a start will accept this log and this snapshot\n"
    );
    assert!(checked.out.ends_with(&end), "{end}: {}", checked.out);
    let checked = run(&["wal", "check", text(&left.data), "--output", "json"]);
    let report: Value = serde_json::from_str(&checked.out).unwrap();
    let snapshot = json!({ "file": name, "position": position.0, "entries": entries, "sessions": sessions,
        "answers": answers, "bytes": file_bytes });
    assert_eq!(report["state"], json!({ "snapshot": snapshot, "store": null }));
    assert_eq!(fs::read(left.data.join(&name)).unwrap(), before);
    // The end section is the last to be read.
    let damaged = left.changed("damaged", |data| flip(&data.join(&name), file_bytes - 1));
    let checked = run(&["wal", "check", text(&damaged), "--output", "json"]);
    let report: Value = serde_json::from_str(&checked.out).unwrap();
    let place = (&report["sound"], &report["file"], &report["offset"]);
    assert_eq!((checked.code, place), (1, (&json!(false), &json!(name), &json!(file_bytes - 104))));
}

#[test]
fn a_check_says_which_generation_of_a_store_is_named_and_whether_it_is_there() {
    let left = Left::by("lsm");
    let checked = run(&["wal", "check", text(&left.data)]);
    assert_eq!((checked.code, checked.err.as_str()), (0, ""));
    let end = "state        store-0 is there with the files it needs; what they hold is not checked here\n\
        sound        yes: a start will accept this log; what the store's files hold was not checked\n";
    assert!(checked.out.ends_with(end), "{}", checked.out);
    let checked = run(&["wal", "check", text(&left.data), "--output", "json"]);
    let report: Value = serde_json::from_str(&checked.out).unwrap();
    let store = json!({ "directory": "store-0", "files_checked": false });
    assert_eq!(report["state"], json!({ "snapshot": null, "store": store }));
    let robbed = left.changed("robbed", |data| fs::remove_dir_all(data.join("store-0")).unwrap());
    both_say(&left, &robbed, 1, " nor store-0 is there; ");
    let in_its_place = left.changed("a file in its place", |data| {
        fs::remove_dir_all(data.join("store-0")).unwrap();
        fs::write(data.join("store-0"), "").unwrap();
    });
    both_say(&left, &in_its_place, 1, "; something else stands where it belongs: put that right and try again");
    assert!(!check(&in_its_place).last_line.contains(LOST_DATA));
    let kinds: [(&str, Change<'_>, &str); 4] = [
        ("without tree", &|data| fs::remove_dir_all(data.join("store-0/lsm")).unwrap(), "its files are missing"),
        (
            "without version",
            &|data| fs::remove_file(data.join("store-0/lsm/version")).unwrap(),
            "lsm/version is missing",
        ),
        (
            "without current",
            &|data| fs::remove_file(data.join("store-0/lsm/keyspaces/1/current")).unwrap(),
            "lsm/keyspaces/1/current is missing",
        ),
        (
            "condemned",
            &|data| fs::write(data.join("store-0/rebuild"), "a table is damaged").unwrap(),
            "a table is damaged",
        ),
    ];
    for (name, change, reason) in kinds {
        let damaged = left.changed(name, change);
        let said = format!(
            "the store's files are damaged: {reason}; metadata.dat names a checkpoint, which the log alone cannot replace; {LOST_DATA}"
        );
        both_say(&left, &damaged, 1, &said);
    }
}

#[test]
fn a_start_with_another_kind_of_store_names_the_one_that_kept_the_state_and_leaves_the_log_stopped_cleanly() {
    for (kept_by, other) in [("memory", "lsm"), ("lsm", "memory")] {
        let left = Left::by(kept_by);
        left.configure(kept_by, other);
        let copy = left.changed("copy", |_| ());
        let starts = metadata(&copy).start_counter;
        let refused = left.serve(&copy);
        assert_eq!(refused.code, 2, "{}", refused.last_line);
        let said = format!(
            "error: data directory {}: this directory's state was kept by `\"store\": \"{kept_by}\"`; put that back into the cluster file",
            copy.display()
        );
        assert_eq!(refused.last_line, said);
        let after = metadata(&copy);
        assert_eq!((after.stopped_cleanly, after.start_counter), (true, starts + 1));
        assert_eq!(check(&copy).code, 0, "nothing was lost");
    }
}
