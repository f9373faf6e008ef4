//! The daemon of the tests: `m3d`, built with them.

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    // It never outlives its test, however that ends.
    let _ = m3_sys::die_with_parent();
    m3d::run(&m3d::Args::parse())
}
