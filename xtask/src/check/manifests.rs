//! Each published package has the fields that a registry and docs.rs show, and licence files.
//!
//! Packages of `lab/`, `tests/` and xtask are not published.
//!
//! `cargo package --workspace` finds a package of the workspace only if it may be published. So the
//! packages on which others of these folders depend lack `publish = false`.

use std::path::Path;

use crate::error::Error;

use super::finding::{Finding, Report};
use super::input::{Manifest, Tree};

/// The fields of `[package]`, of the package or inherited from the workspace.
const FIELDS: &[&str] = &[
    "version",
    "description",
    "readme",
    "keywords",
    "categories",
    "repository",
    "documentation",
    "license",
    "rust-version",
];

/// Packages that are not published, and on which other packages of their folders depend.
const UNPUBLISHED_BASES: &[&str] = &["lab/report", "tests/fixture", "tests/model"];

/// The licence files beside each published manifest; links to those of the root.
const LICENCES: &[&str] = &["LICENSE-APACHE", "LICENSE-MIT"];

pub fn report(tree: &Tree) -> Result<Report, Error> {
    let root = &tree.workspace.root;
    let mut findings = Vec::new();
    let mut published = 0;
    for package in &tree.workspace.packages {
        let folder = tree.workspace.folder(package);
        let path = folder.join("Cargo.toml").to_string_lossy().into_owned();
        if UNPUBLISHED_BASES.iter().any(|base| folder.starts_with(base)) {
            continue;
        }
        if package.is_published() != folder.starts_with("crates") {
            findings.push(Finding {
                location: path,
                problem: format!("publish is {}", package.is_published()),
                next: "Only packages of crates/ are published: set `publish = false` elsewhere.",
            });
        } else if package.is_published() {
            published += 1;
            let manifest = tree.manifests.iter().find(|manifest| manifest.path == path);
            findings.extend(manifest.into_iter().flat_map(fields));
            findings.extend(files(&root.join(folder), &path));
        }
    }
    findings.extend(tree.manifests.iter().flat_map(versions));
    Ok(Report { findings, figure: format!("{published} packages fit for a registry") })
}

/// The fields that the manifest lacks.
fn fields(manifest: &Manifest) -> Vec<Finding> {
    let package = manifest.table.get("package").and_then(toml::Value::as_table);
    let missing = |problem: String| Finding {
        location: manifest.path.clone(),
        problem,
        next: "Registries and docs.rs show it; see a neighbour for its form.",
    };
    let mut findings: Vec<Finding> = FIELDS
        .iter()
        .filter(|field| package.is_none_or(|package| !package.contains_key(**field)))
        .map(|field| missing(format!("[package] has no `{field}`")))
        .collect();
    let docs_rs = package.and_then(|p| p.get("metadata")?.get("docs")?.get("rs"));
    if docs_rs.is_none() {
        findings.push(missing("there is no [package.metadata.docs.rs]".into()));
    }
    findings
}

/// The files that must lie beside the manifest.
fn files(folder: &Path, manifest: &str) -> Vec<Finding> {
    let wanted = LICENCES.iter().chain(&["README.md"]);
    wanted
        .filter(|name| !folder.join(name).is_file())
        .map(|name| Finding {
            location: manifest.to_owned(),
            problem: format!("there is no {name} beside it"),
            next: "Link the licence files of the root; write a short README.md.",
        })
        .collect()
}

/// Shared dependencies with a path and no version: cargo cannot package their users.
fn versions(manifest: &Manifest) -> Vec<Finding> {
    let shared = manifest.table.get("workspace").and_then(|w| w.get("dependencies"));
    let shared = shared.and_then(toml::Value::as_table).into_iter().flatten();
    shared
        .filter(|(_, value)| value.get("path").is_some() && value.get("version").is_none())
        .map(|(name, _)| Finding {
            location: manifest.path.clone(),
            problem: format!("the dependency `{name}` has a path and no version"),
            next: "Add the `version` of the workspace beside the path.",
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(text: &str) -> Manifest {
        Manifest { path: "Cargo.toml".into(), table: text.parse().expect("valid TOML") }
    }

    #[test]
    fn a_missing_field_fails() {
        let lines: String = FIELDS.iter().map(|field| format!("{field} = \"x\"\n")).collect();
        let whole = format!("[package]\n{lines}[package.metadata.docs.rs]\nall-features = true\n");
        assert_eq!(fields(&manifest(&whole)), []);
        for field in FIELDS {
            let text = whole.replace(&format!("\n{field} = \"x\"\n"), "\n");
            assert!(fields(&manifest(&text))[0].problem.contains(field), "{field}");
        }
        assert_eq!(fields(&manifest(&format!("[package]\n{lines}"))).len(), 1);
    }

    #[test]
    fn a_path_without_a_version_fails() {
        let found = |value: &str| {
            versions(&manifest(&format!("[workspace.dependencies]\na = {value}"))).len()
        };
        assert_eq!(found("{ path = \"crates/a\" }"), 1);
        assert_eq!(found("{ path = \"crates/a\", version = \"0.1.0\" }"), 0);
        assert_eq!(found("\"1\""), 0);
    }

    #[test]
    fn missing_files_fail() {
        assert_eq!(files(Path::new("/nowhere"), "Cargo.toml").len(), 3);
    }
}
