//! The installed shared library, linked with the symbol versions of the map.
//!
//! Cargo cannot link it so: the compiler passes its own version script, and a linker takes one
//! script. This file links the static library again as a shared one. A program that is linked
//! today names the version of each function, and finds that version in every later release.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::workspace::Workspace;

/// The system libraries that the static library needs.
const NEEDS: &[&str] = &["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

/// Links the library from the files in `built` by the C compiler `cc`, and returns its path.
///
/// # Errors
/// Where there is no C compiler, or it fails.
pub fn link(workspace: &Workspace, built: &Path, soname: &str, cc: &str) -> Result<PathBuf, Error> {
    let map = workspace.root.join("crates/capi/libm3ipc.map");
    let shared = built.join(soname);
    // Another install may read or link the library at the same time: it appears whole.
    let own = built.join(format!("{soname}.{}", std::process::id()));
    let linked =
        link_with(cc, &built.join(archive(workspace)), &map, soname, &own).and_then(|()| {
            std::fs::rename(&own, &shared).map_err(|error| Error::write(&shared, error))
        });
    if linked.is_err() {
        let _ = std::fs::remove_file(&own);
    }
    linked.map(|()| shared)
}

/// The file name of the static library, from the name of the target: cargo forbids `m3ipc`, which
/// is the name of the Rust API.
pub fn archive(workspace: &Workspace) -> String {
    let target = workspace.targets("m3ipc-capi", "cdylib").next().unwrap_or("m3ipc_c");
    format!("lib{target}.a")
}

fn link_with(
    program: &str,
    archive: &Path,
    map: &Path,
    soname: &str,
    shared: &Path,
) -> Result<(), Error> {
    let mut cc = Command::new(program);
    cc.args(["-shared", "-Wl,--gc-sections", "-Wl,-z,relro,-z,now", "-o"]).arg(shared);
    cc.arg(format!("-Wl,-soname,{soname}")).arg(format!("-Wl,--version-script={}", map.display()));
    cc.arg("-Wl,--whole-archive").arg(archive).arg("-Wl,--no-whole-archive").args(NEEDS);
    let status = cc.status().map_err(|source| Error::Start { program: program.into(), source })?;
    if status.success() {
        return Ok(());
    }
    let command =
        format!("{program} -shared --version-script={} {}", map.display(), archive.display());
    Err(Error::Failed { command, status })
}

#[cfg(test)]
mod tests;
