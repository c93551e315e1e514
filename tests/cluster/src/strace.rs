//! `strace` around a replica's process: what it asked of the kernel and in which order, and calls made to fail or to take long.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc)] // test support: a panic is the report

use crate::PATIENCE;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The calls that change files or say something to somebody.
const CALLS: &str = "openat,write,writev,pwrite64,pwritev,pwritev2,sendto,sendmsg,fsync,fdatasync,rename,renameat,renameat2,\
                     unlink,unlinkat,mkdir,mkdirat";
/// Bytes of one argument that are kept: all but the values of long requests.
const ARGUMENT_BYTES: &str = "8192";

/// Whether processes can be traced here. Where not, it prints what is missing, and the test is to end without having seen anything; with
/// `CI` in the environment it fails instead, so that what must be seen somewhere is.
#[must_use]
pub fn can_trace() -> bool {
    let reason = match Command::new("strace").args(["-o", "/dev/null", "true"]).output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    let advice = "this test needs strace (apt-get install strace) and the right to trace one's own processes (ptrace)";
    assert!(std::env::var_os("CI").is_none(), "{advice}: {reason}");
    eprintln!("skipped: {advice}: {reason}");
    false
}

/// The command line in front of a program whose calls are to be written to `file`. The program stays the child of whoever starts it.
#[must_use]
pub fn recording(file: &Path) -> Vec<String> {
    let options = ["strace", "-D", "-f", "-yy", "-xx", "-s", ARGUMENT_BYTES];
    let mut words: Vec<String> = options.map(str::to_owned).into();
    words.extend(["-e".to_owned(), format!("trace={CALLS}"), "-o".to_owned(), file.to_str().unwrap().to_owned()]);
    words
}

/// A tracer that is attached to a running process and tampers with its calls. Dropping it lets the process go.
pub struct Tampering(Child);

impl Tampering {
    /// Attaches to a process: from now on `injection` holds, as in `fdatasync:error=EIO:when=3` (each thread counts for itself). What
    /// the tracer says goes to `log`.
    #[must_use]
    pub fn begin(process: u32, injection: &str, log: &Path) -> Tampering {
        let call = injection.split(':').next().unwrap();
        let child = Command::new("strace")
            .args(["-f", "-e", &format!("trace={call}"), "-e", &format!("inject={injection}")])
            .args(["-o", "/dev/null", "-p", &process.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(log).unwrap())
            .spawn()
            .unwrap();
        let tampering = Tampering(child);
        wait_for("strace attaches", || fs::read_to_string(log).unwrap().contains("attached"));
        tampering
    }
}

impl Drop for Tampering {
    fn drop(&mut self) {
        // Interrupted, it detaches; the process goes on without it.
        let _ = kill_process(Pid::from_child(&self.0), Signal::INT);
        let _ = self.0.wait();
    }
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        // Only the file tells.
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A call that returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// Line of the trace at which it began. An event of one thread that caused one of another stands before it.
    pub begin: usize,
    /// Line at which it ended.
    pub end: usize,
    /// What it returned; -1 for an error.
    pub result: i64,
    arguments: String,
    returned: String,
}

/// Reads a trace whose process has ended or is ending; waits for that. Calls stand in the order in which they began.
#[must_use]
pub fn read_trace(file: &Path) -> Vec<Call> {
    wait_for("the end of the trace", || {
        let text = fs::read_to_string(file).unwrap_or_default();
        // The last line is about the first process, which is the last to go.
        text.lines().last().is_some_and(|line| line.contains("+++ killed by") || line.contains("+++ exited with"))
            && text.lines().last().map(thread_of) == text.lines().next().map(thread_of)
    });
    parse(&fs::read_to_string(file).unwrap())
}

fn thread_of(line: &str) -> &str {
    line.split_ascii_whitespace().next().unwrap_or_default()
}

/// Puts the lines of a trace together to calls.
fn parse(text: &str) -> Vec<Call> {
    let mut unfinished: HashMap<&str, (usize, &str)> = HashMap::new();
    let mut calls = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let (thread, rest) = line.split_once(' ').unwrap();
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") {
            continue;
        }
        if let Some(first) = rest.strip_suffix("<unfinished ...>") {
            unfinished.insert(thread, (number, first.trim_end()));
        } else if let Some(resumed) = rest.strip_prefix("<... ") {
            let (begin, first) = unfinished.remove(thread).unwrap();
            let (_, last) = resumed.split_once(" resumed>").unwrap();
            calls.extend(whole(&format!("{first}{last}"), begin, number));
        } else {
            calls.extend(whole(rest, number, number));
        }
    }
    calls.sort_by_key(|call| call.begin);
    calls
}

/// A call of its whole text; none if the process ended in it.
fn whole(text: &str, begin: usize, end: usize) -> Option<Call> {
    let (name, rest) = text.split_once('(')?;
    let (arguments, returned) = rest.rsplit_once(" = ")?;
    let number = returned.split(['<', ' ']).next()?;
    let result = number.parse().ok()?;
    let arguments = arguments.trim_end().strip_suffix(')')?.to_owned();
    Some(Call { name: name.to_owned(), begin, end, result, arguments, returned: returned.to_owned() })
}

