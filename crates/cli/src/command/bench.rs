//! `m3 bench`: executes the benchmark, the program `m3-bench` beside `m3`.

use crate::error::{CliError, Result};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// The name of the program.
const PROGRAM: &str = "m3-bench";

/// Measure m3ipc beside the kernel's own mechanisms.
///
/// All arguments go to the program m3-bench: `m3 bench --help` shows its options.
///
/// Example: m3 bench --promises
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Bench {
    /// Arguments of m3-bench.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    arguments: Vec<OsString>,
}

/// Replaces this process by `m3-bench`; returns only if that fails.
pub fn run(_args: &Bench) -> Result<ExitCode> {
    let program = program();
    let cause = Command::new(&program).args(passed_on(std::env::args_os())).exec();
    Err(CliError::system(format!("cannot run {}", program.display()), cause)
        .advice("install the benchmark beside m3: `cargo install m3ipc-bench`"))
}

/// The words after `bench`. The parsed arguments lack `--json`, which every command of `m3` takes.
fn passed_on(words: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    words.skip_while(|word| word != "bench").skip(1)
}

/// The program in the directory of `m3`; its name alone, for PATH, where that directory has none.
fn program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_after_bench_are_passed_on() {
        let words = ["m3", "bench", "ipc", "--json", "file", "--help"].map(OsString::from);
        assert!(passed_on(words.into_iter()).eq(["ipc", "--json", "file", "--help"]));
    }
}
