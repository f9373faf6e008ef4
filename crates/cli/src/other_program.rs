//! Programs that commands of `m3` execute: `m3-bench`, `m3-proxy`, `m3-registry`, `m3-supervise`.

use crate::error::{CliError, Result};
use m3ipc::runtime::check_program;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The directory of the programs in an installation, relative to the directory of `m3`.
const LIBEXEC: &str = "../libexec/m3ipc";

/// Replaces this process by a program; returns only if that fails. `package` builds the program.
pub fn execute(
    program: &str,
    package: &str,
    words: impl Iterator<Item = OsString>,
) -> Result<ExitCode> {
    let mut command = command(program, package)?;
    let cause = command.args(words).exec();
    let found = PathBuf::from(command.get_program());
    Err(CliError::system(format!("cannot run {}", found.display()), cause))
}

/// A program that starts its daemons with this `m3`, unless `M3_DAEMON` names another one.
pub fn command(program: &str, package: &str) -> Result<Command> {
    let own = std::env::current_exe()
        .map_err(|cause| CliError::system("cannot find the program m3", cause))?;
    let path = m3ipc_sys::variable("PATH").unwrap_or_default();
    let found = find(program, &own, &path).map_err(|reasons| {
        let what = format!("{program} is neither beside {} nor in {LIBEXEC}", own.display());
        let why = "nor in an absolute directory of PATH is one that no other user can replace";
        CliError::system(what, format!("{why}{reasons}"))
            .advice(format!("build it with `cargo build --release -p {package}`"))
    })?;
    let mut command = Command::new(&found);
    if m3ipc_sys::variable("M3_DAEMON").is_none() {
        command.env("M3_DAEMON", own);
    }
    Ok(command)
}

/// The words after a command. `m3 --json services` has one before it.
pub fn passed_on(
    command: &str,
    words: impl Iterator<Item = OsString>,
) -> impl Iterator<Item = OsString> {
    let words: Vec<OsString> = words.skip(1).collect();
    let at = words.iter().position(|word| word == command).unwrap_or(words.len());
    let json = words[..at].iter().any(|word| word == "--json").then(|| "--json".into());
    let after: Vec<OsString> = words.into_iter().skip(at + 1).collect();
    after.into_iter().chain(json)
}

/// The program beside `m3`, in the installation, or in an absolute directory of PATH; else the
/// reasons against those that exist.
fn find(program: &str, own: &Path, path: &OsStr) -> std::result::Result<PathBuf, String> {
    let beside = own.parent().unwrap_or(Path::new("/"));
    let on_path = std::env::split_paths(path).filter(|directory| directory.is_absolute());
    let directories = [beside.to_owned(), beside.join(LIBEXEC)].into_iter().chain(on_path);
    // An installation may link to its programs.
    let programs = directories.filter_map(|directory| directory.join(program).canonicalize().ok());
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
    fn the_program_beside_m3_is_preferred_and_a_relative_path_is_ignored() {
        let directory =
            std::env::temp_dir().join(format!("m3-find-program-{}", std::process::id()));
        let (own, other) = (directory.join("bin/m3"), directory.join("other"));
        for path in [own.parent().unwrap(), &other] {
            let mut private = std::fs::DirBuilder::new();
            private.recursive(true).mode(0o700).create(path).unwrap();
        }
        assert_eq!(find("m3-bench", &own, "relative:.".as_ref()), Err(String::new()));
        let make = |path: &Path| {
            std::fs::write(path, "").unwrap();
            std::fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
        };
        make(&other.join("m3-bench"));
        assert_eq!(find("m3-bench", &own, other.as_os_str()), Ok(other.join("m3-bench")));
        make(&own.with_file_name("m3-bench"));
        assert_eq!(find("m3-bench", &own, other.as_os_str()), Ok(own.with_file_name("m3-bench")));
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn every_argument_is_passed_on_also_one_named_as_the_command() {
        for (words, passed) in [
            (&["m3", "services", "services", "--json"][..], &["services", "--json"][..]),
            (&["m3", "--json", "services", "shop"], &["shop", "--json"]),
            (&["m3", "services", "shop", "stop", "a"], &["shop", "stop", "a"]),
        ] {
            let words = words.iter().map(OsString::from);
            assert!(passed_on("services", words).eq(passed.iter().map(OsString::from)));
        }
    }
}
