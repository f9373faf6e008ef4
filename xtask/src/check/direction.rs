//! Dependencies between our crates point down only (design 13).
//!
//! [`TABLE`] lists the crates that each crate may use. An ordinary or build dependency must stand
//! in it. A dev-dependency of a crate may reach each other crate, as long as the whole graph has no
//! circle. No package of `crates/` uses `lab/` or `tests/`, not even as a dev-dependency.

use std::path::Path;

use crate::error::Error;
use crate::workspace::{Dependency, Package, Workspace};

use super::finding::{Finding, Report};
use super::input::Tree;

/// The crates below the public API.
const BELOW: &[&str] =
    &["m3ipc-area", "m3ipc-link", "m3ipc-wire", "m3ipc-shm", "m3ipc-sys", "m3ipc-abi"];

/// A package and the packages that it may use.
struct Row {
    name: &'static str,
    /// Whether it may use `m3ipc` and all of [`BELOW`].
    api: bool,
    /// The packages that it may use beside those.
    more: &'static [&'static str],
}

const fn low(name: &'static str, more: &'static [&'static str]) -> Row {
    Row { name, api: false, more }
}

const fn high(name: &'static str, more: &'static [&'static str]) -> Row {
    Row { name, api: true, more }
}

/// The plan of the tree. A new crate needs a row here and a decision record in `docs/adr/`.
const TABLE: &[Row] = &[
    low("m3ipc-abi", &[]),
    low("m3ipc-sys", &["m3ipc-abi"]),
    low("m3ipc-shm", &["m3ipc-sys", "m3ipc-abi"]),
    low("m3ipc-link", &["m3ipc-shm", "m3ipc-sys", "m3ipc-abi"]),
    low("m3ipc-area", &["m3ipc-shm", "m3ipc-sys", "m3ipc-abi"]),
    low("m3ipc-wire", &["m3ipc-abi"]),
    low("m3ipc-fabric", &["m3ipc-abi"]),
    low("m3ipc", BELOW),
    high("m3ipc-daemon", &[]),
    high("m3ipc-calls", &[]),
    high("m3ipc-supervise", &[]),
    high("m3ipc-sockets", &[]),
    high("m3ipc-capi", &["m3ipc-sockets"]),
    high("m3ipc-python", &[]),
    low("m3ipc-shim", &["m3ipc-link", "m3ipc-shm", "m3ipc-sys", "m3ipc-abi"]),
    low("m3ipc-shim-preload", &["m3ipc-shim"]),
    high("m3ipc-cli", &["m3ipc-daemon", "m3ipc-sockets", "m3ipc-shim"]),
    high("m3ipc-files", &["m3ipc-calls"]),
    high("m3ipc-bench", &["m3ipc-report", "m3ipc-sockets", "m3ipc-shim"]),
    low("m3ipc-report", &[]),
    high("m3ipc-proxy", &["m3ipc-fabric"]),
    low("m3ipc-registry", &["m3ipc-fabric", "m3ipc-sys", "m3ipc-abi"]),
    high("m3ipc-model", &[]),
    low("xtask", &[]),
];

/// Packages of `tests/` with no row of their own may use each package of `crates/` and `tests/`.
const TESTS: &str = "tests";

pub fn report(tree: &Tree) -> Result<Report, Error> {
    let count: usize = tree.workspace.packages.iter().map(|package| ours(package).count()).sum();
    Ok(Report {
        findings: check(&tree.workspace),
        figure: format!("{} crates, {count} dependencies", tree.workspace.packages.len()),
    })
}

/// Finds each dependency that the plan does not allow, each unknown crate, and a circle.
fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        let folder = workspace.folder(package);
        findings.extend(name(package, folder));
        for dependency in ours(package) {
            findings.extend(dependency_of(workspace, package, folder, dependency));
        }
    }
    findings.extend(circle(&workspace.packages));
    findings
}