impl Call {
    /// Whether it is about a file or a directory: its path, as of the moment of the call.
    #[must_use]
    pub fn path(&self) -> Option<PathBuf> {
        let text = if self.name == "openat" { &self.returned } else { self.arguments.split(", ").next()? };
        let name = text.split_once('<')?.1.strip_suffix('>')?;
        name.starts_with("\\x").then(|| path(&unescape(name)))
    }

    /// What it is sent on, if that is a TCP connection: both addresses.
    #[must_use]
    pub fn connection(&self) -> Option<&str> {
        self.arguments.split(", ").next()?.split_once("<TCP:[")?.1.strip_suffix("]>")
    }

    /// The paths among its arguments: those of a rename or a removal.
    #[must_use]
    pub fn named_paths(&self) -> Vec<PathBuf> {
        self.strings().iter().map(|bytes| path(bytes)).collect()
    }

    /// Whether it says this flag.
    #[must_use]
    pub fn has_flag(&self, flag: &str) -> bool {
        self.arguments.split([' ', ',', '|']).any(|word| word == flag)
    }

    /// The bytes that it has written. In place of what was not kept of a long argument stand zeros.
    #[must_use]
    pub fn written(&self) -> Vec<u8> {
        let count = usize::try_from(self.result).unwrap_or(0);
        let mut bytes = Vec::with_capacity(count);
        let (strings, lengths) = (self.strings(), self.lengths());
        for (number, string) in strings.into_iter().enumerate() {
            let begin = bytes.len();
            bytes.extend(string);
            if let Some(length) = lengths.get(number) {
                bytes.resize(begin + length, 0);
            }
        }
        bytes.resize(count, 0);
        bytes
    }

    /// Whether all that was written was kept.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.arguments.contains("\"...")
    }

    /// Its quoted arguments. One that is longer than what is kept is cut.
    fn strings(&self) -> Vec<Vec<u8>> {
        self.arguments.split('"').skip(1).step_by(2).map(unescape).collect()
    }

    /// The lengths of the parts of a gathering write.
    fn lengths(&self) -> Vec<usize> {
        let numbers = self.arguments.split("iov_len=").skip(1);
        numbers.map(|text| text.split(['}', ',']).next().unwrap().parse().unwrap()).collect()
    }
}

/// The bytes of `\x61\x62`.
fn unescape(text: &str) -> Vec<u8> {
    text.split("\\x").skip(1).map(|digits| u8::from_str_radix(digits, 16).unwrap()).collect()
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::str::from_utf8(bytes).unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_interrupted_by_others_has_both_its_lines_and_all_its_arguments() {
        let text = r#"7  pwrite64(3<\x2f\x61\x20\x62>, "\x61\x00"..., 4, 4096 <unfinished ...>
8  fsync(4<\x2f\x61>) = -1 EIO (Input/output error) (INJECTED)
7  <... pwrite64 resumed>)             = 4
8  rename("\x2f\x61", "\x2f\x62") = 0
8  writev(6<TCP:[127.0.0.1:1->127.0.0.1:2]>, [{iov_base="\x78", iov_len=1}, {iov_base="\x79\x7a", iov_len=2}], 2) = 2
8  writev(6<TCP:[127.0.0.1:1->127.0.0.1:2]>, [{iov_base="\x61"..., iov_len=3}, {iov_base="\x7a", iov_len=1}], 2) = 4
8  openat(AT_FDCWD<\x2f>, "\x61", O_RDWR|O_CREAT|O_CLOEXEC, 0666) = 5<\x2f\x61>
9  fdatasync(3<\x2f\x61> <unfinished ...>) = ?
7  +++ killed by SIGKILL +++
"#;
        let calls = parse(text);
        let lines: Vec<(&str, usize, usize, i64)> =
            calls.iter().map(|call| (call.name.as_str(), call.begin, call.end, call.result)).collect();
        let expected = [
            ("pwrite64", 0, 2, 4),
            ("fsync", 1, 1, -1),
            ("rename", 3, 3, 0),
            ("writev", 4, 4, 2),
            ("writev", 5, 5, 4),
            ("openat", 6, 6, 5),
        ];
        assert_eq!(lines, expected);
        assert_eq!(calls[0].path(), Some(PathBuf::from("/a b")));
        assert_eq!((calls[0].written(), calls[0].is_whole()), (b"a\0\0\0".to_vec(), false));
        assert_eq!(calls[2].named_paths(), [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!((calls[3].connection(), calls[3].path()), (Some("127.0.0.1:1->127.0.0.1:2"), None));
        assert_eq!((calls[3].written(), calls[3].is_whole()), (b"xy".to_vec(), true), "the kernel took two bytes");
        assert_eq!(calls[4].written(), b"a\0\0z");
        assert_eq!((calls[5].path(), calls[5].has_flag("O_CREAT")), (Some(PathBuf::from("/a")), true));
    }
}
