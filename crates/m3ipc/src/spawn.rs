//! The start of a node daemon if none runs.

use crate::error::Fail;
use m3ipc_abi::Code;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Seconds after which a daemon without VMs and members ends.
const IDLE_SECONDS: &str = "10";

/// The program of the daemon, and the first words of its command line.
fn program() -> Result<(PathBuf, &'static [&'static str]), Fail> {
    if let Some(named) = std::env::var_os("M3_DAEMON").filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        let prefix = prefix_of(&named);
        return Ok((named, prefix));
    }
    let own = std::env::current_exe().ok();
    // The command line tool is a daemon too, and of its own version.
    if let Some(own) = own.as_ref().filter(|own| own.file_name().is_some_and(|name| name == "m3")) {
        return Ok((own.clone(), prefix_of(own)));
    }
    let beside = own.and_then(|exe| exe.parent().map(Path::to_owned));
    // Programs in target/debug/deps and target/debug/examples have the daemon one level up.
    let above = beside.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(above).chain(std::env::split_paths(&path));
    let mut found = folders.flat_map(|folder| [folder.join("m3d"), folder.join("m3")]);
    match found.find(|program| program.is_file()) {
        Some(program) => {
            let prefix = prefix_of(&program);
            Ok((program, prefix))
        }
        None => Err(Fail::new(
            Code::DrvsInit,
            "no node daemon runs and the program m3d is not found; install m3ipc, or name the \
             program in M3_DAEMON",
        )),
    }
}

fn prefix_of(program: &Path) -> &'static [&'static str] {
    if program.file_name().is_some_and(|name| name == "m3") { &["daemon"] } else { &[] }
}

/// Starts a daemon for this runtime directory in the background. Returns before the daemon serves.
pub(crate) fn daemon(directory: &Path, uninitialised: bool) -> Result<(), Fail> {
    let (program, prefix) = program()?;
    start(&program, prefix, directory, uninitialised)
}

/// Starts this program as the daemon of a runtime directory.
pub(crate) fn start(
    program: &Path,
    prefix: &[&str],
    directory: &Path,
    uninitialised: bool,
) -> Result<(), Fail> {
    let mut command = Command::new(program);
    command.args(prefix).arg("--detach").arg("--runtime-dir").arg(directory);
    command.args(["--idle-exit", IDLE_SECONDS]);
    if uninitialised {
        command.arg("--uninitialised");
    }
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let why = match status {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => format!(
            "the node daemon {} did not start ({status}); run it by hand to see why",
            program.display()
        ),
        Err(cause) => format!(
            "the node daemon {} cannot be started: {cause}; check the file and M3_DAEMON",
            program.display()
        ),
    };
    Err(Fail::new(Code::DrvsInit, why))
}
