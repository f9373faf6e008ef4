//! `m3 bench nodes`: executes `m3-nodes`, which is built apart since it brings networks.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::args::NodesArgs;
use crate::error::Error;
use crate::outcome::Outcome;
use crate::outside;

/// The program.
const PROGRAM: &str = "m3-nodes";
/// The variable that names its path.
const VARIABLE: &str = "M3_NODES";

/// Replaces this process by `m3-nodes`; returns only if that fails.
pub fn run(args: &NodesArgs) -> Result<Outcome, Error> {
    let program = outside::program(PROGRAM, VARIABLE).ok_or_else(|| Error::Unavailable {
        why: format!("there is no program {PROGRAM}"),
        next: "cargo build --release --manifest-path lab/nodes/Cargo.toml builds it \
               (lab/nodes/README.md); put m3-nodes beside m3-bench, on PATH, or name it with \
               M3_NODES",
    })?;
    let cause = Command::new(program).args(&args.arguments).exec();
    Err(Error::os("run m3-nodes")(cause))
}
