//! Where each file goes.
//!
//! ```text
//! PREFIX/bin                    m3, m3d, m3-bench, m3-supervise, m3-proxy, m3-registry
//! PREFIX/lib/debug/PREFIX/...   the debug information of programs and shared libraries
//! PREFIX/LIBDIR                 libm3ipc.so.0.1.0, its two links, libm3ipc.a
//! PREFIX/LIBDIR/m3ipc           libm3sock.so, which `m3 sock run` loads into programs
//! PREFIX/LIBDIR/pkgconfig       m3ipc.pc, and m3ipc-compat.pc for old include paths
//! PREFIX/LIBDIR/cmake/m3ipc     m3ipc-config.cmake, m3ipc-config-version.cmake
//! PREFIX/include                the headers, also those under old paths
//! PREFIX/share/doc/m3ipc        how to compile programs with old include paths
//! PREFIX/share/man/manN         the pages
//! PREFIX/share/...              completions for bash, zsh and fish
//! PREFIX/lib/systemd/...        system and user units
//! PREFIX/lib/sysusers.d         the users m3, m3-proxy and m3-services
//! PREFIX/share/m3ipc/wireshark  the dissector of captures
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::tree;
use crate::workspace::Workspace;

use super::headers;
use super::placer::{PROGRAM, Placer, TEXT, relative};
use super::strip;
use super::template::Values;
use super::versioned;

/// The programs of an installation.
const PROGRAMS: &[&str] = &["m3", "m3d", "m3-bench", "m3-supervise", "m3-proxy", "m3-registry"];

/// A shell, and the path of its completions from the prefix.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "share/bash-completion/completions/m3"),
    ("zsh", "share/zsh/site-functions/_m3"),
    ("fish", "share/fish/vendor_completions.d/m3.fish"),
];

/// A folder of units in the tree, and its path from the prefix.
const UNITS: &[(&str, &str)] = &[
    ("dist/systemd", "lib/systemd/system"),
    ("dist/systemd/user", "lib/systemd/user"),
    ("dist/sysusers.d", "lib/sysusers.d"),
    ("dist/wireshark", "share/m3ipc/wireshark"),
];

/// What the installation takes, beside the tree.
pub struct Sources {
    /// The folder of what cargo built.
    pub built: PathBuf,
    /// The library that programs load.
    pub shared: PathBuf,
    /// The program `m3` of this machine, which writes its pages and completions.
    pub m3: PathBuf,
    /// The program that separates debug information.
    pub objcopy: String,
}

/// Places everything.
///
/// # Errors
/// Where a part is missing, or a file cannot be written.
pub fn install(
    workspace: &Workspace,
    sources: &Sources,
    values: &Values,
    placer: &mut Placer,
) -> Result<(), Error> {
    let Sources { built, m3, objcopy, .. } = sources;
    let mut binary = |name: &str, folder: &Path| {
        binary(objcopy, &built.join(name), &folder.join(name), values, placer)
    };
    for name in PROGRAMS {
        binary(name, &values.prefix.join("bin"))?;
    }
    binary("libm3sock.so", &values.libdir.join("m3ipc"))?;
    libraries(&built.join(versioned::archive(workspace)), sources, values, placer)?;
    headers::install(&workspace.root, &values.prefix.join("include"), placer)?;
    development(&workspace.root, values, placer)?;
    documents(&workspace.root, values, placer)?;
    units(&workspace.root, values, placer)?;
    command_pages(m3, values, placer)?;
    // A page that people wrote takes the place of a page of a command.
    pages(&workspace.root, values, placer)?;
    completions(m3, values, placer)
}

/// Places a program or a shared library, and its debug information below `lib/debug`.
fn binary(
    objcopy: &str,
    from: &Path,
    to: &Path,
    values: &Values,
    placer: &mut Placer,
) -> Result<(), Error> {
    let separated = strip::separate(objcopy, from)?;
    placer.file(to, &separated.program, PROGRAM)?;
    let Some(debug) = separated.debug else { return Ok(()) };
    // Debuggers look for the name that the link holds, which is that of the built file.
    let name = format!("{}.debug", from.file_name().unwrap_or_default().to_string_lossy());
    let folder = values.prefix.join("lib/debug").join(relative(to));
    placer.file(&folder.with_file_name(name), &debug, TEXT)
}

