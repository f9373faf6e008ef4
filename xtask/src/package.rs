//! `cargo xtask package`: builds each published package from its archive, as a user's cargo would.
//!
//! Cargo serves the archives to one another from a registry in its target folder. It takes a
//! package of the same name and version for the same package: it builds neither from a newer
//! archive nor unpacks one. So each run empties the target folder, and removes what an earlier run
//! has unpacked.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::workspace::{Package, Workspace};

/// Builds all archives.
///
/// # Errors
/// Where a folder of an earlier run cannot be removed, or a package does not build.
pub fn run(workspace: &Workspace) -> Result<(), Error> {
    let target = workspace.target_dir.join("package-full");
    remove(&target)?;
    for unpacked in unpacked(&workspace.packages, &sources()?)? {
        remove(&unpacked)?;
    }
    let arguments = ["package", "--workspace", "--allow-dirty", "--quiet"];
    let mut cargo = Command::new("cargo");
    cargo.args(arguments).env("CARGO_TARGET_DIR", &target);
    cargo.current_dir(&workspace.root).stdin(Stdio::null());
    let status =
        cargo.status().map_err(|source| Error::Start { program: "cargo".into(), source })?;
    if !status.success() {
        return Err(Error::Failed { command: format!("cargo {}", arguments.join(" ")), status });
    }
    // The builds are large, and no later run may use them.
    remove(&target)?;
    let published = workspace.packages.iter().filter(|package| package.is_published()).count();
    println!("{published} packages build from their archives");
    Ok(())
}

/// Where cargo unpacks the packages of registries.
fn sources() -> Result<PathBuf, Error> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let what = Error::Unknown {
        what: "home of cargo: neither CARGO_HOME nor HOME is set".into(),
        next: "Set CARGO_HOME.",
    };
    Ok(home.ok_or(what)?.join("registry/src"))
}

/// The folders of these packages that came out of a registry without a host: one on this disk.
fn unpacked(packages: &[Package], sources: &Path) -> Result<Vec<PathBuf>, Error> {
    let registries = match fs::read_dir(sources) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(|e| Error::read(sources, e))?,
    };
    let mut found = Vec::new();
    for registry in registries {
        let registry = registry.map_err(|e| Error::read(sources, e))?;
        if registry.file_name().as_encoded_bytes().starts_with(b"-") {
            let names = packages.iter().map(|it| format!("{}-{}", it.name, it.version));
            found.extend(names.map(|it| registry.path().join(it)).filter(|it| it.is_dir()));
        }
    }
    Ok(found)
}

fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::write(folder, error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Package, unpacked};

    fn package(name: &str) -> Package {
        Package { name: name.into(), version: "0.1.0".into(), ..Package::default() }
    }

    #[test]
    fn only_our_packages_of_a_registry_on_this_disk_are_found() {
        let sources = std::env::temp_dir().join(format!("xtask-package-{}", std::process::id()));
        let registries = ["-a7c59d04b68740bf", "index.crates.io-1949cf8c6b5b557f"];
        for registry in registries {
            for name in ["ours-0.1.0", "ours-0.2.0", "other-0.1.0"] {
                fs::create_dir_all(sources.join(registry).join(name)).unwrap();
            }
        }
        let found = unpacked(&[package("ours"), package("unpacked-never")], &sources).unwrap();
        assert_eq!(found, [sources.join(registries[0]).join("ours-0.1.0")]);
        fs::remove_dir_all(&sources).unwrap();
        assert!(unpacked(&[package("ours")], &sources).unwrap().is_empty(), "without a folder");
    }
}
