//! `cargo xtask install`: builds for release and puts everything into a prefix.
//!
//! What goes where is data (`install/plan.rs`); each file is written beside its place and then renamed into it, so a
//! running daemon or a loaded library is never written over.

mod place;
mod plan;
mod template;
mod versioned;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::workspace::Workspace;

use self::place::Placer;
use self::template::Values;

/// Where to install.
#[derive(clap::Args)]
pub struct Args {
    /// Put everything below this folder instead of the root; for packages
    #[arg(long, value_name = "DIR")]
    destdir: Option<PathBuf>,
    /// Where programs, libraries and pages go
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    prefix: PathBuf,
    /// The folder for libraries, from the prefix; Debian's own is lib/x86_64-linux-gnu
    #[arg(long, value_name = "DIR", default_value = "lib")]
    libdir: PathBuf,
    /// Install what is built already
    #[arg(long)]
    no_build: bool,
}

/// The crates that an installation is made of.
const CRATES: &[&str] = &["m3", "m3d", "m3ipc-capi", "m3ipc-shim-preload"];

/// Builds and installs.
///
/// # Errors
/// Where the build fails, a part is missing, or a file cannot be written.
pub fn run(workspace: &Workspace, args: &Args) -> Result<(), Error> {
    if !args.prefix.is_absolute() || args.libdir.is_absolute() {
        return Err(Error::Unfit {
            what: "the prefix must be an absolute path, and the libdir one from the prefix".into(),
            next: "For a trial run use --destdir, which may be any folder.".into(),
        });
    }
    if let Some(name) = CRATES.iter().find(|name| workspace.package(name).is_none()) {
        return Err(Error::Unfit {
            what: format!("the crate {name} is not in this workspace"),
            next: "Check out the whole tree; `ls crates` shows what is there.".into(),
        });
    }
    if !args.no_build {
        build(&workspace.root)?;
    }
    let version = workspace.package("m3ipc-capi").map_or("0", |package| package.version.as_str());
    let values = Values::new(&args.prefix, &args.libdir, version);
    let root = destination(args);
    let mut placer = Placer::new(&root);
    let shared = versioned::link(workspace, plan::built(workspace), &values.soname())?;
    plan::place(workspace, &shared, &values, &mut placer)?;
    println!(
        "{} files installed below {}",
        placer.count(),
        root.join(relative(&args.prefix)).display()
    );
    if args.destdir.is_none() {
        println!("Next, as root: ldconfig && systemd-sysusers && systemctl daemon-reload");
        println!(
            "Then `systemctl enable --now m3d.socket` for the whole machine; a single user needs nothing."
        );
    }
    Ok(())
}

fn build(root: &Path) -> Result<(), Error> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--release"])
        .args(CRATES.iter().flat_map(|name| ["-p", name]))
        .current_dir(root);
    let status =
        cargo.status().map_err(|source| Error::Start { program: "cargo".into(), source })?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed {
        command: format!("cargo build --release -p {}", CRATES.join(" -p ")),
        status,
    })
}

fn destination(args: &Args) -> PathBuf {
    args.destdir.clone().unwrap_or_else(|| "/".into())
}

/// A path without its leading `/`, to be put below another.
fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}
