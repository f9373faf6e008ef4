//! The arrows between our crates point down only.
//!
//! An ordinary or build dependency must stand in [`TABLE`]. A dev-dependency may reach any crate as long as the
//! whole graph, dev-dependencies included, has no cycle: so a test may use an oracle from beside, never from above.

use crate::workspace::{Dependency, Package};

use super::Finding;

/// What lies below the edges.
const CORE: &[&str] = &[
    "m3ipc",
    "m3ipc-area",
    "m3ipc-link",
    "m3ipc-model",
    "m3ipc-wire",
    "m3ipc-shm",
    "m3ipc-sys",
    "m3ipc-abi",
];

/// A crate, and what it may use beside what [`Below`] gives.
struct Row {
    name: &'static str,
    below: Below,
    more: &'static [&'static str],
}

/// Whether a crate may use everything below the edges.
#[derive(PartialEq)]
enum Below {
    Listed,
    Core,
}

const fn listed(name: &'static str, more: &'static [&'static str]) -> Row {
    Row { name, below: Below::Listed, more }
}

const fn edge(name: &'static str, more: &'static [&'static str]) -> Row {
    Row { name, below: Below::Core, more }
}

/// Who may use whom. A new crate needs a row here and a decision record in `docs/adr/`.
const TABLE: &[Row] = &[
    listed("m3ipc-abi", &[]),
    listed("m3ipc-sys", &["m3ipc-abi"]),
    listed("m3ipc-shm", &["m3ipc-sys", "m3ipc-abi"]),
    listed("m3ipc-link", &["m3ipc-shm", "m3ipc-sys", "m3ipc-abi"]),
    listed("m3ipc-area", &["m3ipc-shm", "m3ipc-sys", "m3ipc-abi"]),
    listed("m3ipc-model", &["m3ipc-abi"]),
    listed("m3ipc-wire", &["m3ipc-abi"]),
    listed(
        "m3ipc",
        &[
            "m3ipc-area",
            "m3ipc-link",
            "m3ipc-model",
            "m3ipc-wire",
            "m3ipc-shm",
            "m3ipc-sys",
            "m3ipc-abi",
        ],
    ),
    edge("m3ipc-daemon", &[]),
    edge("m3ipc-capi", &["m3ipc-sockets"]),
    edge("m3ipc-sockets", &[]),
    edge("m3ipc-shim", &["m3ipc-sockets"]),
    listed("m3ipc-shim-preload", &["m3ipc-shim"]),
    edge("m3-py", &[]),
    edge("m3ipc-bench", &["m3ipc-report", "m3ipc-sockets", "m3ipc-shim"]),
    listed("m3ipc-report", &[]),
    edge("m3ipc-cli", &["m3ipc-daemon", "m3ipc-sockets", "m3ipc-shim"]),
    edge(
        "m3ipc-conformance",
        &["m3ipc-daemon", "m3ipc-capi", "m3ipc-sockets", "m3ipc-shim", "m3ipc-cli"],
    ),
    listed("xtask", &[]),
];

/// Finds every arrow that the table does not allow, every crate it does not know, and one cycle if there is any.
pub fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let Some(row) = TABLE.iter().find(|row| row.name == package.name) else {
            findings.push(Finding {
                place: package.name.clone(),
                what: "this crate is not in the table of who may use whom".into(),
                next: "Record the decision in docs/adr/ and add a row to xtask/src/deps/arrows.rs.",
            });
            continue;
        };
        for dependency in ours(package).filter(|d| d.kind.as_deref() != Some("dev")) {
            if !row.allows(&dependency.name) {
                findings.push(Finding {
                    place: package.name.clone(),
                    what: format!("it uses {}, which the table does not allow", dependency.name),
                    next: "Move the shared part down, or change the table with a decision record.",
                });
            }
        }
    }
    findings.extend(cycle(packages));
    findings
}

/// How many arrows there are between our crates, dev-dependencies included.
pub fn count(packages: &[Package]) -> usize {
    packages.iter().map(|package| ours(package).count()).sum()
}

