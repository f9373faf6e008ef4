//! The files that the checks read.

use std::path::Path;

use crate::error::Error;
use crate::tree::{self, Source};
use crate::workspace::Workspace;

/// The workspace, the sources and the manifests of the tree.
pub struct Tree {
    /// The packages.
    pub workspace: Workspace,
    /// The files that people write.
    pub sources: Vec<Source>,
    /// Each `Cargo.toml`.
    pub manifests: Vec<Manifest>,
}

impl Tree {
    /// Reads the tree.
    ///
    /// # Errors
    /// Where a file cannot be read or a manifest is no valid TOML.
    pub fn read(workspace: Workspace) -> Result<Self, Error> {
        let sources = tree::sources(
            &workspace.root,
            &["rs", "c", "h", "cpp", "hpp", "py", "sh", "md", "yml", "lua"],
        )?;
        let manifests = manifests(&workspace.root)?;
        Ok(Self { workspace, sources, manifests })
    }

    /// The text of one file.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub fn text(&self, path: &str) -> Result<String, Error> {
        tree::text(&self.workspace.root.join(path))
    }
}

/// A `Cargo.toml` of the tree, in the workspace or beside it.
#[derive(Debug)]
pub struct Manifest {
    /// Its path from the root.
    pub path: String,
    /// Its content.
    pub table: toml::Table,
}

/// Reads every `Cargo.toml` of the tree.
///
/// # Errors
/// Where a manifest cannot be read or is no valid TOML.
fn manifests(root: &Path) -> Result<Vec<Manifest>, Error> {
    tree::sources(root, &["toml"])?
        .into_iter()
        .filter(|source| source.path == "Cargo.toml" || source.path.ends_with("/Cargo.toml"))
        .map(|source| match source.text.parse() {
            Ok(table) => Ok(Manifest { path: source.path, table }),
            Err(e) => Err(Error::Manifest { path: root.join(&source.path), source: Box::new(e) }),
        })
        .collect()
}
