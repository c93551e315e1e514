//! What is wrong with a command line, in one line.

use clap::error::{Error, ErrorKind};
use std::io::Write;
use std::process::ExitCode;

/// Prints help and version to stdout with exit code 0, and everything else as one line to stderr with exit code 2.
pub(crate) fn report(error: &Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        _ => {
            let _ = writeln!(std::io::stderr(), "{}", line(error));
            ExitCode::from(2)
        }
    }
}

/// The message with its tips, without the usage text.
fn line(error: &Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let text = error.to_string();
        let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: ")).unwrap_or("quorate <COMMAND>");
        let command = usage.split_once(" <").map_or(usage, |(command, _)| command);
        return format!("error: a command is missing; see '{command} --help'");
    }
    let text = error.to_string();
    let mut parts = Vec::new();
    for paragraph in text.split("\n\n") {
        let paragraph = paragraph.trim();
        if paragraph.starts_with("Usage:") || paragraph.starts_with("For more information") || paragraph.is_empty() {
            continue;
        }
        parts.push(paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: "));
    let words = usage.unwrap_or("quorate").split(' ').take_while(|word| !word.starts_with(['<', '[', '-']));
    let command = words.collect::<Vec<_>>().join(" ");
    format!("{}; see '{command} --help'", in_plain_words(&parts.join("; ")))
}

/// The standard library speaks of digits and integers; the user has typed a number.
fn in_plain_words(text: &str) -> String {
    text.replace("invalid digit found in string", "it must be a whole number without sign or unit")
        .replace("cannot parse integer from empty string", "it must be a whole number, and it is empty")
        .replace("number too large to fit in target type", "it is too large")
}