/// Places the libraries.
fn libraries(
    archive: &Path,
    sources: &Sources,
    values: &Values,
    placer: &mut Placer,
) -> Result<(), Error> {
    let Sources { shared, objcopy, .. } = sources;
    let content = fs::read(shared).map_err(|e| Error::read(shared, e))?;
    let soname = values.soname();
    // Without it, a program linked today would load each later version tomorrow.
    if !contains(&content, format!("\0{soname}\0").as_bytes()) {
        return Err(Error::Unfit {
            what: format!("{} does not carry the SONAME {soname}", shared.display()),
            next: "See how install/versioned.rs links it.".into(),
        });
    }
    let real = format!("libm3ipc.so.{}", values.version);
    binary(objcopy, shared, &values.libdir.join(&real), values, placer)?;
    placer.link(&values.libdir.join(&soname), &real)?;
    placer.link(&values.libdir.join("libm3ipc.so"), &soname)?;
    placer.file(&values.libdir.join("libm3ipc.a"), &strip::archive(objcopy, archive)?, TEXT)
}

/// Places the files of pkg-config and CMake.
fn development(root: &Path, values: &Values, placer: &mut Placer) -> Result<(), Error> {
    let filled = [
        ("crates/capi/m3ipc.pc.in", "pkgconfig/m3ipc.pc"),
        ("crates/capi/m3ipc-compat.pc.in", "pkgconfig/m3ipc-compat.pc"),
        ("dist/cmake/m3ipc-config.cmake.in", "cmake/m3ipc/m3ipc-config.cmake"),
        ("dist/cmake/m3ipc-config-version.cmake.in", "cmake/m3ipc/m3ipc-config-version.cmake"),
    ];
    for (from, to) in filled {
        let text = tree::text(&root.join(from))?;
        placer.file(&values.libdir.join(to), values.fill(from, &text)?.as_bytes(), TEXT)?;
    }
    Ok(())
}

/// Places the text about the headers under old paths.
fn documents(root: &Path, values: &Values, placer: &mut Placer) -> Result<(), Error> {
    let text = tree::text(&root.join("crates/capi/include/m3ipc/compat/README.md"))?;
    placer.file(&values.prefix.join("share/doc/m3ipc/compat.md"), text.as_bytes(), TEXT)
}

fn pages(root: &Path, values: &Values, placer: &mut Placer) -> Result<(), Error> {
    let folder = root.join("docs/man");
    if !folder.is_dir() {
        println!("SKIP man pages: the tree has no docs/man");
        return Ok(());
    }
    let sections = ["1", "2", "3", "4", "5", "6", "7", "8"];
    for page in tree::sources(&folder, &sections)? {
        let name = page.path.rsplit('/').next().unwrap_or(&page.path);
        let section = name.rsplit('.').next().unwrap_or("1");
        let to = values.prefix.join(format!("share/man/man{section}")).join(name);
        placer.file(&to, page.text.as_bytes(), TEXT)?;
    }
    Ok(())
}

fn units(root: &Path, values: &Values, placer: &mut Placer) -> Result<(), Error> {
    for (from, to) in UNITS {
        let folder = root.join(from);
        // `user/` has its own row, so its files must not come from the parent's row.
        let units = tree::sources(&folder, &["service", "socket", "conf", "lua"])?;
        for unit in units.iter().filter(|unit| !unit.path.contains('/')) {
            let text = values.relocate(&unit.text);
            placer.file(&values.prefix.join(to).join(&unit.path), text.as_bytes(), TEXT)?;
        }
    }
    Ok(())
}

/// Asks `m3` for its completions.
fn completions(m3: &Path, values: &Values, placer: &mut Placer) -> Result<(), Error> {
    for (shell, to) in COMPLETIONS {
        let answer = Command::new(m3).args(["completions", shell]).output();
        match answer {
            Ok(answer) if answer.status.success() && !answer.stdout.is_empty() => {
                placer.file(&values.prefix.join(to), &answer.stdout, TEXT)?;
            }
            _ => println!("SKIP completions for {shell}: `m3 completions {shell}` gives none"),
        }
    }
    Ok(())
}

/// Has `m3` write the man pages of its commands.
fn command_pages(m3: &Path, values: &Values, placer: &mut Placer) -> Result<(), Error> {
    let folder = std::env::temp_dir().join(format!("m3ipc-pages-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|e| Error::read(&folder, e))?;
    let written = Command::new(m3).arg("man").arg(&folder).output();
    let pages = tree::sources(&folder, &["1"]);
    let _ = fs::remove_dir_all(&folder);
    if !written.is_ok_and(|written| written.status.success()) {
        println!("SKIP man pages of the commands: `m3 man` gives none");
        return Ok(());
    }
    for page in pages? {
        let to = values.prefix.join("share/man/man1").join(&page.path);
        placer.file(&to, page.text.as_bytes(), TEXT)?;
    }
    Ok(())
}

fn contains(content: &[u8], wanted: &[u8]) -> bool {
    content.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests;
