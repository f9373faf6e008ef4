//! The shared library as it is installed: linked once more, with the symbol versions of the map.
//!
//! Cargo's own link cannot give them: the compiler passes a version script of its own, and a linker takes one. So the
//! static library is made a shared one here. A program that is linked today says which version of a function it
//! means, and finds it in every later release.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::workspace::Workspace;

/// What the static library needs of the system.
const NEEDS: &[&str] = &["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

/// Links the library; where it lies.
///
/// # Errors
/// Where there is no C compiler, or it fails.
pub fn link(workspace: &Workspace, built: &str, soname: &str) -> Result<PathBuf, Error> {
    let release = workspace.target_dir.join("release");
    let map = workspace.root.join("crates/capi/libm3ipc.map");
    let shared = release.join(soname);
    link_with(&release.join(format!("lib{built}.a")), &map, soname, &shared)?;
    Ok(shared)
}

fn link_with(archive: &Path, map: &Path, soname: &str, shared: &Path) -> Result<(), Error> {
    let program = std::env::var("CC").unwrap_or_else(|_unset| "cc".into());
    let mut cc = Command::new(&program);
    cc.args(["-shared", "-Wl,--gc-sections", "-Wl,-z,relro,-z,now", "-o"]).arg(shared);
    cc.arg(format!("-Wl,-soname,{soname}")).arg(format!("-Wl,--version-script={}", map.display()));
    cc.arg("-Wl,--whole-archive").arg(archive).arg("-Wl,--no-whole-archive").args(NEEDS);
    let status = cc.status().map_err(|source| Error::Start { program: program.clone(), source })?;
    if status.success() {
        return Ok(());
    }
    let command =
        format!("{program} -shared --version-script={} {}", map.display(), archive.display());
    Err(Error::Failed { command, status })
}

#[cfg(test)]
mod tests;
