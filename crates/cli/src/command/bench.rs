//! `m3 bench`: measures m3ipc beside what the kernel offers.

use crate::fail::{Fail, Result};
use crate::out::Out;
use clap::Args;
use m3ipc_bench::{Error, Outcome};
use std::process::ExitCode;

/// Measure.
#[derive(Args, Debug)]
// Its group would have the name of the arguments' own.
#[group(skip)]
pub struct Bench {
    #[command(flatten)]
    args: m3ipc_bench::Arguments,
}

/// Measures.
pub fn run(args: &Bench, out: Out) -> Result<ExitCode> {
    if out.is_json() && args.args.further.is_none() && args.args.measure.json.is_none() {
        return Err(Fail::usage(
            "the benchmark writes its JSON to a file: m3 bench ipc --json FILE",
        ));
    }
    match m3ipc_bench::start(&args.args) {
        Ok(Outcome::Fine) => Ok(ExitCode::SUCCESS),
        Ok(Outcome::FallsShort) => Ok(ExitCode::from(1)),
        Ok(Outcome::Failed) => Err(Fail::system("a measurement failed", "its reason stands above")),
        Err(Error::Usage(what)) => Err(Fail::usage(what)),
        Err(error) => Err(Fail::system("nothing was measured", error)),
    }
}
