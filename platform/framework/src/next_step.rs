//! What an operator is told to do about an error of the operating system.

use std::io::{self, ErrorKind};

/// What to do when the operating system refuses a file of a data directory: a clause for the end of a message. Such an error says nothing
/// of the data, so none of these clauses calls them lost.
#[must_use]
pub fn next_step(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space and start the replica again",
        ErrorKind::PermissionDenied => "give this user the rights to it and try again",
        ErrorKind::ReadOnlyFilesystem => "make the file system writable and try again",
        ErrorKind::IsADirectory | ErrorKind::NotADirectory => {
            "something else stands where it belongs: put that right and try again"
        }
        _ => "nothing is known of the data: look after the disk and try again",
    }
}
