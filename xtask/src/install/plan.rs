//! What goes where.
//!
//! ```text
//! PREFIX/bin                    m3, m3d
//! PREFIX/LIBDIR                 libm3ipc.so.0.1.0, its two links, libm3ipc.a
//! PREFIX/LIBDIR/m3ipc           libm3sock.so, which `m3 sock run` puts in front of programs
//! PREFIX/LIBDIR/pkgconfig       m3ipc.pc
//! PREFIX/LIBDIR/cmake/m3ipc     m3ipc-config.cmake, m3ipc-config-version.cmake
//! PREFIX/include                the headers
//! PREFIX/share/man/manN         the pages
//! PREFIX/share/...              completions for bash, zsh and fish
//! PREFIX/lib/systemd/...        system and user units
//! PREFIX/lib/sysusers.d         the user m3
//! PREFIX/share/m3ipc/wireshark   what takes captures apart
//! ```

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::tree;
use crate::workspace::Workspace;

use super::place::{PROGRAM, Placer, TEXT};
use super::template::Values;

/// Shell, and the place of its completions from the prefix.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "share/bash-completion/completions/m3"),
    ("zsh", "share/zsh/site-functions/_m3"),
    ("fish", "share/fish/vendor_completions.d/m3.fish"),
];

/// Folder of units in the tree, and its place from the prefix.
const UNITS: &[(&str, &str)] = &[
    ("dist/systemd", "lib/systemd/system"),
    ("dist/systemd/user", "lib/systemd/user"),
    ("dist/sysusers.d", "lib/sysusers.d"),
    ("dist/wireshark", "share/m3ipc/wireshark"),
];

/// The name that cargo gives the libraries: it forbids the crate to bear the library's own, which the Rust API has.
pub fn built(workspace: &Workspace) -> &str {
    workspace.targets("m3ipc-capi", "cdylib").next().unwrap_or("m3ipc")
}

/// Places everything; `shared` is the library for programs to load.
///
/// # Errors
/// Where a part that must be there is not, or a file cannot be written.
pub fn place(
    workspace: &Workspace,
    shared: &Path,
    values: &Values,
    placer: &mut Placer,
) -> Result<(), Error> {
    let release = workspace.target_dir.join("release");
    for name in ["m3", "m3d"] {
        placer.copy(&release.join(name), &values.prefix.join("bin").join(name), PROGRAM)?;
    }
    libraries(&release.join(format!("lib{}.a", built(workspace))), shared, values, placer)?;
    placer.copy(
        &release.join("libm3sock.so"),
        &values.libdir.join("m3ipc/libm3sock.so"),
        PROGRAM,
    )?;
    development(&workspace.root, values, placer)?;
    pages(&workspace.root, values, placer)?;
    units(&workspace.root, values, placer)?;
    command_pages(&release.join("m3"), values, placer)?;
    completions(&release.join("m3"), values, placer)
}

/// Places the libraries.
fn libraries(
    archive: &Path,
    shared: &Path,
    values: &Values,
    placer: &mut Placer,
) -> Result<(), Error> {
    let content = fs::read(shared).map_err(|e| Error::read(shared, e))?;
    let soname = values.soname();
    // Without it, a program linked today would load whatever version lies there tomorrow.
    if !contains(&content, format!("\0{soname}\0").as_bytes()) {
        return Err(Error::Unfit {
            what: format!("{} does not carry the SONAME {soname}", shared.display()),
            next: "See how install/versioned.rs links it.".into(),
        });
    }
    let real = format!("libm3ipc.so.{}", values.version);
    placer.file(&values.libdir.join(&real), &content, PROGRAM)?;
    placer.link(&values.libdir.join(&soname), &real)?;
    placer.link(&values.libdir.join("libm3ipc.so"), &soname)?;
    placer.copy(archive, &values.libdir.join("libm3ipc.a"), TEXT)
}

/// Headers, pkg-config, CMake.
fn development(root: &Path, values: &Values, placer: &mut Placer) -> Result<(), Error> {
    let include = root.join("crates/capi/include");
    for header in tree::sources(&include, &["h"])? {
        placer.file(
            &values.prefix.join("include").join(&header.path),
            header.text.as_bytes(),
            TEXT,
        )?;
    }
    let filled = [
        ("crates/capi/m3ipc.pc.in", "pkgconfig/m3ipc.pc"),
        ("dist/cmake/m3ipc-config.cmake.in", "cmake/m3ipc/m3ipc-config.cmake"),
        ("dist/cmake/m3ipc-config-version.cmake.in", "cmake/m3ipc/m3ipc-config-version.cmake"),
    ];
    for (from, to) in filled {
        let text = read(&root.join(from))?;
        placer.file(&values.libdir.join(to), values.fill(from, &text)?.as_bytes(), TEXT)?;
    }
    Ok(())
}

fn pages(root: &Path, values: &Values, placer: &mut Placer) -> Result<(), Error> {
    let folder = root.join("docs/man");
    if !folder.is_dir() {
        println!("SKIP man pages: there is no docs/man in this tree");
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
        // Not `user/` from within its parent: that has its own row.
        let units = tree::sources(&folder, &["service", "socket", "conf", "lua"])?;
        for unit in units.iter().filter(|unit| !unit.path.contains('/')) {
            let text = values.relocate(&unit.text);
            placer.file(&values.prefix.join(to).join(&unit.path), text.as_bytes(), TEXT)?;
        }
    }
    Ok(())
}

/// Asks the program itself, which knows its options best.
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

/// The program writes the pages of its own commands, too.
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

fn read(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|e| Error::read(path, e))
}

fn contains(content: &[u8], wanted: &[u8]) -> bool {
    content.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests;
