//! A full disk, on a small file system of its own.

use crate::durable;
use crate::workload::Workload;
use quorate_cluster_tests::{Cluster, Surroundings};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system, unmounted at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None, and a printed reason, where mounting is not permitted.
    fn mount(folder: &Path, mebibytes: u32) -> Option<SmallDisk> {
        fs::create_dir_all(folder).unwrap();
        let size = format!("size={mebibytes}m");
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder).output().ok()?;
        if output.status.success() {
            return Some(SmallDisk(folder.to_owned()));
        }
        eprintln!("skipped: a tmpfs cannot be mounted here: {}", String::from_utf8_lossy(&output.stderr).trim());
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

#[test]
fn a_replica_whose_disk_is_full_ends_with_a_clear_line_the_others_go_on_and_a_plain_restart_works() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = folder.path().join("small disk");
    let Some(_disk) = SmallDisk::mount(&mounted, 24) else { return };
    let data = mounted.join("data");
    let surroundings = Surroundings { data: [(3, data)].into(), ..Surroundings::default() };
    // No checkpoint frees anything: the log must run into the end of the disk.
    let settings = json!({ "wal_segment_bytes": 4 << 20, "recovery_ckpt_time_s": 3_600 });
    let mut cluster = Cluster::launch(3, &durable("memory", &settings), surroundings);
    cluster.wait_for_a_leader();
    let workload = Workload::start(&cluster, 8, 100_000);
    assert_eq!(cluster.wait_for_end(3), Some(1), "{}", cluster.log(3));
    let log = cluster.log(3);
    let last = log.lines().last().unwrap();
    assert!(last.starts_with("error: halted: storage failed: "), "{last}");
    assert!(
        last.contains("No space left on device") && last.contains("free space and start the replica again"),
        "{last}"
    );
    cluster.wait_until("the others go on", |cluster| cluster.try_status(1).is_some());
    workload.wait_for(10, &cluster);
    let bigger = Command::new("mount").args(["-o", "remount,size=512m"]).arg(&mounted).output().unwrap();
    assert!(bigger.status.success(), "{}", String::from_utf8_lossy(&bigger.stderr));
    cluster.spawn(3);
    cluster.wait_for_a_leader();
    workload.wait_for(10, &cluster);
    let (done, _) = workload.end_and_check();
    assert!(done > 20);
    cluster.assert_equal_states(&cluster.ids());
}
