//! The benchmark as a program of its own; `m3 bench` runs the same.

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(version, about = "Measures m3ipc and what the kernel offers, in one run")]
struct Arguments {
    #[command(flatten)]
    bench: m3ipc_bench::Arguments,
}

fn main() -> ExitCode {
    if let Some(code) = m3ipc_bench::peer::if_asked() {
        return code;
    }
    match m3ipc_bench::start(&Arguments::parse().bench) {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(error) => {
            eprintln!("m3-bench: {error}");
            ExitCode::from(2)
        }
    }
}
