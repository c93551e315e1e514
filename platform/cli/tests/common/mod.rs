//! What the tests of the command share: running it, and clusters of real processes that are always cleaned up.

#![allow(dead_code)] // Each test file uses its part.
#![allow(clippy::unwrap_used)] // A part of tests and of nothing else.

use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The whole of a command's end.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The command, without anything of the test's own environment that would change it.
pub(crate) fn quorate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.env_remove("RUST_LOG").env_remove("RUST_BACKTRACE").stdin(Stdio::null());
    command
}

/// Runs the command to its end.
pub(crate) fn run(arguments: &[&str]) -> Ran {
    ran(quorate().args(arguments).output().unwrap())
}

pub(crate) fn ran(output: Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

/// A folder whose name has a space and a letter beyond ASCII, as folders do.
pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new().prefix("quorate tést ").tempdir().unwrap()
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Writes a template that runs in memory.
pub(crate) fn template(folder: &Path) -> PathBuf {
    let path = folder.join("memory.config");
    fs::write(&path, r#"{ "recovery_enabled": false }"#).unwrap();
    path
}

/// Blocks of ports, each in a room of its own for all three kinds, below those that systems hand out by themselves.
const PORT_BLOCKS: u32 = 186;

/// The first port of a block that no other test of this process has been given, spread over the blocks by process.
fn next_base_port() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let block = (std::process::id() * 7 + NEXT.fetch_add(1, Ordering::Relaxed)) % PORT_BLOCKS;
    20_000 + block / 62 * 3_000 + block % 62 * 16
}

/// Makes a cluster file of replicas in memory, on ports that are free now, and gives its path.
pub(crate) fn cluster_file(folder: &Path, replicas: usize) -> PathBuf {
    cluster_file_from(&template(folder), folder, replicas)
}

/// Makes a cluster file of durable replicas with these settings, on ports that are free now, and gives its path.
pub(crate) fn durable_cluster_file(folder: &Path, replicas: usize, settings: &Value) -> PathBuf {
    let template = folder.join("durable.config");
    fs::write(&template, settings.to_string()).unwrap();
    cluster_file_from(&template, folder, replicas)
}

fn cluster_file_from(template: &Path, folder: &Path, replicas: usize) -> PathBuf {
    let out = folder.join("cluster.json");
    let replicas = replicas.to_string();
    for _ in 0..20 {
        let base = next_base_port().to_string();
        let mut make = quorate();
        make.args(["config", "new", "--replicas", &replicas, "--base-port", &base, "--force"]);
        let made = ran(make.arg("--template").arg(template).arg("--out").arg(&out).output().unwrap());
        if made.code == 0 {
            return out;
        }
        assert!(made.err.contains("cannot be used on 127.0.0.1"), "{}", made.err);
    }
    panic!("twenty blocks of ports are all in use");
}

/// A process that ends with the test, whatever happens.
pub(crate) struct Process {
    child: Child,
    pub(crate) log: PathBuf,
}

impl Process {
    pub(crate) fn serve(config: &Path, id: u64, log: PathBuf) -> Process {
        Process::serve_with(config, id, &[], log)
    }

    pub(crate) fn serve_with(config: &Path, id: u64, more: &[&str], log: PathBuf) -> Process {
        let child = quorate()
            .args(["serve", "--config", text(config), "--id", &id.to_string()])
            .args(more)
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Process { child, log }
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the process still runs:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Replicas that run.
pub(crate) struct Cluster {
    pub(crate) replicas: Vec<Process>,
    pub(crate) config: PathBuf,
    pub(crate) folder: TempDir,
}

impl Cluster {
    /// Starts replicas that are ready. Another process may take a port between the look for free ones and the start; then it is
    /// tried again with others.
    pub(crate) fn start(count: usize) -> Cluster {
        for _ in 0..5 {
            let mut cluster = Cluster::spawn(count);
            let waited = cluster.wait(20);
            let port_taken = cluster
                .replicas
                .iter_mut()
                .any(|replica| replica.has_ended() && replica.log().contains("cannot be used on 127.0.0.1"));
            if port_taken {
                continue;
            }
            assert_eq!(waited.code, 0, "{}{}", waited.err, cluster.replicas[0].log());
            assert!(waited.out.starts_with("ready: "), "{}", waited.out);
            return cluster;
        }
        panic!("no free ports five times in a row");
    }

    fn spawn(count: usize) -> Cluster {
        let folder = folder();
        let config = cluster_file(folder.path(), count);
        let serve = |id: u64| Process::serve(&config, id, folder.path().join(format!("{id}.log")));
        let replicas = (1..=count as u64).map(serve).collect();
        Cluster { replicas, config, folder }
    }

    pub(crate) fn wait(&self, limit_s: u64) -> Ran {
        run(&["cluster", "wait", "--config", text(&self.config), "--timeout-s", &limit_s.to_string()])
    }

    /// The object of `cluster status`, and its exit code.
    pub(crate) fn status(&self) -> (i32, Value) {
        let shown = run(&["cluster", "status", "--config", text(&self.config), "--output", "json"]);
        (shown.code, serde_json::from_str(&shown.out).unwrap())
    }

    /// Asks for the status until it is as wanted.
    pub(crate) fn status_until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let (_, status) = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < deadline, "not in time: {what}: {status:#}");
        }
    }
}
