//! Modules of a crate form no import circles.
//!
//! cargo-modules finds the circles; this file calls it for each package and shows what it printed.

use std::process::Command;

use crate::error::Error;
use crate::workspace::{Package, Workspace};

use super::{Finding, Report, Tree};

/// Only imports count: neither owners, nor items, nor crates of others.
const OPTIONS: &[&str] = &["modules", "dependencies", "--acyclic", "--no-externs", "--no-sysroot"];

pub fn report(tree: &Tree) -> Result<Report, Error> {
    let mut findings = Vec::new();
    let mut targets = 0;
    for package in &tree.workspace.packages {
        for target in targets_of(&tree.workspace, package) {
            targets += 1;
            findings.extend(check(&tree.workspace, package, &target)?);
        }
    }
    Ok(Report { findings, figure: format!("{targets} targets without import circles") })
}

/// The arguments that choose the library, or else each program, of a package.
fn targets_of(workspace: &Workspace, package: &Package) -> Vec<Vec<String>> {
    let libraries = ["lib", "cdylib", "staticlib"];
    if libraries.iter().any(|kind| workspace.targets(&package.name, kind).next().is_some()) {
        return vec![vec!["--lib".into()]];
    }
    workspace.targets(&package.name, "bin").map(|name| vec!["--bin".into(), name.into()]).collect()
}

fn check(
    workspace: &Workspace,
    package: &Package,
    target: &[String],
) -> Result<Option<Finding>, Error> {
    let mut cargo = Command::new("cargo");
    cargo.args(OPTIONS).args(["--package", &package.name]).args(target);
    let output = cargo
        .current_dir(&workspace.root)
        .output()
        .map_err(|source| Error::Start { program: "cargo modules".into(), source })?;
    if output.status.success() {
        return Ok(None);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Ok(Some(Finding {
        place: package.name.clone(),
        what: circle(&errors),
        next: "Move the shared item into a module below both; see docs/map.md.",
    }))
}

/// The part of the errors that shows the circle; all of them where there is none.
fn circle(errors: &str) -> String {
    let at = errors.find("Circular").or_else(|| errors.find("ircular"));
    at.map_or(errors, |at| &errors[at..]).trim().to_owned()
}
