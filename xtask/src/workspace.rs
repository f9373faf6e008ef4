//! The workspace as `cargo metadata` sees it: packages, their targets, their direct dependencies.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::error::Error;

/// The workspace, without the packages of others.
#[derive(Debug, Deserialize)]
pub struct Workspace {
    /// The folder of the top `Cargo.toml`.
    #[serde(rename = "workspace_root")]
    pub root: PathBuf,
    /// Where cargo builds.
    #[serde(rename = "target_directory")]
    pub target_dir: PathBuf,
    /// Our packages.
    pub packages: Vec<Package>,
}

/// One of our packages.
#[derive(Debug, Default, Deserialize)]
pub struct Package {
    /// The name in its manifest.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The oldest compiler that it promises.
    pub rust_version: Option<String>,
    /// The path of its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// The registries that it may go to: `None` for all, empty for none.
    pub publish: Option<Vec<String>>,
    /// What it builds.
    #[serde(default)]
    pub targets: Vec<Target>,
    /// What it depends on directly.
    pub dependencies: Vec<Dependency>,
}

/// A target that a package builds.
#[derive(Debug, Default, Deserialize)]
pub struct Target {
    /// The name of the target.
    pub name: String,
    /// `lib`, `bin`, `test`, `cdylib`, ...
    pub kind: Vec<String>,
    /// Its root file.
    pub src_path: PathBuf,
    /// Whether `cargo test` runs the tests in it.
    #[serde(default)]
    pub test: bool,
}

/// A direct dependency.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// The package depended on.
    pub name: String,
    /// `None` for an ordinary dependency, else `dev` or `build`.
    pub kind: Option<String>,
    /// The folder, where it is a package on this disk: one of ours.
    pub path: Option<PathBuf>,
}

impl Workspace {
    /// Asks cargo.
    ///
    /// # Errors
    /// Where cargo cannot be started, fails, or answers in another format.
    pub fn load() -> Result<Self, Error> {
        let mut cargo = Command::new("cargo");
        cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
        // `cargo run` sets this variable to xtask's folder, so each folder will do. It is read at
        // run time, because two checkouts may share a target folder and so this very program.
        if let Some(folder) = env::var_os("CARGO_MANIFEST_DIR") {
            cargo.current_dir(folder);
        }
        let output =
            cargo.output().map_err(|source| Error::Start { program: "cargo".into(), source })?;
        if !output.status.success() {
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            return Err(Error::Failed {
                command: "cargo metadata --no-deps".into(),
                status: output.status,
            });
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// The oldest compiler that the packages promise, as `1.88`; the newest where they differ.
    pub fn oldest_compiler(&self) -> &str {
        let versions = self.packages.iter().filter_map(|package| package.rust_version.as_deref());
        let numbers = |version: &&str| -> Vec<u32> {
            version.split('.').filter_map(|number| number.parse().ok()).collect()
        };
        versions.max_by_key(numbers).unwrap_or("stable")
    }

    /// The package of that name, if there is one.
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// The names of a package's targets of one kind; none where there is no such package.
    pub fn targets(&self, package: &str, kind: &str) -> impl Iterator<Item = &str> {
        let targets = self.package(package).into_iter().flat_map(|package| &package.targets);
        targets
            .filter(move |target| target.kind.iter().any(|k| k == kind))
            .map(|target| target.name.as_str())
    }

    /// The folder of a package from the root, as `crates/link`.
    pub fn folder<'a>(&self, package: &'a Package) -> &'a Path {
        let folder = package.manifest_path.parent().unwrap_or(&package.manifest_path);
        folder.strip_prefix(&self.root).unwrap_or(folder)
    }
}

impl Package {
    /// Whether the package may go to a registry.
    pub fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }
}
