//! The threads of this process by their names.

use std::fs;
use std::path::Path;

/// Names at most; a process with more has them counted all the same.
const NAMES: usize = 256;

/// The names of this process's threads, in order; empty if the system does not tell. Blocks for a few small files.
#[must_use]
pub(crate) fn names() -> Vec<String> {
    names_in(Path::new("/proc/self/task"))
}

fn names_in(tasks: &Path) -> Vec<String> {
    let Ok(tasks) = fs::read_dir(tasks) else { return Vec::new() };
    // A thread may end while its name is read.
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    let mut names: Vec<String> =
        tasks.flatten().take(NAMES).filter_map(name).map(|name| name.trim_end().to_owned()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn a_thread_is_listed_by_its_name_while_it_runs() {
        let (end, ended) = mpsc::channel::<()>();
        let worker = thread::Builder::new().name("a named one".into()).spawn(move || {
            let _ = ended.recv();
        });
        let worker = worker.unwrap();
        // A thread gives itself its name once it runs.
        let listed = || names().iter().any(|name| name == "a named one");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !listed() {
            assert!(std::time::Instant::now() < deadline, "{:?}", names());
            thread::yield_now();
        }
        drop(end);
        worker.join().unwrap();
        assert_eq!(names_in(Path::new("/no such folder")), Vec::<String>::new());
    }
}
