//! `quorate wal`: looking at a data directory without changing it.

mod records;
mod report;

use crate::arguments::Output;
use crate::exit::{Exit, Failure, say, say_all};
use clap::{Args, Subcommand};
use quorate_node::durable::{DurableReason, kept_state};
use quorate_raft::RaftRecord;
use quorate_recovery::{CheckReport, DirectoryVfs, METADATA_FILE, Metadata, RecoveryError, dump};
use quorate_recovery_pbft::PbftRecord;
use records::Shown;
use std::fs::{self, File, TryLockError};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of a metadata file that are read at most to find out the protocol; a longer one is refused by the check itself.
const METADATA_BYTES_MAX: u64 = 1 << 20;
/// Lines that are gathered before they are written, in bytes.
const OUTPUT_BYTES: usize = 64 << 10;

/// Looking at data.
#[derive(Debug, Subcommand)]
pub(crate) enum WalCommand {
    /// Read the log and the metadata of a data directory as a start would, and say whether they would be accepted
    #[command(after_help = "Example:\n  quorate wal check data/replica-1\n\n\
        Changes nothing. Meant for a replica that is not running: what a running one is just writing may look torn.\n\
        The snapshot that the metadata name is read whole. Of a store on disk it is only looked whether the files are there that it needs.\n\n\
        Exit codes: 0 a start would accept what was read, 1 it would not: something is damaged or lost (the message says where, and what to \
        do), 2 bad input: no directory, or not one of a replica that this version knows")]
    Check(DirectoryArguments),
    /// Show every record of the log, also those before a damage
    #[command(after_help = "Examples:\n  quorate wal dump data/replica-1\n  \
        quorate wal dump data/replica-1 --output json    (one JSON object a line)\n\n\
        Changes nothing. Exit codes: 0 the log is whole, 1 it is damaged or lost (what lies before the damage was shown), 2 bad input")]
    Dump(DirectoryArguments),
}

/// Which directory.
#[derive(Debug, Args)]
pub(crate) struct DirectoryArguments {
    /// The data directory of a replica
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// Runs a command to its end.
pub(crate) fn run(command: &WalCommand) -> Result<Exit, Failure> {
    match command {
        WalCommand::Check(arguments) => check_directory(arguments),
        WalCommand::Dump(arguments) => dump_directory(arguments),
    }
}

/// What is looked at, and how its records are read.
struct Subject {
    directory: PathBuf,
    vfs: DirectoryVfs,
    /// None if there is none that can be read: the check will say why.
    metadata: Option<Metadata>,
    /// Whether a process uses the directory.
    is_in_use: bool,
}

fn open(directory: &Path) -> Result<Subject, Failure> {
    let shown = directory.display();
    match fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(Failure::bad_input(format_args!("{shown}: is not a directory"))),
        Err(error) => return Err(Failure::bad_input(format_args!("{shown}: {error}"))),
    }
    let vfs = DirectoryVfs::open_unlocked(directory).map_err(|error| refused(directory, &error))?;
    let mut bytes = Vec::new();
    let read = File::open(directory.join(METADATA_FILE))
        .and_then(|file| file.take(METADATA_BYTES_MAX).read_to_end(&mut bytes));
    let metadata = read.ok().and_then(|_| Metadata::decode(&bytes).ok());
    Ok(Subject { directory: directory.to_owned(), vfs, metadata, is_in_use: is_in_use(directory) })
}

