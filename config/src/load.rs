//! From a path or from bytes to a validated configuration. Nothing is created, changed or opened for writing.

use crate::cluster::{ClusterConfig, TemplateConfig};
use crate::error::{ConfigError, ConfigErrors, FileProblem};
use crate::json;
use crate::note::Note;
use crate::validate::{Checked, Form, validate};
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Length of a file at most, in bytes; the largest cluster's file has some kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A configuration without faults and what its owner should nevertheless know.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted<T> {
    /// The configuration.
    pub config: T,
    /// Notes and warnings, in the order of the file.
    pub notes: Vec<Note>,
}

/// Reads and checks a cluster's file. Blocks for one read of a regular file.
pub fn load_cluster(path: &Path) -> Result<Accepted<ClusterConfig>, ConfigErrors> {
    let (file, bytes) = read_file(path)?;
    parse_cluster(&file, &bytes)
}

/// Reads and checks a template, in which cluster id and replicas may be missing. Blocks for one read of a regular file.
pub fn load_template(path: &Path) -> Result<Accepted<TemplateConfig>, ConfigErrors> {
    let (file, bytes) = read_file(path)?;
    parse_template(&file, &bytes)
}

/// Checks the bytes of a cluster's file; `file` is its name in messages.
pub fn parse_cluster(file: &str, bytes: &[u8]) -> Result<Accepted<ClusterConfig>, ConfigErrors> {
    let mut checked = parse(file, bytes, Form::Cluster)?;
    let notes = std::mem::take(&mut checked.notes);
    Ok(Accepted { config: ClusterConfig::from_checked(checked), notes })
}

/// Checks the bytes of a template, in which cluster id and replicas may be missing; `file` is its name in messages.
pub fn parse_template(file: &str, bytes: &[u8]) -> Result<Accepted<TemplateConfig>, ConfigErrors> {
    let mut checked = parse(file, bytes, Form::Template)?;
    let notes = std::mem::take(&mut checked.notes);
    Ok(Accepted { config: TemplateConfig::from_checked(checked), notes })
}

fn parse(file: &str, bytes: &[u8], form: Form) -> Result<Checked, ConfigErrors> {
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(file_error(file, FileProblem::TooLarge { limit_bytes: FILE_BYTES_MAX }));
    }
    let text = decoded(bytes).map_err(|problem| file_error(file, problem))?;
    let root = json::read(text).map_err(|json::SyntaxProblem { at, problem }| {
        ConfigErrors::one(ConfigError::Syntax { file: file.to_owned(), at, problem })
    })?;
    let root = root.ok_or_else(|| file_error(file, FileProblem::Empty))?;
    validate(file, &root, form)
}

fn file_error(file: &str, problem: FileProblem) -> ConfigErrors {
    ConfigErrors::one(ConfigError::File { file: file.to_owned(), problem })
}

fn read_file(path: &Path) -> Result<(String, Vec<u8>), ConfigErrors> {
    let file = path.display().to_string();
    match read_regular_file(path) {
        Ok(bytes) => Ok((file, bytes)),
        Err(problem) => Err(file_error(&file, problem)),
    }
}

fn read_regular_file(path: &Path) -> Result<Vec<u8>, FileProblem> {
    // The type is looked at before opening, because opening a pipe waits for a writer.
    let metadata = fs::metadata(path).map_err(|error| open_problem(path, &error))?;
    if let Some(problem) = wrong_file_type(metadata.file_type()) {
        return Err(problem);
    }
    let opened = fs::File::open(path).map_err(|error| open_problem(path, &error))?;
    let mut bytes = Vec::new();
    // One byte above the limit is enough to see that it is exceeded, however long the file is.
    opened
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| FileProblem::Unreadable(error.to_string()))?;
    Ok(bytes)
}

fn open_problem(path: &Path, error: &io::Error) -> FileProblem {
    if error.kind() != io::ErrorKind::NotFound {
        return FileProblem::Unreadable(error.to_string());
    }
    match fs::read_link(path) {
        Ok(target) => FileProblem::BrokenLink { target: target.display().to_string() },
        Err(_) => FileProblem::NotFound,
    }
}

fn wrong_file_type(file_type: fs::FileType) -> Option<FileProblem> {
    if file_type.is_file() {
        return None;
    }
    if file_type.is_dir() {
        return Some(FileProblem::Directory);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if file_type.is_fifo() {
            return Some(FileProblem::Pipe);
        }
        if file_type.is_socket() {
            return Some(FileProblem::Special("a socket"));
        }
    }
    Some(FileProblem::Special("a device"))
}

/// The text without its byte-order mark.
fn decoded(bytes: &[u8]) -> Result<&str, FileProblem> {
    let encoding = match bytes {
        [0xff, 0xfe, 0, 0, ..] => Some("UTF-32 (little-endian)"),
        [0, 0, 0xfe, 0xff, ..] => Some("UTF-32 (big-endian)"),
        [0xff, 0xfe, ..] => Some("UTF-16 (little-endian)"),
        [0xfe, 0xff, ..] => Some("UTF-16 (big-endian)"),
        // Without a mark: JSON starts with an ASCII character, whose other half is zero.
        [first, 0, ..] if *first != 0 => Some("UTF-16 (little-endian, without a byte-order mark)"),
        [0, second, ..] if *second != 0 => Some("UTF-16 (big-endian, without a byte-order mark)"),
        _ => None,
    };
    if let Some(encoding) = encoding {
        return Err(FileProblem::Encoding(encoding));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let (good, bad) = bytes.split_at(error.valid_up_to());
        let lines = good.iter().filter(|byte| **byte == b'\n').count();
        FileProblem::NotUtf8 {
            line: u32::try_from(lines + 1).unwrap_or(u32::MAX),
            byte: bad.first().copied().unwrap_or_default(),
        }
    })
}