/// A package is named after its folder, and the plan knows it. A package of `tests/` may also be
/// `m3ipc-test-` plus its folder: `m3ipc-sockets` is a crate.
fn name(package: &Package, folder: &Path) -> Option<Finding> {
    let last = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let test = folder.starts_with(TESTS) && package.name == format!("m3ipc-test-{last}");
    if package.name != last && package.name != format!("m3ipc-{last}") && !test {
        return Some(Finding {
            location: package.name.clone(),
            problem: format!("its folder is {}", folder.display()),
            next: "Name the package `m3ipc-` plus the name of its folder.",
        });
    }
    let known = TABLE.iter().any(|row| row.name == package.name);
    (!known && !folder.starts_with(TESTS)).then(|| Finding {
        location: package.name.clone(),
        problem: "the plan of the tree does not list this crate".into(),
        next: "Record the decision in docs/adr/, add a row to xtask/src/check/direction.rs.",
    })
}

fn dependency_of(
    workspace: &Workspace,
    package: &Package,
    folder: &Path,
    dependency: &Dependency,
) -> Option<Finding> {
    let to = dependency.path.as_ref()?;
    let to = to.strip_prefix(&workspace.root).unwrap_or(to);
    let allowed = match TABLE.iter().find(|row| row.name == package.name) {
        // A crate never uses the laboratory or the tests.
        _ if folder.starts_with("crates") && !to.starts_with("crates") => false,
        _ if dependency.kind.as_deref() == Some("dev") => !to.starts_with("lab"),
        Some(row) => row.allows(&dependency.name),
        None => folder.starts_with(TESTS) && (to.starts_with("crates") || to.starts_with(TESTS)),
    };
    (!allowed).then(|| Finding {
        location: package.name.clone(),
        problem: format!("it uses {}, which the plan of the tree does not allow", dependency.name),
        next: "Move the shared part down, or change the plan (design 13) with a decision record.",
    })
}

impl Row {
    fn allows(&self, name: &str) -> bool {
        self.more.contains(&name) || (self.api && (name == "m3ipc" || BELOW.contains(&name)))
    }
}

fn ours(package: &Package) -> impl Iterator<Item = &Dependency> {
    package.dependencies.iter().filter(|dependency| dependency.path.is_some())
}

