//! `cargo xtask site`: builds the book of `docs/` into the folder that `book.toml` names.
//!
//! mdbook ends well after most faults and only prints them, so this command reads its output.

use std::process::Command;

use crate::error::Error;
use crate::workspace::Workspace;

/// Builds the book.
///
/// # Errors
/// Where mdbook is missing, fails, or warns.
pub fn run(workspace: &Workspace) -> Result<(), Error> {
    let mut mdbook = Command::new("mdbook");
    mdbook.args(["build", "docs"]).current_dir(&workspace.root);
    let output =
        mdbook.output().map_err(|source| Error::Start { program: "mdbook".into(), source })?;
    let text = String::from_utf8_lossy(&output.stderr);
    let faults: Vec<&str> = text.lines().filter(|line| is_fault(line)).collect();
    faults.iter().for_each(|line| println!("{line}"));
    if !output.status.success() {
        println!("{text}");
        return Err(Error::Failed { command: "mdbook build docs".into(), status: output.status });
    }
    if !faults.is_empty() {
        return Err(Error::Reported);
    }
    println!("the book is built without a warning");
    Ok(())
}

/// Whether a line of mdbook's log is a warning or an error.
fn is_fault(line: &str) -> bool {
    line.split_whitespace().any(|word| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphabetic());
        ["WARN", "ERROR"].contains(&word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_and_errors_are_faults() {
        assert!(is_fault("2026-01-01 [ERROR] (mdbook): unknown field `x`"));
        assert!(is_fault(" WARN mdbook: no such file"));
        assert!(!is_fault(" INFO Book building has started"));
    }
}
