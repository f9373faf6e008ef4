//! `cargo xtask install`: builds with the profile `dist` and puts everything into a prefix.
//!
//! `install/plan.rs` says where each file goes. Each file is written under a temporary name and
//! then renamed, so that the installation never overwrites a daemon that runs or a loaded library.

mod headers;
mod machine;
mod placer;
mod plan;
mod strip;
mod template;
mod versioned;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;
use crate::workspace::Workspace;

use self::machine::Machine;
use self::placer::{Placer, relative};
use self::template::Values;

pub use self::headers::forwards;

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
    /// The profile of cargo; `release` builds sooner and makes larger programs
    #[arg(long, default_value = "dist")]
    profile: String,
    /// Build for another machine: a target of rustup, such as aarch64-unknown-linux-gnu
    #[arg(long, value_name = "TARGET", requires = "destdir")]
    target: Option<String>,
    /// Install the programs that are already built
    #[arg(long)]
    no_build: bool,
}

/// The packages of an installation.
const PACKAGES: &[&str] = &[
    "m3ipc-cli",
    "m3ipc-daemon",
    "m3ipc-bench",
    "m3ipc-supervise",
    "m3ipc-proxy",
    "m3ipc-registry",
    "m3ipc-capi",
    "m3ipc-shim-preload",
];

/// Builds and installs.
///
/// # Errors
/// Where the build fails, a part is missing, or a file cannot be written.
pub fn run(workspace: &Workspace, args: &Args) -> Result<(), Error> {
    if !args.prefix.is_absolute() || args.libdir.is_absolute() {
        return Err(Error::Unfit {
            what: "the prefix must be absolute, and the libdir relative to the prefix".into(),
            next: "For a trial use --destdir, which may be any folder.".into(),
        });
    }
    if let Some(name) = PACKAGES.iter().find(|name| workspace.package(name).is_none()) {
        return Err(Error::Unfit {
            what: format!("the workspace has no package {name}"),
            next: "Check out the whole tree; `ls crates` shows its packages.".into(),
        });
    }
    let machine = Machine::new(args.target.clone());
    machine.check()?;
    if !args.no_build {
        build(&workspace.root, args, &machine, PACKAGES)?;
    }
    // This machine runs it for its pages and its completions.
    let here = Machine::new(None);
    if machine.is_other() {
        build(&workspace.root, args, &here, &["m3ipc-cli"])?;
    }
    let m3 = here.folder(&workspace.target_dir, &args.profile).join("m3");
    let version = workspace.package("m3ipc-capi").map_or("0", |package| package.version.as_str());
    let values = Values::new(&args.prefix, &args.libdir, version);
    let root = args.destdir.clone().unwrap_or_else(|| "/".into());
    let built = machine.folder(&workspace.target_dir, &args.profile);
    let shared = versioned::link(workspace, &built, &values.soname(), &machine.cc())?;
    let mut placer = Placer::new(&root);
    let sources = plan::Sources { built, shared, m3, objcopy: machine.objcopy() };
    plan::install(workspace, &sources, &values, &mut placer)?;
    println!(
        "{} files installed below {}",
        placer.count(),
        root.join(relative(&args.prefix)).display()
    );
    if args.destdir.is_none() {
        println!("Next, as root: ldconfig && systemd-sysusers && systemctl daemon-reload");
        println!("For all users: systemctl enable --now m3d.socket. One user needs no more.");
    }
    Ok(())
}

fn build(root: &Path, args: &Args, machine: &Machine, packages: &[&str]) -> Result<(), Error> {
    let profile = &args.profile;
    let mut cargo = Command::new("cargo");
    // The library starts the daemon from there.
    cargo.env("M3IPC_BINDIR", args.prefix.join("bin"));
    cargo.args(["build", "--profile", profile]);
    machine.configure(&mut cargo);
    cargo.args(packages.iter().flat_map(|name| ["-p", name])).current_dir(root);
    let status =
        cargo.status().map_err(|source| Error::Start { program: "cargo".into(), source })?;
    if status.success() {
        return Ok(());
    }
    let command = format!("cargo build --profile {profile} -p {}", packages.join(" -p "));
    Err(Error::Failed { command, status })
}
