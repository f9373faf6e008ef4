//! `m3 bench`: executes the benchmark program, `m3-bench`.

use crate::fail::{Fail, Result};
use crate::out::Out;
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The program.
const PROGRAM: &str = "m3-bench";
/// Its directory in an installation, relative to that of `m3`.
const LIBEXEC: &str = "../libexec/m3ipc";

/// Measure.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub struct Bench {
    /// Arguments of m3-bench; `m3 bench --help` lists them
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes the benchmark program, which gets all arguments.
pub fn run(args: &Bench, out: Out) -> Result<ExitCode> {
    let is_other = args
        .arguments
        .iter()
        .any(|it| ["--json", "compare", "report", "tracing"].iter().any(|word| it == word));
    if out.is_json() && !is_other {
        return Err(Fail::usage(
            "the benchmark writes its JSON to a file: m3 bench ipc --json FILE",
        ));
    }
    let own =
        std::env::current_exe().map_err(|cause| Fail::system("cannot find m3 itself", cause))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Some(program) = find(&own, &path) else {
        let own = own.display();
        return Err(Fail::system(
            "nothing was measured",
            format!("{PROGRAM} is neither beside {own} nor in {LIBEXEC} nor on PATH"),
        )
        .next("install it: cargo build --release -p m3ipc-bench makes it"));
    };
    let cause = Command::new(&program).args(&args.arguments).exec();
    Err(Fail::system(format!("cannot execute {}", program.display()), cause))
}

/// The program beside `m3`, in the installation, or in an absolute directory of PATH.
fn find(own: &Path, path: &std::ffi::OsStr) -> Option<PathBuf> {
    let beside = own.parent()?;
    let on_path = std::env::split_paths(path).filter(|directory| directory.is_absolute());
    let directories = [beside.to_owned(), beside.join(LIBEXEC)].into_iter().chain(on_path);
    directories.map(|directory| directory.join(PROGRAM)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    #[test]
    fn every_argument_reaches_the_program() {
        for words in [&["--help"][..], &["ipc", "--quick", "--json", "f"], &["--json", "f"]] {
            let all = ["m3", "bench"].iter().chain(words);
            let Command::Bench(bench) = Cli::parse_from(all).command else {
                panic!("{words:?} is no bench")
            };
            assert_eq!(bench.arguments, words);
        }
    }

    #[test]
    fn the_sibling_is_preferred_and_a_relative_path_is_ignored() {
        let directory = std::env::temp_dir().join(format!("m3-find-bench-{}", std::process::id()));
        let (own, other) = (directory.join("bin/m3"), directory.join("other"));
        for path in [own.parent().expect("it has a parent"), &other] {
            std::fs::create_dir_all(path).expect("a directory can be made");
        }
        assert_eq!(find(&own, "relative:.".as_ref()), None);
        std::fs::write(other.join(PROGRAM), "").expect("a file can be written");
        assert_eq!(find(&own, other.as_os_str()), Some(other.join(PROGRAM)));
        std::fs::write(own.with_file_name(PROGRAM), "").expect("a file can be written");
        assert_eq!(find(&own, other.as_os_str()), Some(own.with_file_name(PROGRAM)));
        std::fs::remove_dir_all(&directory).expect("it can be removed");
    }
}
