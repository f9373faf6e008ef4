//! ADR 1 names each direct dependency on the work of others, with its reason.

use std::collections::BTreeMap;

use crate::error::Error;

use super::finding::{Finding, Report};
use super::input::{Manifest, Tree};

/// The record, from the root.
const ADR: &str = "docs/adr/0001-dependencies.md";

pub fn report(tree: &Tree) -> Result<Report, Error> {
    let adr = tree.text(ADR)?;
    let figure = format!("ADR 1 names all {}", third_party(&tree.manifests).len());
    Ok(Report { findings: check(&tree.manifests, &adr), figure })
}

/// Finds the dependencies that the record does not name.
fn check(manifests: &[Manifest], adr: &str) -> Vec<Finding> {
    let named: Vec<&str> = adr.lines().filter_map(named_by).collect();
    third_party(manifests)
        .into_iter()
        .filter(|(name, _)| !named.contains(&name.as_str()))
        .map(|(name, location)| Finding {
            location,
            problem: format!("it depends on `{name}`, which {ADR} does not name"),
            next: "Add a row \"| `name` | reason; rejected alternative |\".",
        })
        .collect()
}

/// The name in a table row of the form "| `name` | ...".
fn named_by(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name)
}

/// The direct dependencies that are not ours, each with the first manifest that asks for it.
fn third_party(manifests: &[Manifest]) -> BTreeMap<String, String> {
    let ours: Vec<&str> =
        manifests.iter().filter_map(|m| m.table.get("package")?.get("name")?.as_str()).collect();
    let mut found = BTreeMap::new();
    for manifest in manifests {
        for (key, value) in dependency_tables(&manifest.table).into_iter().flatten() {
            let name = value.get("package").and_then(toml::Value::as_str).unwrap_or(key);
            if value.get("path").is_none()
                && !ours.contains(&name)
                && !is_path_of_workspace(manifests, key)
            {
                found.entry(name.to_owned()).or_insert_with(|| manifest.path.clone());
            }
        }
    }
    found
}

fn is_path_of_workspace(manifests: &[Manifest], key: &str) -> bool {
    manifests.iter().any(|m| {
        let shared = m.table.get("workspace").and_then(|w| w.get("dependencies"));
        shared.and_then(|d| d.get(key)).and_then(|d| d.get("path")).is_some()
    })
}

/// The tables of dependencies: of the package, of the workspace, and of one target.
fn dependency_tables(manifest: &toml::Table) -> Vec<&toml::Table> {
    let mut holders = vec![manifest];
    holders.extend(manifest.get("workspace").and_then(toml::Value::as_table));
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    holders.extend(targets.into_iter().flat_map(|t| t.values()).filter_map(toml::Value::as_table));
    ["dependencies", "dev-dependencies", "build-dependencies"]
        .iter()
        .flat_map(|kind| holders.iter().filter_map(|holder| holder.get(*kind)?.as_table()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(text: &str) -> Manifest {
        Manifest {
            path: "Cargo.toml".into(),
            table: text.parse().expect("the test's own text is valid TOML"),
        }
    }

    const ADR_TEXT: &str = "# Dependencies\n| `libc` | sys | types |\nWe looked at `nix` too.\n";

    #[test]
    fn a_dependency_without_a_row_fails() {
        let found = check(&[manifest("[dependencies]\nlibc = \"1\"\nnix = \"1\"")], ADR_TEXT);
        assert_eq!(found.len(), 1);
        assert!(found[0].problem.contains("`nix`"), "a mention in the text does not count");
    }

    #[test]
    fn every_kind_of_table_is_read() {
        let text = "[workspace.dependencies]\na = \"1\"\n[dev-dependencies]\nb = \"1\"\n\
                    [build-dependencies]\nc = \"1\"\n\
                    [target.'cfg(loom)'.dependencies]\nd = \"1\"\n\
                    [dependencies]\ne = { package = \"f\" }";
        let found = third_party(&[manifest(text)]);
        assert_eq!(found.keys().map(String::as_str).collect::<Vec<_>>(), ["a", "b", "c", "d", "f"]);
    }

    #[test]
    fn ours_need_no_row() {
        let top = manifest("[workspace.dependencies]\nm3ipc-abi = { path = \"crates/abi\" }");
        let user =
            manifest("[package]\nname = \"m3ipc-sys\"\n[dependencies]\nm3ipc-abi.workspace = true");
        assert_eq!(check(&[top, user], ADR_TEXT), []);
    }
}
