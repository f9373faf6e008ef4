//! `m3 bench`: executes the benchmark, the program `m3-bench`.

use crate::error::{CliError, Result};
use clap::Args;
use m3ipc::runtime::check_program;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The name of the program.
const PROGRAM: &str = "m3-bench";
/// The directory of the program in an installation, relative to the directory of `m3`.
const LIBEXEC: &str = "../libexec/m3ipc";

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
    let own = std::env::current_exe()
        .map_err(|cause| CliError::system("cannot find the program m3", cause))?;
    let path = m3ipc_sys::variable("PATH").unwrap_or_default();
    let program = find(&own, &path).map_err(|reasons| {
        let what = format!("{PROGRAM} is neither beside {} nor in {LIBEXEC}", own.display());
        let why = "nor in an absolute directory of PATH is one that no other user can replace";
        CliError::system(what, format!("{why}{reasons}"))
            .advice("build it with `cargo build --release -p m3ipc-bench`")
    })?;
    let cause = Command::new(&program).args(passed_on(std::env::args_os())).exec();
    Err(CliError::system(format!("cannot run {}", program.display()), cause))
}

/// The words after `bench`. The parsed arguments lack `--json`, which every command of `m3` takes.
fn passed_on(words: impl Iterator<Item = OsString>) -> impl Iterator<Item = OsString> {
    words.skip_while(|word| word != "bench").skip(1)
}

/// The program beside `m3`, in the installation, or in an absolute directory of PATH; else the
/// reasons against those that exist.
fn find(own: &Path, path: &OsStr) -> std::result::Result<PathBuf, String> {
    let beside = own.parent().unwrap_or(Path::new("/"));
    let on_path = std::env::split_paths(path).filter(|directory| directory.is_absolute());
    let directories = [beside.to_owned(), beside.join(LIBEXEC)].into_iter().chain(on_path);
    // An installation may link to its programs.
    let programs = directories.filter_map(|directory| directory.join(PROGRAM).canonicalize().ok());
    let mut reasons = String::new();
    for program in programs {
        match check_program(&program) {
            Ok(()) => return Ok(program),
            Err(reason) => reasons.push_str(&format!("; {} {reason}", program.display())),
        }
    }
    Err(reasons)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

    #[test]
    fn every_argument_is_passed_on() {
        for words in [&["--help"][..], &["ipc", "--quick", "--json", "f"], &["--json", "f"]] {
            let all = ["m3", "bench"].iter().chain(words).map(OsString::from);
            assert!(passed_on(all).eq(words.iter().map(OsString::from)), "{words:?}");
        }
    }

    #[test]
    fn the_program_beside_m3_is_preferred_and_a_relative_path_is_ignored() {
        let directory = std::env::temp_dir().join(format!("m3-find-bench-{}", std::process::id()));
        let (own, other) = (directory.join("bin/m3"), directory.join("other"));
        for path in [own.parent().unwrap(), &other] {
            let mut private = std::fs::DirBuilder::new();
            private.recursive(true).mode(0o700).create(path).unwrap();
        }
        assert_eq!(find(&own, "relative:.".as_ref()), Err(String::new()));
        let make = |path: &Path| {
            std::fs::write(path, "").unwrap();
            std::fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
        };
        make(&other.join(PROGRAM));
        assert_eq!(find(&own, other.as_os_str()), Ok(other.join(PROGRAM)));
        make(&own.with_file_name(PROGRAM));
        assert_eq!(find(&own, other.as_os_str()), Ok(own.with_file_name(PROGRAM)));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
