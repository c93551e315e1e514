//! The command line itself: help, usage errors in one line, exit codes (cases V27, B64, B72).

#![allow(clippy::unwrap_used)] // Helpers of tests are tests, too.

mod common;

use common::run;
use std::fs;
use std::path::{Path, PathBuf};

const COMMANDS: &[&[&str]] = &[
    &[],
    &["config"],
    &["config", "new"],
    &["config", "check"],
    &["config", "schema"],
    &["init"],
    &["serve"],
    &["cluster"],
    &["cluster", "wait"],
    &["cluster", "status"],
    &["perf"],
    &["perf", "load"],
    &["perf", "merge"],
    &["perf", "limit"],
    &["perf", "transport"],
    &["perf", "clients"],
    &["perf", "wal"],
    &["perf", "store"],
    &["wal"],
    &["wal", "check"],
    &["wal", "dump"],
    &["simulate"],
];

#[test]
fn help_and_version_go_to_stdout_with_exit_code_0() {
    for command in COMMANDS {
        let shown = run(&[*command, &["--help"]].concat());
        assert_eq!((shown.code, shown.err.as_str()), (0, ""), "{command:?}");
        assert!(shown.out.contains("Usage: quorate"), "{command:?}: {}", shown.out);
    }
    let shown = run(&["--version"]);
    assert_eq!((shown.code, shown.err.as_str()), (0, ""));
    assert!(shown.out.starts_with(&format!("quorate {} (commit ", env!("CARGO_PKG_VERSION"))), "{}", shown.out);
}

/// The Rust sources below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_hidden = path.file_name().is_some_and(|name| name == "target" || name.as_encoded_bytes()[0] == b'.');
        if path.is_dir() && !is_hidden {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_command_that_a_message_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut files, mut named) = (Vec::new(), 0);
    sources(&root, &mut files);
    // Put together, so that this file does not name one.
    let begin = concat!('`', "quorate ");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for rest in text.split(begin).skip(1) {
            let words = rest.split(|letter: char| !letter.is_ascii_lowercase() && letter != ' ').next().unwrap();
            let command: Vec<&str> = words.split_whitespace().take(2).collect();
            assert!(COMMANDS.contains(&&command[..]), "{}: quorate {}", file.display(), command.join(" "));
            named += 1;
        }
    }
    assert!(named > 20, "{named}");
}

/// The commands that a help lists.
fn listed(help: &str) -> Vec<&str> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

#[test]
fn the_help_of_every_command_and_of_every_group_of_them_has_an_example() {
    let mut seen = 1;
    for command in COMMANDS {
        let shown = run(&[*command, &["--help"]].concat());
        let example = format!("\n  quorate {}", command.join(" "));
        assert!(shown.out.contains("\nExample") && shown.out.contains(&example), "{command:?}: {}", shown.out);
        for name in listed(&shown.out) {
            assert!(COMMANDS.contains(&&[*command, &[name]].concat()[..]), "{command:?} {name}: not tested");
            seen += 1;
        }
    }
    assert_eq!(seen, COMMANDS.len(), "each but the first is listed by another");
}

#[test]
fn a_wrong_command_line_is_answered_in_one_line_that_names_option_and_value() {
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &["a command is missing", "quorate --help"]),
        (&["config"], &["a command is missing", "quorate config --help"]),
        (&["serv"], &["'serv'", "'serve'"]),
        (&["serve"], &["--config", "--id"]),
        (&["serve", "--conf", "x", "--id", "1"], &["'--conf'", "'--config'", "quorate serve --help"]),
        (&["serve", "--config"], &["--config"]),
        (&["serve", "--config", "a", "--config", "b", "--id", "1"], &["--config", "multiple times"]),
        (&["serve", "--config", "a", "--id", "one"], &["--id", "'one'", "whole number"]),
        (&["serve", "--config", "a", "--id", "-1"], &["--id", "'-1'"]),
        (&["serve", "--config", "a", "--id", ""], &["--id", "empty"]),
        (&["serve", "--config", "a", "--id", "1", "b c"], &["'b c'"]),
        (&["init", "--config", "a", "--id", "1"], &["--bootstrap"]),
        (&["config", "new", "--out", "x", "--replicas", "1e9"], &["--replicas", "'1e9'"]),
        (&["config", "new", "--out", "x", "--replicas", "3", "--hosts", "a"], &["--replicas", "--hosts"]),
        (&["config", "new", "--out", "x", "--replicas", "3", "--base-port", "65536"], &["--base-port", "65536"]),
        (&["config", "new", "--out", "x", "--replicas", "3", "--ports", "some"], &["--ports", "'some'", "free, base"]),
        (&["config", "check"], &["<FILE>"]),
        (&["cluster", "wait", "--config", "x", "--timeout-s", "0"], &["--timeout-s", "1..=86400"]),
        (&["cluster", "wait", "--config", "x", "--timeout-s", "3s"], &["--timeout-s", "'3s'"]),
        (&["wal"], &["a command is missing", "quorate wal --help"]),
        (&["wal", "check"], &["<DIR>", "quorate wal check --help"]),
        (&["wal", "dump", "x", "--output", "xml"], &["--output", "'xml'", "text, json"]),
        (&["cluster", "status", "--config", "x", "--output", "xml"], &["--output", "'xml'", "text, json"]),
    ];
    for (arguments, named) in cases {
        let refused = run(arguments);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{arguments:?}");
        assert_eq!(refused.err.lines().count(), 1, "{arguments:?}: {}", refused.err);
        assert!(refused.err.starts_with("error: "), "{}", refused.err);
        for name in *named {
            assert!(refused.err.contains(name), "{name} is not in {}", refused.err);
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_crash() {
    use std::process::Stdio;
    let mut shown = common::quorate().args(["config", "schema"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(shown.stdout.take());
    assert_eq!(shown.wait().unwrap().code(), Some(0));
}
