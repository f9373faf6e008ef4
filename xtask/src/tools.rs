//! `cargo xtask tools`: installs the tools of `cargo xtask check` that are missing.
//!
//! Cargo builds them from crates.io, once for the machine, with the versions of [`TOOLS`]. rustup
//! installs the oldest compiler that the packages promise. A tool that is already on PATH is taken
//! as it is. Where the registry cannot be reached, the command says so and succeeds, and the steps
//! that need the tool say that they are skipped. Only the step of the oldest compiler fails then.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::workspace::Workspace;

/// A program, and the package and version that bring it.
struct Tool {
    program: &'static str,
    version: &'static str,
    /// Its features in place of the default ones, if any are named.
    features: Option<&'static str>,
    /// Only `--full` needs it.
    full: bool,
}

const fn tool(program: &'static str, version: &'static str) -> Tool {
    Tool { program, version, features: None, full: false }
}

const TOOLS: &[Tool] = &[
    tool("cargo-machete", "0.9.2"),
    // No server of pages: it is not used here, and builds for long.
    Tool { features: Some("search"), ..tool("mdbook", "0.5.4") },
    Tool { full: true, ..tool("cargo-fuzz", "0.13.2") },
];

/// Which tools.
#[derive(clap::Args)]
pub struct Args {
    /// Also the tools of `cargo xtask check --full`
    #[arg(long)]
    full: bool,
}

/// Installs the missing tools and prints a line for each that stays missing.
///
/// # Errors
/// Where cargo cannot be started.
pub fn run(workspace: &Workspace, args: &Args) -> Result<(), Error> {
    let wanted: Vec<&Tool> = TOOLS.iter().filter(|tool| args.full || !tool.full).collect();
    let mut installed = 0;
    for tool in wanted.iter().filter(|tool| !is_on_path(tool.program)) {
        if install(tool)? {
            installed += 1;
        } else {
            println!("SKIP {}: `cargo install` failed; is crates.io in reach?", tool.program);
        }
    }
    let oldest = workspace.oldest_compiler();
    if !rustup(&["toolchain", "install", oldest, "--profile", "minimal"])? {
        println!("SKIP Rust {oldest}: rustup could not install it; the step `msrv` will fail");
    }
    if args.full && !nightly_has("bin/miri") {
        let nightly = ["toolchain", "install", "nightly", "--profile", "minimal"];
        let parts = ["--component", "miri", "--component", "rust-src"];
        if !rustup(&[&nightly[..], &parts].concat())? {
            println!("SKIP miri and sanitizers: rustup could not install the nightly toolchain");
        }
    }
    let present = wanted.iter().filter(|tool| is_on_path(tool.program)).count();
    println!("{present} of {} tools present, {installed} installed now", wanted.len());
    Ok(())
}

fn install(tool: &Tool) -> Result<bool, Error> {
    let mut cargo = Command::new("cargo");
    cargo.args(["install", "--locked", "--version", tool.version, tool.program]);
    if let Some(features) = tool.features {
        cargo.args(["--no-default-features", "--features", features]);
    }
    // The tools are built with their own settings, not with those of this run.
    cargo.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS").stdin(Stdio::null());
    // Each tool works for seconds. Optimising it would take minutes of every first run.
    cargo.envs([
        ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
        ("CARGO_PROFILE_RELEASE_LTO", "off"),
        ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
        ("CARGO_PROFILE_RELEASE_DEBUG", "0"),
    ]);
    let status =
        cargo.status().map_err(|source| Error::Start { program: "cargo".into(), source })?;
    Ok(status.success())
}

/// Runs rustup, and returns whether it succeeded.
fn rustup(words: &[&str]) -> Result<bool, Error> {
    let mut rustup = Command::new("rustup");
    let status = rustup.args(words).stdin(Stdio::null()).status();
    status
        .map(|status| status.success())
        .map_err(|source| Error::Start { program: "rustup".into(), source })
}

/// Whether the nightly toolchain has a file, given from its root.
pub fn nightly_has(path: &str) -> bool {
    let mut rustc = Command::new("rustc");
    rustc.args(["+nightly", "--print", "sysroot"]).env("RUSTUP_AUTO_INSTALL", "0");
    let output = rustc.stderr(Stdio::null()).output();
    output.is_ok_and(|output| {
        let root = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success() && Path::new(&root).join(path).is_file()
    })
}

/// Whether a folder of PATH holds a program of that name.
pub fn is_on_path(name: &str) -> bool {
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|dir| dir.join(name).is_file()))
}

/// Whether python3 has a module; false where there is no python3.
pub fn python_has(module: &str) -> bool {
    let mut python = Command::new("python3");
    python.arg("-c").arg(format!("import {module}"));
    python.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}
