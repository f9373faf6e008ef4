//! `cargo xtask check`: the rules of the project that no compiler and no other tool checks.
//!
//! Each check is a pure function from files to findings, so a unit test plants a defect in it. To
//! add a check, write a module with such a function and add a row to [`CHECKS`].
//!
//! Other tools check the rest: rustfmt, clippy, cargo-machete (dependencies that nothing uses) and
//! cargo-modules (import circles, in `circles.rs`). `ci/steps.rs` lists all of them.

mod circles;
mod dependencies;
mod direction;
mod fences;
mod lengths;
mod manifests;
mod paths;
mod public_api;
mod sizes;
mod unsafe_code;
mod width;

use std::fmt;
use std::fs;

use crate::error::Error;
use crate::tree::{self, Source};
use crate::workspace::Workspace;

use self::dependencies::Manifest;

/// A broken rule: where, how, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// A file with its line, or a crate.
    pub place: String,
    /// What is wrong there.
    pub what: String,
    /// What to do about it.
    pub next: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    {}", self.place, self.what, self.next)
    }
}

/// What the checks read.
pub struct Tree {
    workspace: Workspace,
    sources: Vec<Source>,
    manifests: Vec<Manifest>,
}

/// What a check found, and the figure to show where it found nothing.
pub struct Report {
    findings: Vec<Finding>,
    figure: String,
}

/// A check: its name, and the function that makes its report.
type Check = (&'static str, fn(&Tree) -> Result<Report, Error>);

/// The checks that read files alone. `cargo xtask check` runs them.
const CHECKS: &[Check] = &[
    ("direction", direction::report),
    ("dependencies", dependencies::report),
    ("manifests", manifests::report),
    ("unsafe", unsafe_code::report),
    ("lengths", lengths::report),
    ("width", width::report),
    ("fences", fences::report),
    ("paths", paths::report),
];

/// The checks that need another tool or a build. They run where they are named.
const NAMED_CHECKS: &[Check] =
    &[("circles", circles::report), ("public-api", public_api::report), ("sizes", sizes::report)];

/// What to check.
#[derive(clap::Args)]
pub struct Args {
    /// The checks to run: direction, dependencies, manifests, unsafe, lengths, width, fences,
    /// paths (these are the default), circles, public-api, sizes
    names: Vec<String>,
}

/// Runs checks and prints what they find; the last line is the figure of the whole.
///
/// # Errors
/// Where a rule is broken, a check is unknown, or a file cannot be read.
pub fn run(workspace: Workspace, args: &Args) -> Result<(), Error> {
    let mut chosen: Vec<&Check> = Vec::new();
    for name in &args.names {
        let known = CHECKS.iter().chain(NAMED_CHECKS).find(|(known, _)| known == name);
        chosen.push(known.ok_or_else(|| Error::Unknown {
            what: format!("check `{name}`"),
            next: "`cargo xtask check --help` names them.",
        })?);
    }
    if chosen.is_empty() {
        chosen.extend(CHECKS);
    }
    let tree = Tree::read(workspace)?;
    let mut broken = 0;
    for (name, report) in chosen {
        let Report { findings, figure } = report(&tree)?;
        broken += findings.len();
        for finding in &findings {
            println!("{finding}");
        }
        match findings.len() {
            0 => println!("{name}: {figure}"),
            count => println!("{name}: {count} findings"),
        }
    }
    if broken > 0 { Err(Error::Reported) } else { Ok(()) }
}

impl Tree {
    fn read(workspace: Workspace) -> Result<Self, Error> {
        let sources =
            tree::sources(&workspace.root, &["rs", "c", "h", "py", "sh", "md", "yml", "lua"])?;
        let manifests = dependencies::manifests(&workspace.root)?;
        Ok(Self { workspace, sources, manifests })
    }

    /// The text of one file.
    fn text(&self, path: &str) -> Result<String, Error> {
        let path = self.workspace.root.join(path);
        fs::read_to_string(&path).map_err(|e| Error::read(&path, e))
    }
}
