//! The public API of `m3ipc` names only its own types and those of the standard library.
//!
//! Rustdoc writes the API as JSON. The check follows each reference to a type or trait. A type of
//! another crate is allowed where `m3ipc` exports it itself, or where [`ALLOWED`] lists it.

use std::collections::HashSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::error::Error;
use crate::workspace::Workspace;

use super::finding::{Finding, Report};
use super::input::Tree;

const PACKAGE: &str = "m3ipc";

/// Crates of the standard library.
const STANDARD: &[&str] = &["std", "core", "alloc"];

/// Types of others in the public API: the path, and the reason.
const ALLOWED: &[(&str, &str)] = &[
    // Plain records are sent as they are: the bound is the promise that any bits are valid.
    ("bytemuck::", "bounds of typed messages"),
    // Only with the feature `serde`.
    ("serde_core::", "derives of the records of the node"),
];

pub fn report(tree: &Tree) -> Result<Report, Error> {
    let api = Api { json: document(&tree.workspace)? };
    let (findings, items) = api.check();
    Ok(Report { findings, figure: format!("{items} items of {PACKAGE}, no foreign type") })
}

/// Has rustdoc write its JSON, which stable rustdoc offers only with `RUSTC_BOOTSTRAP`.
///
/// The target folder is its own, because that variable changes the fingerprints of dependencies.
fn document(workspace: &Workspace) -> Result<Value, Error> {
    let target = workspace.target_dir.join("api");
    let mut cargo = Command::new("cargo");
    cargo.args(["rustdoc", "--quiet", "-p", PACKAGE, "--lib", "--all-features", "--target-dir"]);
    cargo.arg(&target).args(["--", "-Zunstable-options", "--output-format", "json"]);
    cargo.args(["--cap-lints", "allow"]);
    cargo.env("RUSTC_BOOTSTRAP", "1").current_dir(&workspace.root);
    let status =
        cargo.status().map_err(|source| Error::Start { program: "cargo".into(), source })?;
    if !status.success() {
        return Err(Error::Failed { command: format!("cargo rustdoc -p {PACKAGE}"), status });
    }
    let path = target.join(format!("doc/{PACKAGE}.json"));
    let text = fs::read_to_string(&path).map_err(|e| Error::read(&path, e))?;
    Ok(serde_json::from_str(&text)?)
}

/// The JSON of rustdoc: `index` holds the items, `paths` the place of each item that they name.
struct Api {
    json: Value,
}

impl Api {
    /// The findings, and how many items were followed.
    fn check(&self) -> (Vec<Finding>, usize) {
        let exported = self.exported();
        let mut findings = Vec::new();
        let mut items = 0;
        for item in self.json["index"].as_object().into_iter().flat_map(|index| index.values()) {
            if item["crate_id"] != 0 || is_automatic(item) {
                continue;
            }
            items += 1;
            let mut ids = HashSet::new();
            references(&item["inner"], &mut ids);
            let foreign: HashSet<String> =
                ids.iter().filter_map(|id| self.foreign_path(id, &exported)).collect();
            findings.extend(foreign.into_iter().map(|path| finding(item, &path)));
        }
        findings.sort_by(|a, b| (&a.location, &a.problem).cmp(&(&b.location, &b.problem)));
        findings.dedup();
        (findings, items)
    }

    /// The items of other crates that `m3ipc` exports; a glob is the path of its module.
    fn exported(&self) -> HashSet<String> {
        let items = self.json["index"].as_object().into_iter().flat_map(|index| index.values());
        let uses = items.filter(|item| item["crate_id"] == 0).map(|item| &item["inner"]["use"]);
        uses.filter_map(|exported| match &exported["is_glob"] {
            Value::Bool(true) => Some(format!("{}::*", exported["source"].as_str()?)),
            _ => exported["id"].as_u64().map(|id| id.to_string()),
        })
        .collect()
    }

    /// The path of an item that belongs to another crate and is not allowed.
    fn foreign_path(&self, id: &str, exported: &HashSet<String>) -> Option<String> {
        let place = self.json["paths"].get(id)?;
        let krate = place["crate_id"].as_u64()?;
        let parts: Vec<&str> = place["path"].as_array()?.iter().filter_map(Value::as_str).collect();
        let path = parts.join("::");
        let name = self.json["external_crates"][krate.to_string()]["name"].as_str();
        let module = parts.split_last().map_or(String::new(), |(_, module)| module.join("::"));
        let allowed = krate == 0
            || name.is_some_and(|name| STANDARD.contains(&name))
            || exported.contains(id)
            || exported.contains(&format!("{module}::*"))
            || ALLOWED.iter().any(|(start, _)| path.starts_with(start));
        (!allowed).then_some(path)
    }
}

/// Implementations that the compiler or another crate adds to each type.
fn is_automatic(item: &Value) -> bool {
    let implementation = &item["inner"]["impl"];
    implementation["is_synthetic"] == true || implementation["blanket_impl"].is_object()
}

/// Collects the ids of all types and traits that a part of an item names.
fn references(value: &Value, ids: &mut HashSet<String>) {
    match value {
        Value::Object(fields) => {
            if let (Some(Value::Number(id)), true) =
                (fields.get("id"), fields.contains_key("path") || fields.contains_key("args"))
            {
                ids.insert(id.to_string());
            }
            fields.values().for_each(|field| references(field, ids));
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, ids)),
        _ => {}
    }
}

fn finding(item: &Value, path: &str) -> Finding {
    let file = item["span"]["filename"].as_str().unwrap_or(PACKAGE);
    let line = item["span"]["begin"][0].as_u64().unwrap_or(0);
    Finding {
        location: format!("{file}:{line}"),
        problem: format!("the public API names `{path}`, which {PACKAGE} does not export"),
        next: "Take or return a type of m3ipc or std, or add an entry with its reason to ALLOWED.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(extra: &str) -> Api {
        let json = format!(
            r#"{{
            "index": {{
                "1": {{"crate_id": 0, "span": {{"filename": "a.rs", "begin": [7, 1]}},
                       "inner": {{"function": {{"sig": {{"inputs": [["x", {{"resolved_path":
                           {{"path": "Owned", "id": 9, "args": null}}}}]]}}}}}}}}
                {extra}
            }},
            "paths": {{"9": {{"crate_id": 3, "path": ["rustix", "fd", "Owned"]}}}},
            "external_crates": {{"3": {{"name": "rustix"}}}}
        }}"#
        );
        Api { json: serde_json::from_str(&json).expect("the test's own JSON is valid") }
    }

    #[test]
    fn a_foreign_type_fails() {
        let (findings, items) = api("").check();
        assert_eq!((findings.len(), items), (1, 1));
        assert_eq!(findings[0].location, "a.rs:7");
        assert!(findings[0].problem.contains("rustix::fd::Owned"), "{}", findings[0]);
    }

    #[test]
    fn an_exported_type_and_a_standard_one_pass() {
        for exported in [
            r#", "2": {"crate_id": 0, "inner": {"use": {"id": 9, "is_glob": false}}}"#,
            r#", "2": {"crate_id": 0, "inner": {"use": {"source": "rustix::fd","is_glob": true}}}"#,
        ] {
            assert_eq!(api(exported).check().0, []);
        }
        let mut standard = api("");
        standard.json["external_crates"]["3"]["name"] = "core".into();
        assert_eq!(standard.check().0, []);
    }
}
