//! Modules of a crate form no import circles.
//!
//! A module is a file. It imports another where it names an item that the other file defines, in a
//! `use` or in code. A re-export (`pub use`) is no import, and the search follows it to the file
//! that defines the item. Tests do not count. Methods are not followed. Of a macro
//! only the types count that its rules define by name.
//!
//! cargo-modules looks for circles among items: a type with `fn new() -> Self` is one for it, and
//! two modules that use each other are none. So this check reads the files with `syn` itself.

mod modules;

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::workspace::Target;

pub use self::modules::path_attribute;
use self::modules::{Crate, Imports};
use super::finding::{Finding, Report};
use super::input::Tree;

/// The kinds of targets that make up the product; each test file is a target of its own.
const KINDS: &[&str] = &["lib", "bin", "cdylib", "test"];

pub fn report(tree: &Tree) -> Result<Report, Error> {
    let mut findings = Vec::new();
    let mut files = BTreeSet::new();
    for package in &tree.workspace.packages {
        for target in package.targets.iter().filter(|target| is_checked(target)) {
            let imports = Crate::read(&tree.workspace.root, &target.src_path)?.imports();
            files.extend(imports.keys().cloned());
            findings.extend(check(&imports));
        }
    }
    findings.dedup();
    Ok(Report { findings, figure: format!("{} files without import circles", files.len()) })
}

fn is_checked(target: &Target) -> bool {
    target.kind.iter().any(|kind| KINDS.contains(&kind.as_str()))
}

/// One finding for each group of files that import each other.
fn check(imports: &Imports) -> Vec<Finding> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (file.as_str(), reach(imports, file))).collect();
    let mut grouped = BTreeSet::new();
    let mut findings = Vec::new();
    for (file, others) in &reached {
        if !others.contains(file) || grouped.contains(file) {
            continue;
        }
        let is_mutual = |other: &&&str| reached.get(**other).is_some_and(|r| r.contains(file));
        let group: Vec<&str> = others.iter().filter(is_mutual).copied().collect();
        grouped.extend(group.iter().copied());
        findings.push(Finding {
            location: (*file).to_owned(),
            problem: format!(
                "{} files import each other: {}{}",
                group.len(),
                group.join(", "),
                shown(imports, &group)
            ),
            next: "Move the shared item into a module below both.",
        });
    }
    findings
}

/// The imports among the files of a group, a line each.
fn shown(imports: &Imports, group: &[&str]) -> String {
    let mut lines = String::new();
    for from in group {
        for (to, path) in imports.get(*from).into_iter().flatten() {
            if group.contains(&to.as_str()) {
                lines.push_str(&format!("\n      {from} -> {to}: {path}"));
            }
        }
    }
    lines
}

/// The files that a file imports, directly or through others.
fn reach<'a>(imports: &'a Imports, file: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![file];
    while let Some(file) = open.pop() {
        for to in imports.get(file).into_iter().flat_map(|to| to.keys()) {
            if reached.insert(to.as_str()) {
                open.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Finding> {
        check(&Crate::of_texts(files).imports())
    }

    #[test]
    fn two_modules_that_use_each_other_fail() {
        let found = found(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use super::b::B; pub struct A(B);"),
            ("b.rs", "pub struct B; impl B { fn f() { crate::a::A::new(); } }"),
        ]);
        assert_eq!(found.len(), 1);
        assert!(found[0].problem.contains("2 files import each other: a.rs, b.rs"), "{}", found[0]);
        assert!(found[0].problem.contains("b.rs -> a.rs: crate::a::A::new"), "{}", found[0]);
    }

    #[test]
    fn a_type_that_a_macro_defines_counts() {
        let a = "use crate::b::B; macro_rules! a { () => { pub enum A { Of(B) } }; } a!();";
        let b = "use crate::a::A; pub struct B(A);";
        assert_eq!(found(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", b)]).len(), 1);
    }

    #[test]
    fn a_child_that_uses_its_parent_fails_where_the_parent_uses_it() {
        let lib = ("lib.rs", "mod a;");
        let child = ("a/child.rs", "use super::Shared; pub struct Child(Shared);");
        let user = "mod child; pub struct Shared; fn f(c: child::Child) {}";
        assert_eq!(found(&[lib, ("a.rs", user), child]).len(), 1);
        // The parent only offers the child to others.
        let offers = "mod child; pub use child::Child; pub struct Shared;";
        assert_eq!(found(&[lib, ("a.rs", offers), child]), []);
    }

    #[test]
    fn a_reexport_leads_to_the_file_that_defines_the_item() {
        // `b` uses `A` by the name that the root gives it; the root itself imports nothing.
        let files = |b| {
            found(&[
                ("lib.rs", "mod a; mod b; pub use a::A; pub use b::*;"),
                ("a.rs", "use crate::B; pub struct A(B);"),
                ("b.rs", b),
            ])
        };
        assert_eq!(files("pub struct B;"), []);
        assert_eq!(files("pub struct B; fn f(a: crate::A) {}").len(), 1);
        assert_eq!(files("pub struct B; fn f() { go!(crate::A { x: 1 }) }").len(), 1);
    }

    #[test]
    fn tests_do_not_count() {
        let tests = "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }";
        let lib = ("lib.rs", "mod a; mod b;");
        let a = ("a.rs", "use crate::b::B; pub struct A(B);");
        assert_eq!(found(&[lib, a, ("b.rs", tests)]), []);
    }
}
