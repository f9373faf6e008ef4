//! Each Rust file belongs to a target: no compiler reads a file that no `mod` names. A target whose
//! tests cargo does not build (`test = false`) has none.
//!
//! The search begins at the root files of all targets and follows each `mod` that names a file,
//! those of tests too. Packages beside the workspace have their roots at cargo's usual places, or
//! where a `path` of their manifest says.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use syn::visit::{self, Visit};

use crate::error::Error;
use crate::workspace::Target;

use super::circles::path_attribute;
use super::finding::{Finding, Report};
use super::input::{Manifest, Tree};

/// The places of root files that no manifest names.
const USUAL_ROOTS: &[&str] = &["build.rs", "src/lib.rs", "src/main.rs"];

/// The tables of a manifest that may name a root file.
const TARGET_TABLES: &[&str] = &["lib", "bin", "test", "bench", "example"];

pub fn report(tree: &Tree) -> Result<Report, Error> {
    let files: Vec<File<'_>> = tree
        .sources
        .iter()
        .filter(|source| source.ends_in(&["rs"]))
        .map(|source| (Path::new(&source.path), source.text.as_str()))
        .collect();
    let in_root = |path: &Path| path.strip_prefix(&tree.workspace.root).map(Path::to_owned).ok();
    let targets = tree.workspace.packages.iter().flat_map(|package| &package.targets);
    let roots = targets
        .clone()
        .filter_map(|target| in_root(&target.src_path))
        .chain(tree.manifests.iter().flat_map(roots_of))
        .collect();
    let mut findings = check(&files, roots)?;
    let (tested, untested) = targets.partition(|target| target.test);
    let roots_of = |targets: Vec<&Target>| {
        targets.into_iter().filter_map(|target| in_root(&target.src_path)).collect()
    };
    findings.extend(check_tests(&files, roots_of(tested), roots_of(untested))?);
    Ok(Report { findings, figure: format!("{} Rust files, each in a target", files.len()) })
}

/// A path from the root of the tree, and the text behind it.
type File<'a> = (&'a Path, &'a str);

/// The root files of a manifest, whether they exist or not.
fn roots_of(manifest: &Manifest) -> Vec<PathBuf> {
    let folder = Path::new(&manifest.path).parent().unwrap_or(Path::new(""));
    let mut roots: Vec<PathBuf> = USUAL_ROOTS.iter().map(|root| folder.join(root)).collect();
    for table in TARGET_TABLES.iter().filter_map(|name| manifest.table.get(*name)) {
        let many = table.as_array().map_or(std::slice::from_ref(table), Vec::as_slice);
        let paths = many.iter().filter_map(|target| target.get("path")?.as_str());
        roots.extend(paths.map(|path| plain(&folder.join(path))));
    }
    roots
}

