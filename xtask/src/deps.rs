//! `cargo xtask deps`: the rules of the house that a compiler does not check.
//!
//! Each check is a pure function from what was read to findings, so each is tested with a planted fault.

mod arrows;
mod lifts;
mod named;
mod sources;

use std::fmt;
use std::fs;

use crate::error::Error;
use crate::tree;
use crate::workspace::Workspace;

/// One broken rule: where, what, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// A file, or a crate.
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

/// Runs all checks and prints what they find; the last line is the figure of the whole.
///
/// # Errors
/// Where a rule is broken, or something cannot be read.
pub fn run(workspace: &Workspace) -> Result<(), Error> {
    let code = tree::sources(&workspace.root, sources::ENDINGS)?;
    let manifests = named::manifests(&workspace.root)?;
    let adr_path = workspace.root.join(named::ADR);
    let adr = fs::read_to_string(&adr_path).map_err(|e| Error::read(&adr_path, e))?;

    let mut findings = arrows::check(&workspace.packages);
    findings.extend(lifts::check_files(&code));
    findings.extend(lifts::check_manifests(&manifests));
    findings.extend(sources::check(&code));
    findings.extend(named::check(&manifests, &adr));

    for finding in &findings {
        eprintln!("{finding}");
    }
    if !findings.is_empty() {
        eprintln!("deps: {} rules broken", findings.len());
        return Err(Error::Reported);
    }
    println!(
        "{} crates, {} arrows, {} dependencies named, {} files: all as the rules say",
        workspace.packages.len(),
        arrows::count(&workspace.packages),
        named::third_party(&manifests).len(),
        code.len()
    );
    Ok(())
}
