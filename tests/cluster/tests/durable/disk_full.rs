//! A full disk, on small file systems of their own.

use crate::durable;
use crate::workload::Workload;
use quorate_cluster_tests::{Cluster, Surroundings};
use serde_json::json;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system, unmounted at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// One in memory. None, and a printed reason, where mounting is not permitted.
    fn in_memory(folder: &Path, mebibytes: u32) -> Option<SmallDisk> {
        let size = format!("size={mebibytes}m");
        SmallDisk::mount(folder, ["-t", "tmpfs", "-o", &size, "tmpfs"].map(OsStr::new))
    }

    /// An ext4 in the file `image`, through a loop device. None, and a printed reason, where that is not permitted.
    fn ext4(image: &Path, folder: &Path, mebibytes: u64) -> Option<SmallDisk> {
        File::create(image).unwrap().set_len(mebibytes << 20).unwrap();
        run("mkfs.ext4", &[OsStr::new("-q"), OsStr::new("-F"), image.as_os_str()])?;
        SmallDisk::mount(
            folder,
            [OsStr::new("-t"), OsStr::new("ext4"), OsStr::new("-o"), OsStr::new("loop"), image.as_os_str()],
        )
    }

    fn mount(folder: &Path, what: [&OsStr; 5]) -> Option<SmallDisk> {
        fs::create_dir_all(folder).unwrap();
        run("mount", &[&what[..], &[folder.as_os_str()]].concat())?;
        Some(SmallDisk(folder.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

/// None, and a printed reason, if it fails.
fn run(program: &str, arguments: &[&OsStr]) -> Option<()> {
    let reason = match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => return Some(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!("skipped: {program} is not possible here: {reason}");
    None
}

/// Replica 3 has its data on `mounted`, which fills up, through its log or its store; `free` makes room again.
fn ends_and_comes_back(store: &str, mounted: &Path, free: impl FnOnce()) {
    let surroundings = Surroundings { data: [(3, mounted.join("data"))].into(), ..Surroundings::default() };
    // No checkpoint frees anything: the log must run into the end of the disk.
    let settings = json!({ "wal_segment_bytes": 4 << 20, "recovery_ckpt_time_s": 3_600 });
    let mut cluster = Cluster::launch(3, &durable(store, &settings), surroundings);
    cluster.wait_for_a_leader();
    let workload = Workload::start(&cluster, 8, 100_000);
    assert_eq!(cluster.wait_for_end(3), Some(1), "{}", cluster.log(3));
    let log = cluster.log(3);
    let last = log.lines().last().unwrap();
    let failed = ["error: halted: storage failed: ", "error: halted: executor: the store failed: "];
    assert!(failed[..if store == "memory" { 1 } else { 2 }].iter().any(|words| last.starts_with(words)), "{last}");
    assert!(
        last.contains("No space left on device") && last.contains("free space and start the replica again"),
        "{last}"
    );
    cluster.wait_until("the others go on", |cluster| cluster.try_status(1).is_some());
    workload.wait_for(10, &cluster);
    free();
    cluster.spawn(3);
    cluster.wait_for_a_leader();
    workload.wait_for(10, &cluster);
    let (done, _) = workload.end_and_check();
    assert!(done > 20);
    cluster.assert_equal_states(&cluster.ids());
}

#[test]
fn a_replica_whose_disk_is_full_ends_with_a_clear_line_the_others_go_on_and_a_plain_restart_works() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = folder.path().join("small disk");
    let Some(_disk) = SmallDisk::in_memory(&mounted, 24) else { return };
    ends_and_comes_back("memory", &mounted, || {
        let bigger = Command::new("mount").args(["-o", "remount,size=512m"]).arg(&mounted).output().unwrap();
        assert!(bigger.status.success(), "{}", String::from_utf8_lossy(&bigger.stderr));
    });
}

#[test]
fn on_a_full_ext4_a_replica_ends_with_a_clear_line_and_a_plain_restart_works_once_a_file_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = folder.path().join("small disk");
    let Some(_disk) = SmallDisk::ext4(&folder.path().join("image"), &mounted, 256) else { return };
    let filler = mounted.join("filler");
    let allocated = Command::new("fallocate").args(["-l", "200MiB"]).arg(&filler).output().unwrap();
    assert!(allocated.status.success(), "{}", String::from_utf8_lossy(&allocated.stderr));
    ends_and_comes_back("memory", &mounted, || fs::remove_file(&filler).unwrap());
}

#[test]
fn a_replica_with_its_store_on_a_full_disk_ends_with_a_clear_line_too_whatever_met_the_end_of_the_disk() {
    for mebibytes in [24, 40, 64] {
        let folder = tempfile::tempdir().unwrap();
        let mounted = folder.path().join("small disk");
        let Some(_disk) = SmallDisk::in_memory(&mounted, mebibytes) else { return };
        ends_and_comes_back("lsm", &mounted, || {
            let bigger = Command::new("mount").args(["-o", "remount,size=512m"]).arg(&mounted).output().unwrap();
            assert!(bigger.status.success(), "{}", String::from_utf8_lossy(&bigger.stderr));
        });
    }
}
