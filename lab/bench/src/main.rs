//! The benchmark as a program; `m3 bench` executes it.

use std::process::ExitCode;

use clap::Parser;

#[derive(Parser)]
#[command(version, about = "Measures m3ipc and the mechanisms of the kernel in one run")]
#[command(max_term_width = 110)]
struct CommandLine {
    #[command(flatten)]
    bench: m3ipc_bench::Arguments,
}

fn main() -> ExitCode {
    if let Some(code) = m3ipc_bench::peer::if_asked() {
        return code;
    }
    match m3ipc_bench::start(&CommandLine::parse().bench) {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(error) => {
            eprintln!("m3-bench: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
