//! Wrong uses of the command line, and the texts that they print.
//!
//! Each file of `misuse/` is a dialogue with a shell, on a node of its own with the VM `shop`:
//!
//! | line | meaning |
//! |---|---|
//! | `# ...` | a comment |
//! | `& COMMAND` | a command in the background, until the end of the file |
//! | `$ COMMAND` | a command; the next lines are its output and `[exit CODE]` |
//!
//! A change of a text shows here as a difference. With `M3_UPDATE=1`, the test writes the present
//! texts into the files; read them before you commit them. Each says what happened, why, and what
//! to do next.
#![allow(clippy::unwrap_used)]

use crate::fixture::{Fixture, Running};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const TRIED_FOR: Duration = Duration::from_secs(60);

/// Commands that begin each file.
const PRELUDE: &str = "m3 vm create shop --grace 100 >/dev/null";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/misuse")
}

/// Text without the parts that differ from run to run.
fn normalised(fixture: &Fixture, text: &str) -> String {
    let programs = Path::new(env!("CARGO_BIN_EXE_m3")).parent().unwrap();
    let text = text.replace(fixture.base().to_str().unwrap(), "BASE");
    let text = text.replace(programs.to_str().unwrap(), "BIN");
    let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    ["pid ", "process ", "daemon ", "user ", "kill ", "kill -9 ", "-CONT ", "endpoint "]
        .iter()
        .fold(text, |text, word| without_number(&text, word))
}

/// Replaces the digits that follow a word.
fn without_number(text: &str, word: &str) -> String {
    let mut parts = text.split(word);
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let number = if rest.len() < part.len() { "N" } else { "" };
        write!(whole, "{word}{number}{rest}").unwrap();
    }
    whole
}

/// Runs a command; returns its exit code and its output. A command that does not wait gives the
/// daemon 100 ms, which a busy machine may need for others, so it is tried again for a minute.
fn run(fixture: &Fixture, command: &str) -> (i32, String) {
    let begun = Instant::now();
    loop {
        let ended = fixture.shell(&format!("{{ {command}\n}} 2>&1")).wait();
        let said = normalised(fixture, &ended.out);
        let is_late = said.contains("does not answer in time, and it is not stopped");
        let is_tried_again = command.contains("--timeout 0") && begun.elapsed() < TRIED_FOR;
        if !is_late || !is_tried_again {
            return (ended.code, said);
        }
    }
}

/// The dialogue with the outputs that its commands have now.
fn replay(dialogue: &str) -> String {
    let fixture = Fixture::new();
    assert_eq!(fixture.shell(PRELUDE).wait().code, 0);
    let mut background: Vec<Running> = Vec::new();
    let mut replayed = String::new();
    for line in dialogue.lines() {
        match line.split_at_checked(2) {
            Some(("& ", command)) => {
                writeln!(replayed, "{line}").unwrap();
                background.push(fixture.shell(command));
            }
            Some(("$ ", command)) => {
                let (code, said) = run(&fixture, command);
                let said = if said.is_empty() || said.ends_with('\n') { said } else { said + "\n" };
                writeln!(replayed, "{line}\n{said}[exit {code}]\n").unwrap();
            }
            _ if line.starts_with('#') => writeln!(replayed, "{line}").unwrap(),
            // The former output.
            _ => {}
        }
    }
    for running in background {
        running.kill();
    }
    replayed
}

fn check(name: &str) {
    let path = folder().join(name);
    let expected = std::fs::read_to_string(&path).unwrap();
    let found = replay(&expected);
    if std::env::var_os("M3_UPDATE").is_some() {
        std::fs::write(&path, found).unwrap();
        return;
    }
    let expected: Vec<&str> = expected.lines().filter(|line| !line.is_empty()).collect();
    let found: Vec<&str> = found.lines().filter(|line| !line.is_empty()).collect();
    let mut context = "";
    for at in 0..expected.len().max(found.len()) {
        let (expected, found) = (expected.get(at), found.get(at));
        context = found.filter(|line| line.starts_with("$ ")).unwrap_or(&context);
        assert_eq!(
            found, expected,
            "{name}, after {context:?}; if the new text is right, set M3_UPDATE=1 and run again"
        );
    }
}

/// A test for each file, and a check that no file is left out.
macro_rules! dialogues {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(concat!(stringify!($name), ".txt"));
        })*

        #[test]
        fn each_file_has_a_test() {
            let mut files: Vec<String> = std::fs::read_dir(folder())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            files.sort();
            let mut tests = vec![$(concat!(stringify!($name), ".txt")),*];
            tests.sort_unstable();
            assert_eq!(files, tests);
        }
    };
}

dialogues! {
    arguments
    daemons
    environment
    files
    json
    messages
    sockets
    targets
    tracing
    vms
}
