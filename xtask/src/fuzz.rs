//! `cargo xtask fuzz`: runs the fuzz targets with AddressSanitizer, each for so many seconds.
//!
//! cargo-fuzz builds them. New inputs stay in `target/fuzz/TARGET`; the corpus of the tree is in
//! `tests/fuzz/corpus`, and the test of that package replays it with stable Rust.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;
use crate::workspace::Workspace;

/// All targets: the programs of `fuzz/Cargo.toml`.
const TARGETS: &[&str] = &["frames", "packets", "links", "areas", "rings", "regions"];

/// What to run.
#[derive(clap::Args)]
pub struct Args {
    /// The targets; all of them by default
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(TARGETS))]
    targets: Vec<String>,
    /// How long each target runs
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

/// Runs the targets, one after another.
///
/// # Errors
/// Where cargo-fuzz is missing, or a target found a fault.
pub fn run(workspace: &Workspace, args: &Args) -> Result<(), Error> {
    let all: Vec<&str> = if args.targets.is_empty() {
        TARGETS.to_vec()
    } else {
        args.targets.iter().map(String::as_str).collect()
    };
    let found = workspace.target_dir.join("fuzz");
    // The files of sockets under the shim lie in a directory that no other user can write.
    let runtime = found.join("runtime");
    make(&runtime)?;
    for target in &all {
        let corpus = found.join(target);
        make(&corpus)?;
        run_one(workspace, target, &corpus, &runtime, args.seconds)?;
    }
    println!("{} targets, {} s each, no fault", all.len(), args.seconds);
    Ok(())
}

fn make(folder: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|e| Error::write(folder, e))
}

fn run_one(
    workspace: &Workspace,
    target: &str,
    corpus: &Path,
    runtime: &Path,
    seconds: u32,
) -> Result<(), Error> {
    let mut cargo = Command::new("cargo");
    cargo.args(["fuzz", "run", target]).arg(corpus);
    cargo.arg(format!("tests/fuzz/corpus/{target}"));
    cargo.args(["--", "-max_len=4096", &format!("-max_total_time={seconds}")]);
    // Stable Rust then takes the options of nightly that cargo-fuzz uses.
    cargo.env("RUSTC_BOOTSTRAP", "1").env("M3_RUNTIME_DIR", runtime);
    cargo.current_dir(&workspace.root).stdin(Stdio::null());
    let status =
        cargo.status().map_err(|source| Error::Start { program: "cargo".into(), source })?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed { command: format!("cargo fuzz run {target}"), status })
}

#[cfg(test)]
mod tests {
    use super::TARGETS;

    #[test]
    fn each_target_has_a_program_and_a_corpus() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        for target in TARGETS {
            for path in
                [format!("fuzz/fuzz_targets/{target}.rs"), format!("tests/fuzz/corpus/{target}")]
            {
                let path = std::path::Path::new(root).join(path);
                assert!(path.exists(), "{} is missing", path.display());
            }
        }
    }
}