/// Whether a replica holds the directory's lock. Makes no lock file, and gives the lock back at once.
fn is_in_use(directory: &Path) -> bool {
    let Ok(lock) = File::open(directory.join("lock")) else { return false };
    matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Reads everything with the records of the protocol that the metadata names.
fn look(subject: &Subject, show: &mut dyn FnMut(&dyn Shown)) -> Result<CheckReport, Refusal> {
    // Without metadata no record is read.
    let protocol = subject.metadata.as_ref().map_or(quorate_recovery_raft::PROTOCOL, |metadata| &metadata.protocol);
    let looked = match protocol {
        quorate_recovery_raft::PROTOCOL => dump::<RaftRecord>(&subject.vfs, None, &mut |record| show(&record)),
        quorate_recovery_pbft::PROTOCOL => dump::<PbftRecord>(&subject.vfs, None, &mut |record| show(&record)),
        other => return Err(Refusal::Protocol(other.to_owned())),
    };
    looked.map_err(|error| Refusal::Recovery(beside_a_state(error, &subject.directory)))
}

/// No replica was made here, unless one has left its state: then its metadata are missing, as a start says, too.
fn beside_a_state(error: RecoveryError, directory: &Path) -> RecoveryError {
    match (error, kept_state::first_kept(directory)) {
        (RecoveryError::NotInitialised, Ok(Some(kept))) => RecoveryError::MetadataMissing(kept),
        (error, _) => error,
    }
}

/// Why there is no report.
enum Refusal {
    /// What a start would say.
    Recovery(RecoveryError),
    /// The records are not known here.
    Protocol(String),
    /// The state that the metadata name.
    State(DurableReason),
}

impl Refusal {
    /// What is wrong, where, and what to do.
    fn text(&self) -> String {
        match self {
            Refusal::Recovery(error) => error.to_string(),
            Refusal::Protocol(name) => format!(
                "{METADATA_FILE}: the protocol is '{name}', whose records this version does not know; use the version that wrote them"
            ),
            Refusal::State(reason) => reason.to_string(),
        }
    }

    /// By the rule of [`Exit`].
    fn failure(&self, directory: &Path) -> Failure {
        let is_bad_input = match self {
            Refusal::Recovery(error) => error.is_bad_input(),
            Refusal::Protocol(_) => true,
            Refusal::State(reason) => reason.is_bad_input(),
        };
        Failure::new(is_bad_input, format_args!("{}: {}", directory.display(), self.text()))
    }
}

fn refused(directory: &Path, error: &RecoveryError) -> Failure {
    Failure::failed(format_args!("{}: {error}", directory.display()))
}

fn check_directory(arguments: &DirectoryArguments) -> Result<Exit, Failure> {
    let subject = open(&arguments.directory)?;
    let checked = look(&subject, &mut |_| {}).and_then(|found| {
        let state = kept_state::look(&subject.directory, &found.metadata).map_err(Refusal::State)?;
        Ok((found, state))
    });
    match (&checked, arguments.output) {
        (Ok((found, state)), Output::Text) => say_all(&report::text(found, state.as_ref(), subject.is_in_use)),
        (Ok((found, state)), Output::Json) => {
            say(format_args!("{:#}", report::json(found, state.as_ref(), subject.is_in_use)));
        }
        (Err(refusal), Output::Json) => say(format_args!("{:#}", report::refused(refusal, subject.is_in_use))),
        (Err(_), Output::Text) => {}
    }
    checked.map(|_| Exit::Ok).map_err(|refusal| refusal.failure(&arguments.directory))
}

fn dump_directory(arguments: &DirectoryArguments) -> Result<Exit, Failure> {
    let subject = open(&arguments.directory)?;
    let is_json = arguments.output == Output::Json;
    let mut lines = String::new();
    if let Some(metadata) = &subject.metadata {
        lines.push_str(&if is_json { report::metadata_line(metadata) } else { report::metadata_text(metadata) });
    }
    let dumped = look(&subject, &mut |record| {
        lines.push_str(&if is_json { record.json().to_string() } else { record.line() });
        lines.push('\n');
        if lines.len() >= OUTPUT_BYTES {
            say_all(&lines);
            lines.clear();
        }
    });
    match &dumped {
        Ok(found) if is_json => lines.push_str(&report::end_line(found, subject.is_in_use)),
        Ok(found) => lines.push_str(&report::log_text(found, subject.is_in_use)),
        Err(refusal) if is_json => lines.push_str(&report::refused_line(refusal, subject.is_in_use)),
        Err(_) => {}
    }
    say_all(&lines);
    dumped.map(|_| Exit::Ok).map_err(|refusal| refusal.failure(&arguments.directory))
}
