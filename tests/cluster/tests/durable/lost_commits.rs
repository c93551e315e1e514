//! Committed entries that the cluster has lost, through a directory that was set back: whoever still holds their effects must not go on
//! beside the others as if nothing were.

use crate::durable;
use quorate_cluster_tests::Cluster;
use serde_json::json;
use std::fs;
use std::path::Path;

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A second of writes, one at a time.
fn write(cluster: &Cluster, down: &[&str]) {
    let arguments = ["--window", "1", "--batch", "1", "--duration", "1", "--warm-up", "0"];
    let expected = down.iter().flat_map(|id| ["--expect-down", id]);
    let (code, result) = cluster.load(&arguments.into_iter().chain(expected).collect::<Vec<_>>()).finish();
    assert!(code.is_some() && result["accepted"].as_u64().unwrap() > 0, "{result}");
}

fn lead(cluster: &Cluster, among: &[u32]) {
    cluster.wait_until("one of these leads", |cluster| {
        among.iter().any(|id| cluster.try_status(*id).is_some_and(|status| status["role"] == "leader"))
    });
}

#[test]
fn a_replica_whose_store_holds_commits_that_the_others_have_lost_halts_instead_of_going_on_beside_them() {
    let mut cluster = Cluster::start(3, &durable("lsm", &json!({})));
    write(&cluster, &[]);
    for id in 1..=3 {
        assert_eq!(cluster.terminate(id), Some(0));
    }
    let backup = cluster.path("backup");
    copy(&cluster.data(1), &backup);
    // What 1 and 2 acknowledge now is lost at 1 with its directory, and 3 never had it.
    (1..=2).for_each(|id| cluster.spawn(id));
    lead(&cluster, &[1, 2]);
    write(&cluster, &["3"]);
    // With a clean end all that 2 executed stands in its store, and no checkpoint names it.
    assert_eq!(cluster.terminate(2), Some(0));
    cluster.kill(1);
    fs::remove_dir_all(cluster.data(1)).unwrap();
    copy(&backup, &cluster.data(1));
    // Twice, for a term of their own: 1 has forgotten its vote too, and entries of two leaders of one term cannot be told apart.
    for again in [true, false] {
        [1, 3].iter().for_each(|id| cluster.spawn(*id));
        lead(&cluster, &[1, 3]);
        if again {
            cluster.kill_at_once(&[1, 3]);
        }
    }
    write(&cluster, &["2"]);
    cluster.spawn(2);
    assert_eq!(cluster.wait_for_end(2), Some(1));
    let log = cluster.log(2);
    assert!(log.contains("halted: safety: "), "{log}");
    write(&cluster, &["2"]);
    cluster.assert_equal_states(&[1, 3]);
}
