//! The workspace denies `unsafe_code`. A file may lift the lint only below a path of [`MAY_LIFT`].

use crate::error::Error;
use crate::tree::Source;

use super::finding::{Finding, Report};
use super::input::{Manifest, Tree};

/// Where a file may lift `unsafe_code`: beginnings of paths.
const MAY_LIFT: &[&str] = &[
    "crates/sys/",
    "crates/shm/",
    "crates/link/",
    "crates/capi/",
    // Python's buffer protocol hands out addresses.
    "crates/python/src/block.rs",
    // Whether the interpreter ends is known to its C interface alone.
    "crates/python/src/interpreter.rs",
    "crates/sockets/",
    "crates/shim/",
    "crates/shim-preload/",
    "lab/bench/src/raw",
    // The library that is measured gives pointers.
    "lab/peers/src/shmem_ipc.rs",
    // A mapping that outlives its descriptor.
    "examples/files/tests/mount.rs",
    // Hostile members and tests of signals need calls that the product does not have.
    "tests/conformance/src/partner/",
    "tests/conformance/tests/copy/slow_file.rs",
    "tests/fixture/src/",
    "tests/hostile/src/syscalls.rs",
    "tests/hostile/tests/starter.rs",
    "tests/users/src/namespaces.rs",
];

const LINT: &str = "unsafe_code";
const LEVELS: &[&str] = &["allow(", "warn(", "expect("];

pub fn report(tree: &Tree) -> Result<Report, Error> {
    let mut findings = check_files(&tree.sources);
    findings.extend(check_manifests(&tree.manifests));
    let lifted = tree.sources.iter().filter(|s| s.ends_in(&["rs"]) && lifts(&s.text)).count();
    Ok(Report { findings, figure: format!("{lifted} files lift the lint, all where they may") })
}

/// Finds the files outside the allow-list that lift the lint.
fn check_files(sources: &[Source]) -> Vec<Finding> {
    sources
        .iter()
        .filter(|source| source.ends_in(&["rs"]) && !may_lift(&source.path) && lifts(&source.text))
        .map(|source| Finding {
            location: source.path.clone(),
            problem: format!("it lifts `{LINT}`"),
            next: "Move the unsafe part behind a safe call of m3ipc-sys, m3ipc-shm or m3ipc-link.",
        })
        .collect()
}

/// Finds manifests without the lints of the workspace, and a workspace that does not deny.
fn check_manifests(manifests: &[Manifest]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Manifest { path, table } in manifests {
        let lints = table.get("lints");
        let inherits =
            lints.and_then(|l| l.get("workspace")).and_then(toml::Value::as_bool) == Some(true);
        if table.contains_key("package")
            && !table.contains_key("workspace")
            && !inherits
            && !may_lift(path)
        {
            findings.push(Finding {
                location: path.clone(),
                problem: "it does not take the lints of the workspace".into(),
                next: "Add `[lints]` with `workspace = true`.",
            });
        }
        if path == "Cargo.toml" && !is_denied(table) {
            findings.push(Finding {
                location: path.clone(),
                problem: format!("`{LINT}` is not denied for the workspace"),
                next: "Set it to \"deny\" under [workspace.lints.rust].",
            });
        }
    }
    findings
}

fn may_lift(path: &str) -> bool {
    MAY_LIFT.iter().any(|prefix| path.starts_with(prefix))
}

fn is_denied(table: &toml::Table) -> bool {
    let level = table
        .get("workspace")
        .and_then(|w| w.get("lints"))
        .and_then(|l| l.get("rust"))
        .and_then(|r| r.get(LINT))
        .and_then(|l| l.as_str().or_else(|| l.get("level")?.as_str()));
    matches!(level, Some("deny" | "forbid"))
}

/// Whether an attribute of this text lowers the lint. Comments do not count.
fn lifts(text: &str) -> bool {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.chars().filter(|c| !c.is_whitespace()))
        .collect();
    code.match_indices(LINT).any(|(at, _)| {
        let before = &code[..at];
        let attribute = before.rfind("#[").max(before.rfind("#![")).map(|start| &before[start..]);
        // A bracket closes between: the attribute ended before the word.
        attribute.is_some_and(|a| !a.contains(']') && LEVELS.iter().any(|level| a.contains(level)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: String) -> Source {
        Source { path: path.into(), text }
    }

    #[test]
    fn a_lift_fails_outside_the_list() {
        for level in ["allow", "expect", "warn"] {
            let text = format!("//! Doc.\n#![{level}(dead_code,\n    {LINT})]\nfn f() {{}}\n");
            assert_eq!(check_files(&[file("tests/model/src/lib.rs", text.clone())]).len(), 1);
            assert_eq!(check_files(&[file("lab/bench/src/pairs.rs", text.clone())]).len(), 1);
            assert_eq!(check_files(&[file("crates/sys/src/futex.rs", text.clone())]), []);
            assert_eq!(check_files(&[file("lab/bench/src/raw/bounce.rs", text)]), []);
        }
    }

    #[test]
    fn comments_denials_and_conditional_lifts() {
        let lifted = |text: String| lifts(&text);
        assert!(!lifted(format!("// #![allow({LINT})]\n")));
        assert!(!lifted(format!("#![deny({LINT})]\n")));
        assert!(!lifted(format!("#[allow(dead_code)]\nconst {LINT}: u8 = 0;\n")));
        assert!(lifted(format!("#![cfg_attr(loom, allow({LINT}))]\n")));
    }

    #[test]
    fn a_manifest_must_take_the_lints() {
        let manifest = |path: &str, text: &str| Manifest {
            path: path.into(),
            table: text.parse().expect("the test's own text is valid TOML"),
        };
        let loose = "[package]\nname = \"x\"";
        assert_eq!(check_manifests(&[manifest("crates/wire/Cargo.toml", loose)]).len(), 1);
        assert_eq!(check_manifests(&[manifest("crates/capi/Cargo.toml", loose)]), []);
        let tight = "[package]\nname = \"x\"\n[lints]\nworkspace = true";
        assert_eq!(check_manifests(&[manifest("crates/wire/Cargo.toml", tight)]), []);

        let top = |level: &str| format!("[workspace.lints.rust]\n{LINT} = \"{level}\"");
        assert_eq!(check_manifests(&[manifest("Cargo.toml", &top("warn"))]).len(), 1);
        assert_eq!(check_manifests(&[manifest("Cargo.toml", &top("deny"))]), []);
    }
}