/// One finding for each file that no root leads to.
fn check(files: &[File<'_>], roots: Vec<PathBuf>) -> Result<Vec<Finding>, Error> {
    let reached = reached(files, roots)?;
    let orphans = files.iter().filter(|(path, _)| !reached.contains(*path));
    Ok(orphans
        .map(|(path, _)| Finding {
            location: path.display().to_string(),
            problem: "no target of a package leads to this file".to_owned(),
            next: "Remove the file, or name it in a `mod`.",
        })
        .collect())
}

/// One finding for each file with tests to which only targets lead whose tests nobody builds.
fn check_tests(
    files: &[File<'_>],
    tested: Vec<PathBuf>,
    untested: Vec<PathBuf>,
) -> Result<Vec<Finding>, Error> {
    let (tested, untested) = (reached(files, tested)?, reached(files, untested)?);
    let never = |path: &Path| untested.contains(path) && !tested.contains(path);
    let silent = files.iter().filter(|(path, text)| never(path) && text.contains("#[test]"));
    Ok(silent
        .map(|(path, _)| Finding {
            location: path.display().to_string(),
            problem: "its tests never run".to_owned(),
            next: "Remove `test = false` of its target from the manifest.",
        })
        .collect())
}

/// The files to which these roots lead.
fn reached(files: &[File<'_>], roots: Vec<PathBuf>) -> Result<BTreeSet<PathBuf>, Error> {
    let mut reached = BTreeSet::new();
    // The folder of the modules of a root is its own.
    let mut open: Vec<(PathBuf, PathBuf)> =
        roots.into_iter().map(|root| (root.clone(), parent(&root))).collect();
    while let Some((path, folder)) = open.pop() {
        let Some((_, text)) = files.iter().find(|(known, _)| *known == path) else { continue };
        if !reached.insert(path.clone()) {
            continue;
        }
        let file = syn::parse_file(text)
            .map_err(|e| Error::Syntax { path: path.clone(), reason: e.to_string() })?;
        let mut named = Named { beside: parent(&path), folder, found: Vec::new() };
        named.visit_file(&file);
        open.extend(named.found);
    }
    Ok(reached)
}

/// The files that one file names in a `mod`, each with the folder of its own modules.
struct Named {
    /// The folder of the file itself: `#[path]` begins there.
    beside: PathBuf,
    /// The folder of the modules.
    folder: PathBuf,
    found: Vec<(PathBuf, PathBuf)>,
}

impl<'ast> Visit<'ast> for Named {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let below = self.folder.join(item.ident.to_string());
        if item.content.is_some() {
            let (beside, folder) = (self.beside.clone(), self.folder.clone());
            (self.beside, self.folder) = (below.clone(), below);
            visit::visit_item_mod(self, item);
            (self.beside, self.folder) = (beside, folder);
        } else if let Some(path) = path_attribute(&item.attrs) {
            let path = plain(&self.beside.join(path));
            self.found.push((path.clone(), parent(&path)));
        } else {
            self.found.push((below.with_extension("rs"), below.clone()));
            self.found.push((below.join("mod.rs"), below));
        }
    }
}

fn parent(path: &Path) -> PathBuf {
    path.parent().unwrap_or(Path::new("")).to_owned()
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orphans(files: &[(&str, &str)]) -> Vec<String> {
        let roots = vec![PathBuf::from(files[0].0)];
        let files: Vec<File<'_>> =
            files.iter().map(|(path, text)| (Path::new(*path), *text)).collect();
        check(&files, roots).expect("the texts are Rust").into_iter().map(|f| f.location).collect()
    }

    #[test]
    fn a_file_that_no_module_names_fails() {
        let files = [("c/src/lib.rs", "mod a;"), ("c/src/a.rs", ""), ("c/src/b.rs", "")];
        assert_eq!(orphans(&files), ["c/src/b.rs"]);
    }

    #[test]
    fn tests_that_nobody_builds_fail() {
        let files = [
            ("c/src/main.rs", "mod a; mod b;"),
            ("c/src/lib.rs", "mod b;"),
            ("c/src/a.rs", "#[test] fn t() {}"),
            ("c/src/b.rs", "#[test] fn t() {}"),
        ];
        let files: Vec<File<'_>> =
            files.iter().map(|(path, text)| (Path::new(*path), *text)).collect();
        let root = |path: &str| vec![PathBuf::from(path)];
        let found = check_tests(&files, root("c/src/lib.rs"), root("c/src/main.rs"));
        let found = found.expect("the texts are Rust");
        let found: Vec<&str> = found.iter().map(|finding| finding.location.as_str()).collect();
        assert_eq!(found, ["c/src/a.rs"]);
    }

    #[test]
    fn each_way_to_name_a_file_counts() {
        let files = [
            ("c/src/lib.rs", "mod a; mod inline { mod b; } #[cfg(test)] mod tests; fn f() {}"),
            ("c/src/a/mod.rs", "mod deep;"),
            ("c/src/a/deep.rs", "#[path = \"../other.rs\"] mod other;"),
            ("c/src/other.rs", ""),
            ("c/src/inline/b.rs", ""),
            ("c/src/tests.rs", ""),
        ];
        assert_eq!(orphans(&files), [""; 0]);
    }

    #[test]
    fn a_manifest_names_roots() {
        let table = "[[bin]]\npath = \"../x/y.rs\"\n[lib]\npath = \"z.rs\"".parse();
        let manifest = Manifest { path: "p/Cargo.toml".into(), table: table.expect("TOML") };
        let roots = roots_of(&manifest);
        assert!(roots.contains(&"x/y.rs".into()) && roots.contains(&"p/z.rs".into()), "{roots:?}");
        assert!(roots.contains(&"p/src/main.rs".into()), "{roots:?}");
    }
}