/// Removes, again and again, the crates that use none of the rest; a circle stays.
fn circle(packages: &[Package]) -> Option<Finding> {
    let mut rest: Vec<&Package> = packages.iter().collect();
    loop {
        let names: Vec<&str> = rest.iter().map(|package| package.name.as_str()).collect();
        let before = rest.len();
        rest.retain(|package| ours(package).any(|d| names.contains(&d.name.as_str())));
        if rest.len() == before {
            break;
        }
    }
    (!rest.is_empty()).then(|| Finding {
        location: "workspace".into(),
        problem: format!(
            "dependencies (dev-dependencies included) form a circle among: {}",
            rest.iter().map(|package| package.name.as_str()).collect::<Vec<_>>().join(", ")
        ),
        next: "Move the test that needs the upper crate into a package of tests/.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &str, uses: &[(&str, Option<&str>)]) -> Package {
        let dependencies = uses
            .iter()
            .map(|(folder, kind)| Dependency {
                name: name_of(folder),
                kind: kind.map(Into::into),
                path: Some(Path::new("/w").join(folder)),
            })
            .collect();
        let manifest_path = Path::new("/w").join(folder).join("Cargo.toml");
        Package { name: name_of(folder), manifest_path, dependencies, ..Package::default() }
    }

    fn name_of(folder: &str) -> String {
        let last = folder.rsplit('/').next().unwrap_or(folder);
        if ["m3ipc", "xtask"].contains(&last) { last.into() } else { format!("m3ipc-{last}") }
    }

    fn found(packages: Vec<Package>) -> Vec<Finding> {
        check(&Workspace { root: "/w".into(), target_dir: "/w/target".into(), packages })
    }

    #[test]
    fn the_plan_allows_itself_and_has_no_circle() {
        let folder = |name: &str| {
            let last = name.strip_prefix("m3ipc-").unwrap_or(name);
            match last {
                "xtask" => last.to_owned(),
                "bench" | "report" => format!("lab/{last}"),
                "files" => format!("examples/{last}"),
                "model" => format!("tests/{last}"),
                _ => format!("crates/{last}"),
            }
        };
        let rows = TABLE.iter().map(|row| {
            let api: &[&str] = if row.api { &["m3ipc"] } else { &[] };
            let below = if row.api { BELOW } else { &[] };
            let uses: Vec<String> =
                api.iter().chain(below).chain(row.more).map(|name| folder(name)).collect();
            let uses: Vec<_> = uses.iter().map(|name| (name.as_str(), None)).collect();
            package(&folder(row.name), &uses)
        });
        assert_eq!(found(rows.collect()), []);
    }

    #[test]
    fn a_build_dependency_counts_like_an_ordinary_one() {
        let abi = package("crates/abi", &[("crates/wire", Some("build"))]);
        assert_eq!(found(vec![abi]).len(), 1);
    }

    #[test]
    fn a_dependency_upwards_fails() {
        let found = found(vec![
            package("crates/shm", &[("crates/link", None)]),
            package("crates/link", &[]),
        ]);
        assert_eq!(found.len(), 1);
        assert!(found[0].location == "m3ipc-shm" && found[0].problem.contains("m3ipc-link"));
    }

    #[test]
    fn a_dependency_sideways_fails() {
        for (from, to) in [
            ("crates/capi", "crates/daemon"),
            ("crates/shim", "crates/sockets"),
            ("crates/shim", "crates/wire"),
            ("lab/report", "crates/abi"),
            ("xtask", "crates/abi"),
        ] {
            assert_eq!(found(vec![package(from, &[(to, None)])]).len(), 1, "{from} {to}");
        }
    }

    #[test]
    fn a_crate_that_uses_laboratory_or_tests_fails() {
        for kind in [None, Some("dev"), Some("build")] {
            for to in ["lab/bench", "tests/model", "tests/conformance"] {
                assert_eq!(found(vec![package("crates/cli", &[(to, kind)])]).len(), 1);
            }
        }
    }

    #[test]
    fn a_package_has_the_name_of_its_folder() {
        let named = |folder: &str, name: &str| {
            let manifest_path = Path::new("/w").join(folder).join("Cargo.toml");
            found(vec![Package { name: name.into(), manifest_path, ..Package::default() }])
        };
        assert_eq!(named("tests/sockets", "m3ipc-test-sockets"), []);
        assert_eq!(named("tests/sockets", "m3ipc-test-hostile").len(), 1);
        assert_eq!(named("crates/wire", "m3ipc-test-wire").len(), 1);
    }

    #[test]
    fn tests_may_use_crates_and_tests_alone() {
        let uses = |to| found(vec![package("tests/hostile", &[(to, None)])]);
        assert_eq!(uses("crates/cli"), []);
        assert_eq!(uses("tests/model"), []);
        assert_eq!(uses("lab/bench").len(), 1);
    }

    #[test]
    fn a_dev_dependency_is_free_unless_it_closes_a_circle() {
        let dev = Some("dev");
        let wire = package("crates/wire", &[]);
        assert_eq!(found(vec![package("crates/link", &[("crates/wire", dev)]), wire]), []);
        let found = found(vec![
            package("crates/link", &[("crates/m3ipc", dev)]),
            package("crates/m3ipc", &[("crates/link", None)]),
        ]);
        assert_eq!(found.len(), 1);
        assert!(found[0].problem.contains("circle"), "{}", found[0]);
    }

    #[test]
    fn an_unknown_crate_or_a_name_unlike_the_folder_fails() {
        assert!(found(vec![package("crates/surprise", &[])])[0].next.contains("docs/adr"));
        let mut link = package("crates/link", &[]);
        link.name = "m3-link".into();
        assert!(found(vec![link])[0].problem.contains("crates/link"));
    }

    #[test]
    fn crates_of_others_are_free() {
        let mut abi = package("crates/abi", &[("crates/libc", None)]);
        abi.dependencies[0].path = None;
        assert_eq!(found(vec![abi]), []);
    }
}
