//! `cargo xtask check RULE...`: the rules of the project that no compiler and no other tool checks.
//!
//! Each check is a pure function from files to findings, so a unit test plants a defect in it. To
//! add a check, write a module with such a function and add a row to [`CHECKS`].
//!
//! Other tools check the rest: rustfmt, clippy, cargo-machete (dependencies that nothing uses).
//! `ci/steps.rs` lists all of them.

mod circles;
mod dependencies;
mod direction;
mod fences;
mod finding;
mod input;
mod lengths;
mod links;
mod locks;
mod manifests;
mod orphans;
mod paths;
mod public_api;
mod sizes;
mod unsafe_code;
mod width;

use crate::error::Error;
use crate::workspace::Workspace;

use self::finding::Report;
use self::input::Tree;

/// A check: its name, and the function that makes its report.
type Check = (&'static str, fn(&Tree) -> Result<Report, Error>);

/// The checks that read files alone.
const CHECKS: &[Check] = &[
    ("direction", direction::report),
    ("dependencies", dependencies::report),
    ("manifests", manifests::report),
    ("unsafe", unsafe_code::report),
    ("lengths", lengths::report),
    ("width", width::report),
    ("fences", fences::report),
    ("paths", paths::report),
    ("links", links::report),
    ("circles", circles::report),
    ("orphans", orphans::report),
    ("locks", locks::report),
];

/// The checks that need a build.
const NAMED_CHECKS: &[Check] = &[("public-api", public_api::report), ("sizes", sizes::report)];

fn named(name: &str) -> Option<&'static Check> {
    CHECKS.iter().chain(NAMED_CHECKS).find(|(known, _)| *known == name)
}

/// Whether all of these words name rules; an empty list names none.
pub fn are_rules(names: &[String]) -> bool {
    !names.is_empty() && names.iter().all(|name| named(name).is_some())
}

/// Checks the named rules and prints what breaks them; the last line is the figure of the whole.
///
/// # Errors
/// Where a rule is broken, or a file cannot be read.
pub fn run(workspace: Workspace, names: &[String]) -> Result<(), Error> {
    let chosen: Vec<&Check> = names.iter().filter_map(|name| named(name)).collect();
    let tree = Tree::read(workspace)?;
    let is_single = chosen.len() == 1;
    let mut broken = 0;
    for (name, report) in chosen {
        let Report { findings, figure } = report(&tree)?;
        broken += findings.len();
        for finding in &findings {
            println!("{finding}");
        }
        let figure = match findings.len() {
            0 => figure,
            count => format!("{count} findings"),
        };
        // The line of the step names the rule already.
        if is_single { println!("{figure}") } else { println!("{name}: {figure}") }
    }
    if broken > 0 { Err(Error::Reported) } else { Ok(()) }
}
