//! `m3 bench`: executes the benchmark, the program `m3-bench`.

use crate::error::Result;
use crate::other_program;
use clap::Args;
use std::ffi::OsString;
use std::process::ExitCode;

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
    other_program::execute(PROGRAM, "m3ipc-bench", passed_on(std::env::args_os()))
}

/// The words after `bench`. The parsed arguments lack `--json`, which every command of `m3` takes.
fn passed_on(words: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    words.skip_while(|word| word != "bench").skip(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_is_passed_on() {
        for words in [&["--help"][..], &["ipc", "--quick", "--json", "f"], &["--json", "f"]] {
            let all = ["m3", "bench"].iter().chain(words).map(OsString::from);
            assert!(passed_on(all).eq(words.iter().map(OsString::from)), "{words:?}");
        }
    }
}
