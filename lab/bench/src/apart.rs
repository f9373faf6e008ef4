//! Programs that `m3 bench` executes. They are built apart, since they bring networks or libraries
//! of others.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::args::OutsideArgs;
use crate::error::Error;
use crate::outcome::Outcome;
use crate::outside;

/// A program, and how a person gets it.
pub struct Program {
    name: &'static str,
    /// The variable that names its path.
    variable: &'static str,
    next: &'static str,
}

/// Engines between nodes.
pub const NODES: Program = Program {
    name: "m3-nodes",
    variable: "M3_BENCH_NODES",
    next: "cargo build --release --manifest-path lab/nodes/Cargo.toml builds it \
           (lab/nodes/README.md); put m3-nodes beside m3-bench, on PATH, or name it with \
           M3_BENCH_NODES",
};

/// RPC libraries.
pub const STACKS: Program = Program {
    name: "m3-stacks",
    variable: "M3_BENCH_STACKS",
    next: "cargo build --release --manifest-path lab/stacks/Cargo.toml builds it \
           (lab/stacks/README.md); put m3-stacks beside m3-bench, on PATH, or name it with \
           M3_BENCH_STACKS",
};

/// Replaces this process by a program; returns only if that fails.
pub fn run(program: &Program, args: &OutsideArgs) -> Result<Outcome, Error> {
    let path =
        outside::program(program.name, program.variable).ok_or_else(|| Error::Unavailable {
            why: format!("there is no program {}", program.name),
            next: program.next,
        })?;
    let cause = Command::new(path).args(&args.arguments).exec();
    Err(Error::os("run a program that is built apart")(cause))
}