impl Row {
    fn allows(&self, name: &str) -> bool {
        self.more.contains(&name) || (self.below == Below::Core && CORE.contains(&name))
    }
}

fn ours(package: &Package) -> impl Iterator<Item = &Dependency> {
    package.dependencies.iter().filter(|dependency| dependency.path.is_some())
}

/// Takes away, again and again, the crates that use none of the rest; what stays sits on a cycle or above one.
fn cycle(packages: &[Package]) -> Option<Finding> {
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
        place: "workspace".into(),
        what: format!(
            "dependencies (dev ones included) form a cycle among: {}",
            rest.iter().map(|package| package.name.as_str()).collect::<Vec<_>>().join(", ")
        ),
        next: "Move the test that needs the upper crate into the upper crate, or into m3ipc-conformance.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, uses: &[(&str, Option<&str>)]) -> Package {
        let dependencies = uses
            .iter()
            .map(|(name, kind)| Dependency {
                name: (*name).into(),
                kind: kind.map(Into::into),
                path: Some("/somewhere".into()),
            })
            .collect();
        Package { name: name.into(), version: "0.1.0".into(), targets: Vec::new(), dependencies }
    }

    #[test]
    fn the_whole_table_as_it_stands_passes() {
        let all: Vec<Package> = TABLE
            .iter()
            .map(|row| {
                let core = if row.below == Below::Core { CORE } else { &[] };
                package(
                    row.name,
                    &core.iter().chain(row.more).map(|n| (*n, None)).collect::<Vec<_>>(),
                )
            })
            .collect();
        assert_eq!(check(&all), []);
        assert!(count(&all) > 30);
    }

    #[test]
    fn a_planted_arrow_upwards_fails() {
        let found =
            check(&[package("m3ipc-shm", &[("m3ipc-link", None)]), package("m3ipc-link", &[])]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "m3ipc-shm");
        assert!(found[0].what.contains("m3ipc-link"), "{}", found[0]);
    }

    #[test]
    fn a_planted_arrow_sideways_fails() {
        assert_eq!(
            check(&[package("m3ipc-model", &[("m3ipc-wire", None)]), package("m3ipc-wire", &[])])
                .len(),
            1
        );
        assert_eq!(
            check(&[
                package("m3ipc-capi", &[("m3ipc-daemon", None)]),
                package("m3ipc-daemon", &[])
            ])
            .len(),
            1
        );
        assert_eq!(
            check(&[package("xtask", &[("m3ipc-abi", None)]), package("m3ipc-abi", &[])]).len(),
            1
        );
    }

    #[test]
    fn a_build_dependency_counts_like_an_ordinary_one() {
        assert_eq!(
            check(&[
                package("m3ipc-abi", &[("m3ipc-wire", Some("build"))]),
                package("m3ipc-wire", &[])
            ])
            .len(),
            1
        );
    }

    #[test]
    fn the_command_line_may_use_the_daemon_but_not_the_benchmark() {
        let uses = |name| {
            check(&[
                package("m3ipc-cli", &[(name, None)]),
                package("m3ipc-daemon", &[]),
                package("m3ipc-bench", &[]),
            ])
        };
        assert_eq!(uses("m3ipc-daemon"), []);
        assert_eq!(uses("m3ipc-bench").len(), 1);
    }

    #[test]
    fn a_dev_dependency_is_free_unless_it_closes_a_cycle() {
        let dev = Some("dev");
        let model = package("m3ipc-model", &[]);
        assert_eq!(check(&[package("m3ipc-link", &[("m3ipc-model", dev)]), model]), []);

        let found = check(&[
            package("m3ipc-link", &[("m3ipc", dev)]),
            package("m3ipc", &[("m3ipc-link", None)]),
        ]);
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("cycle"), "{}", found[0]);
    }

    #[test]
    fn a_crate_that_nobody_decided_on_fails() {
        let found = check(&[package("m3-surprise", &[])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].next.contains("docs/adr"));
    }

    #[test]
    fn crates_of_others_are_no_arrows() {
        let mut abi = package("m3ipc-abi", &[("libc", None)]);
        abi.dependencies[0].path = None;
        assert_eq!(check(&[abi]), []);
    }
}
