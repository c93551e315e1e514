//! Files that are no configuration at all (cases V01, V03, V18): each is refused by the name of what it is.

mod common;

use common::{cluster_text, template_fault};
use quorate_config::{ConfigErrors, load_cluster, load_template, parse_cluster, parse_template};
use std::path::Path;

fn refused(path: &Path) -> String {
    let errors: ConfigErrors = load_template(path).expect_err("no configuration file");
    errors.to_string().replace(&path.display().to_string(), "PATH")
}

#[test]
fn v01_an_empty_file_is_called_empty_and_the_form_is_named() {
    let empty = "t.json: the file is empty; it must hold one JSON object: { … }";
    for text in ["", " ", "\n\r\n\t ", "\u{feff}", "// only a comment\n", "/* only */"] {
        assert_eq!(template_fault(text), empty, "{text:?}");
    }
}

#[test]
fn v01_a_top_that_is_no_object_is_named() {
    for (text, kind) in
        [("null", "null"), ("[]", "a list"), ("\"raft\"", "a string"), ("17", "a number"), ("true", "a boolean")]
    {
        let expected = format!("t.json:1:1: $: the top of the file is {kind}; it must be one JSON object: {{ … }}");
        assert_eq!(template_fault(text), expected);
    }
}

#[test]
fn v03_a_utf8_byte_order_mark_is_accepted() {
    let text = format!("\u{feff}{}", cluster_text(""));
    assert!(parse_cluster("c.json", text.as_bytes()).is_ok());
}

#[test]
fn v03_utf16_and_utf32_are_refused_by_name() {
    let text = "{\"max_process_txn\": 10}";
    let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let wide: Vec<u8> = text.chars().flat_map(|character| u32::from(character).to_le_bytes()).collect();
    for (bytes, name) in [
        ([&[0xff, 0xfe][..], &little].concat(), "UTF-16 (little-endian)"),
        ([&[0xfe, 0xff][..], &big].concat(), "UTF-16 (big-endian)"),
        (little, "UTF-16 (little-endian, without a byte-order mark)"),
        (big, "UTF-16 (big-endian, without a byte-order mark)"),
        ([&[0xff, 0xfe, 0, 0][..], &wide].concat(), "UTF-32 (little-endian)"),
    ] {
        let errors = parse_template("t.json", &bytes).unwrap_err().to_string();
        assert_eq!(errors, format!("t.json: the text is in {name}; save it as UTF-8"));
    }
}

#[test]
fn bytes_that_are_no_utf8_are_refused_with_their_line() {
    let errors = parse_template("t.json", b"{\n\n\"a\": \"\xe9\"}").unwrap_err().to_string();
    assert_eq!(errors, "t.json: the text is not UTF-8: line 3 has the byte 0xe9 where no character can be");
}

#[test]
fn a_syntax_error_names_line_and_column() {
    let fault = template_fault("{\n  \"max_process_txn\": 10\n  \"worker_num\": 1\n}");
    let expected = "t.json:3:3: not JSON: expected ',' or '}' (opened at line 1, column 1), found '\"'";
    assert_eq!(fault, expected);
}

#[test]
fn v18_a_path_that_is_no_regular_file_is_named_as_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert_eq!(refused(folder.path()), "PATH: this is a folder; a configuration file is needed");
    assert_eq!(refused(&path("nothing")), "PATH: no such file");
    assert_eq!(refused(&path("nothing/below")), "PATH: no such file");

    std::os::unix::fs::symlink("gone.json", path("link")).unwrap();
    assert_eq!(refused(&path("link")), "PATH: this is a symbolic link to gone.json, which does not exist");

    let made = std::process::Command::new("mkfifo").arg(path("pipe")).status().unwrap();
    assert!(made.success());
    let pipe = "PATH: this is a pipe; a regular file is needed, because every replica reads it again";
    assert_eq!(refused(&path("pipe")), pipe);

    let _listener = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    assert_eq!(refused(&path("socket")), "PATH: this is a socket; a regular file is needed");
    assert_eq!(refused(Path::new("/dev/null")), "PATH: this is a device; a regular file is needed");
}

#[test]
fn v18_odd_but_sound_paths_are_read() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["with space.json", "übung.json", "~home.json", "-dash.json"] {
        let path = folder.path().join(name);
        std::fs::write(&path, cluster_text("")).unwrap();
        assert!(load_cluster(&path).is_ok(), "{name}");
    }
    let link = folder.path().join("link.json");
    std::os::unix::fs::symlink("with space.json", &link).unwrap();
    assert!(load_cluster(&link).is_ok());
}

#[test]
fn a_file_longer_than_any_configuration_is_refused_without_reading_it_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.json");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    assert_eq!(refused(&path), "PATH: longer than 1048576 bytes, so it is no configuration file");
}

#[test]
fn reading_and_checking_leave_the_folder_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.json");
    std::fs::write(&path, cluster_text("\"recovery_path\": \"data\", ")).unwrap();
    load_cluster(&path).unwrap();
    std::fs::write(&path, "{\"recovery_path\": \"data\", \"nonsense\": 1}").unwrap();
    load_cluster(&path).unwrap_err();
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["c.json"]);
}
