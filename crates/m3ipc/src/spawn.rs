//! Starting a node daemon where none runs.

use crate::error::Fail;
use m3ipc_abi::Code;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How long an auto-started daemon stays without VMs and members, in seconds.
const IDLE_SECONDS: &str = "10";

/// The program to start, and what its command line begins with.
fn program() -> Result<(PathBuf, &'static [&'static str]), Fail> {
    if let Some(named) = std::env::var_os("M3_DAEMON").filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        let prefix = prefix_of(&named);
        return Ok((named, prefix));
    }
    let own = std::env::current_exe().ok();
    // The command line tool is a daemon as well, and surely of its own version.
    if let Some(own) = own.as_ref().filter(|own| own.file_name().is_some_and(|name| name == "m3")) {
        return Ok((own.clone(), prefix_of(own)));
    }
    let beside = own.and_then(|exe| exe.parent().map(Path::to_owned));
    // Programs under target/debug/deps or target/debug/examples have the tools one level up.
    let above = beside.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = beside.into_iter().chain(above).chain(std::env::split_paths(&path));
    let mut found = places.flat_map(|place| [place.join("m3d"), place.join("m3")]);
    match found.find(|program| program.is_file()) {
        Some(program) => {
            let prefix = prefix_of(&program);
            Ok((program, prefix))
        }
        None => Err(Fail::new(
            Code::DrvsInit,
            "no node daemon runs and the program m3d is not found; install m3ipc, or name it with M3_DAEMON",
        )),
    }
}

fn prefix_of(program: &Path) -> &'static [&'static str] {
    if program.file_name().is_some_and(|name| name == "m3") { &["daemon"] } else { &[] }
}

/// Starts a daemon for this runtime directory, in the background, and returns
/// when it has been started (not yet when it serves).
pub(crate) fn daemon(directory: &Path, uninitialised: bool) -> Result<(), Fail> {
    let (program, prefix) = program()?;
    let mut command = Command::new(&program);
    command.args(prefix).arg("--detach").arg("--runtime-dir").arg(directory);
    command.args(["--idle-exit", IDLE_SECONDS]);
    if uninitialised {
        command.arg("--uninitialised");
    }
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Fail::new(
            Code::DrvsInit,
            format!("{} did not start ({status}); run it by hand to see why", program.display()),
        )),
        Err(cause) => Err(Fail::new(
            Code::DrvsInit,
            format!("{} cannot be started: {cause}", program.display()),
        )),
    }
}
