//! Real replica processes for tests: started from a fresh cluster file on free ports, watched through `/status`, stopped by their own
//! process ids, always cleaned up.
//!
//! Everything here fails by panicking with what was seen: it is a test's own voice.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc)] // test support: a panic is the report

pub mod strace;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take before a test gives up on it. Generous: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The built binary; built on the first call with the settings of the running tests, unless `QUORATE_BINARY` names one.
#[must_use]
pub fn quorate_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(binary) = std::env::var_os("QUORATE_BINARY") {
            return PathBuf::from(binary);
        }
        let output = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--locked", "-p", "quorate", "--message-format", "json"])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let executable = messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
        executable.expect("cargo names the binary it built")
    })
}

/// Runs the binary to its end.
#[must_use]
pub fn quorate(arguments: &[&str]) -> Output {
    Command::new(quorate_binary()).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Clusters of one test process run one after the other: two cores carry one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// How the processes of a cluster are started, where it matters.
#[derive(Default)]
pub struct Surroundings {
    /// The limit of open files of each process, soft and hard.
    pub descriptors: Option<u64>,
    /// Members whose process is not started: the test plays them.
    pub absent: BTreeSet<u32>,
    /// Data directories that are not where they usually are.
    pub data: BTreeMap<u32, PathBuf>,
    /// Whether the calls of all processes are recorded, to [`Cluster::recording`]; then each is started once.
    pub recorded: bool,
}

/// A cluster of real processes.
pub struct Cluster {
    _turn: MutexGuard<'static, ()>,
    folder: TempDir,
    surroundings: Surroundings,
    replicas: BTreeMap<u32, Option<Child>>,
    ports: BTreeMap<u32, u16>,
    http_ports: BTreeMap<u32, u16>,
}

impl Cluster {
    /// Starts `count` replicas with the published settings, changed by `changes`, and waits until they have a leader.
    #[must_use]
    pub fn start(count: u32, changes: &Value) -> Cluster {
        let cluster = Cluster::launch(count, changes, Surroundings::default());
        cluster.wait_for_a_leader();
        cluster
    }

    /// The same in these surroundings, without waiting for a leader.
    #[must_use]
    pub fn launch(count: u32, changes: &Value, surroundings: Surroundings) -> Cluster {
        // A test that failed before says nothing about this one.
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::Builder::new().prefix("quorate cluster ").tempdir().unwrap();
        let mut template = json!({ "consensus": "raft", "recovery_enabled": false });
        for (key, value) in changes.as_object().unwrap() {
            template[key] = value.clone();
        }
        let template_file = folder.path().join("template.config");
        fs::write(&template_file, template.to_string()).unwrap();
        let file = folder.path().join("cluster.json");
        let (count_text, template_path) = (count.to_string(), template_file.to_str().unwrap().to_owned());
        let output = quorate(&[
            "config",
            "new",
            "--template",
            &template_path,
            "--replicas",
            &count_text,
            "--ports",
            "free",
            "--out",
            file.to_str().unwrap(),
        ]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let written: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let ports_of = |key: &str| -> BTreeMap<u32, u16> {
            let replicas = written["replicas"].as_array().unwrap().iter();
            replicas
                .map(|replica| (replica["id"].as_u64().unwrap() as u32, replica[key].as_u64().unwrap() as u16))
                .collect()
        };
        let (ports, http_ports) = (ports_of("port"), ports_of("http_port"));
        let mut cluster = Cluster { _turn: turn, folder, surroundings, replicas: BTreeMap::new(), ports, http_ports };
        if template["recovery_enabled"] == true {
            (1..=count).for_each(|id| cluster.initialize(id));
        }
        for id in (1..=count).filter(|id| !cluster.surroundings.absent.contains(id)).collect::<Vec<u32>>() {
            cluster.spawn(id);
        }
        cluster
    }

    /// Waits until every process that was started knows a leader.
    pub fn wait_for_a_leader(&self) {
        self.wait_until("a leader is elected and everyone follows it", |cluster| {
            let statuses: Vec<Value> = cluster.replicas.keys().filter_map(|id| cluster.try_status(*id)).collect();
            statuses.len() == cluster.replicas.len() && statuses.iter().all(|status| status["leader"].is_u64())
        });
    }

    /// The cluster file.
    #[must_use]
    pub fn file(&self) -> String {
        self.folder.path().join("cluster.json").to_str().unwrap().to_owned()
    }

    /// A place for a test's own files.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a replica's data directory.
    pub fn initialize(&self, id: u32) {
        let (file, id_text, data) = (self.file(), id.to_string(), self.data(id));
        let arguments =
            ["init", "--bootstrap", "--config", &file, "--id", &id_text, "--data-dir", data.to_str().unwrap()];
        let output = quorate(&arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// A replica's data directory.
    #[must_use]
    pub fn data(&self, id: u32) -> PathBuf {
        self.surroundings.data.get(&id).cloned().unwrap_or_else(|| self.path(&format!("data {id}")))
    }

    /// The members of the cluster.
    #[must_use]
    pub fn ids(&self) -> Vec<u32> {
        self.ports.keys().copied().collect()
    }

    /// Position and digest of a replica's state, as it says them.
    #[must_use]
    pub fn digest(&self, id: u32) -> Option<(u64, String)> {
        let url = format!("http://127.0.0.1:{}/digest", self.http_ports[&id]);
        let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
        let text = agent.get(&url).call().ok()?.body_mut().read_to_string().ok()?;
        let value: Value = serde_json::from_str(&text).ok()?;
        Some((value["position"].as_u64()?, value["digest"].as_str()?.to_owned()))
    }

    /// Waits until all these replicas have executed equally far, and checks that their states are equal there.
    pub fn assert_equal_states(&self, ids: &[u32]) {
        self.wait_until("everyone has executed equally far, with equal states", |cluster| {
            let digests: Vec<Option<(u64, String)>> = ids.iter().map(|id| cluster.digest(*id)).collect();
            let Some(first) = &digests[0] else { return false };
            let all_there =
                digests.iter().all(|digest| digest.as_ref().is_some_and(|(position, _)| *position == first.0));
            if all_there {
                assert!(digests.iter().all(|digest| digest.as_ref() == Some(first)), "states differ: {digests:?}");
            }
            all_there
        });
    }

    /// Waits for the end of a process that ends by itself; gives its exit code.
    pub fn wait_for_end(&mut self, id: u32) -> Option<i32> {
        let mut child = self.replicas.get_mut(&id).unwrap().take().unwrap();
        let end = Instant::now() + PATIENCE;
        loop {
            match child.try_wait().unwrap() {
                Some(status) => return status.code(),
                None if Instant::now() > end => {
                    let _ = child.kill();
                    let _ = child.wait();
                    panic!("replica {id} does not end:\n{}", self.log(id));
                }
                // Nothing tells when a process ends but asking it.
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Starts a replica's process.
    pub fn spawn(&mut self, id: u32) {
        let log = File::options().create(true).append(true).open(self.path(&format!("replica {id}.log"))).unwrap();
        let data = self.data(id);
        let in_front = match self.surroundings.descriptors {
            _ if self.surroundings.recorded => strace::recording(&self.recording(id)),
            None => Vec::new(),
            Some(descriptors) => {
                let shell = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
                vec!["sh".to_owned(), "-c".to_owned(), shell]
            }
        };
        let mut words = in_front.iter().map(OsStr::new).chain([quorate_binary().as_os_str()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        let child = command
            .args(["serve", "--config", &self.file(), "--id", &id.to_string(), "--data-dir"])
            .arg(data)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.replicas.insert(id, Some(child));
    }

    /// Where a replica's calls are recorded, if they are.
    #[must_use]
    pub fn recording(&self, id: u32) -> PathBuf {
        self.path(&format!("replica {id}.strace"))
    }

    /// The number of a replica's process.
    #[must_use]
    pub fn process(&self, id: u32) -> u32 {
        self.replicas[&id].as_ref().unwrap().id()
    }

    /// A replica's port for peers and clients.
    #[must_use]
    pub fn port(&self, id: u32) -> u16 {
        self.ports[&id]
    }

    /// A replica's port for `/status`.
    #[must_use]
    pub fn http_port(&self, id: u32) -> u16 {
        self.http_ports[&id]
    }

    /// Descriptors that a replica's process has open.
    #[must_use]
    pub fn descriptors(&self, id: u32) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.process(id))).unwrap().count()
    }

    /// A replica's log so far.
    #[must_use]
    pub fn log(&self, id: u32) -> String {
        fs::read_to_string(self.path(&format!("replica {id}.log"))).unwrap_or_default()
    }

    /// Sends a signal to a replica's process.
    pub fn signal(&self, id: u32, signal: Signal) {
        let child = self.replicas[&id].as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Kills a replica's process at once, and waits for its end.
    pub fn kill(&mut self, id: u32) {
        self.signal(id, Signal::KILL);
        let mut child = self.replicas.get_mut(&id).unwrap().take().unwrap();
        child.wait().unwrap();
    }

    /// Kills the processes of these replicas as one loss of power would: all have the signal before any end is waited for.
    pub fn kill_at_once(&mut self, ids: &[u32]) {
        ids.iter().for_each(|id| self.signal(*id, Signal::KILL));
        for id in ids {
            let mut child = self.replicas.get_mut(id).unwrap().take().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops a replica politely and gives its exit code.
    pub fn terminate(&mut self, id: u32) -> Option<i32> {
        self.signal(id, Signal::TERM);
        let mut child = self.replicas.get_mut(&id).unwrap().take().unwrap();
        child.wait().unwrap().code()
    }

    /// What a replica says of itself, if it answers.
    #[must_use]
    pub fn try_status(&self, id: u32) -> Option<Value> {
        let url = format!("http://127.0.0.1:{}/status", self.http_ports[&id]);
        let agent: ureq::Agent =
            ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(2))).build().into();
        let text = agent.get(&url).call().ok()?.body_mut().read_to_string().ok()?;
        serde_json::from_str(&text).ok()
    }

    /// What a replica says of itself.
    #[must_use]
    pub fn status(&self, id: u32) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.try_status(id) {
                Some(status) => return status,
                None => assert!(Instant::now() < end, "replica {id} does not answer:\n{}", self.log(id)),
            }
        }
    }

    /// The leader, as a majority of the running replicas names it.
    #[must_use]
    pub fn leader(&self) -> u32 {
        let mut found = None;
        self.wait_until("a majority names one leader", |cluster| {
            let named: Vec<u64> =
                cluster.http_ports.keys().filter_map(|id| cluster.try_status(*id)?["leader"].as_u64()).collect();
            let most = named
                .iter()
                .copied()
                .find(|id| named.iter().filter(|other| *other == id).count() * 2 > cluster.http_ports.len());
            found = most.map(|id| id as u32);
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits for a condition, asking again and again.
    pub fn wait_until(&self, what: &str, mut condition: impl FnMut(&Cluster) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !condition(self) {
            if Instant::now() > end {
                let shown = |id: &u32| {
                    let mut status = self.try_status(*id).unwrap_or_default();
                    status.as_object_mut().map(|status| status.remove("settings"));
                    format!("replica {id}:\n{}\nit says now: {status}", self.log(*id))
                };
                let logs: Vec<String> = self.replicas.keys().map(shown).collect();
                panic!("not within {PATIENCE:?}: {what}\n{}", logs.join("\n"));
            }
            // Nothing tells when a status changes; asking all the time would take the cores from those that are asked.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Starts a load with these arguments; its JSON result will be in `load.json`.
    #[must_use]
    pub fn load(&self, arguments: &[&str]) -> Load {
        let json = self.path("load.json");
        let mut child = Command::new(quorate_binary());
        child.args(["perf", "load", "--cluster", &self.file(), "--json"]).arg(&json).args(arguments);
        let log = self.path("load.log");
        child
            .stdin(Stdio::null())
            .stdout(File::create(&log).unwrap())
            .stderr(File::options().append(true).open(&log).unwrap());
        Load { child: child.spawn().unwrap(), json, log }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.replicas.values_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A running load.
pub struct Load {
    child: Child,
    json: PathBuf,
    log: PathBuf,
}

impl Load {
    /// What it has printed so far.
    #[must_use]
    pub fn printed(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for its end; gives its exit code and its result.
    #[must_use]
    pub fn finish(mut self) -> (Option<i32>, Value) {
        let code = self.child.wait().unwrap().code();
        let text = fs::read_to_string(&self.json).unwrap_or_else(|_| panic!("no result:\n{}", self.printed()));
        (code, serde_json::from_str(&text).unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
