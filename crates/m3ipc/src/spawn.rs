//! The start of a node daemon if none runs.
//!
//! The daemon runs with the rights of the caller, so its program must be one that no other user can
//! replace. A program with more rights than its user starts none. The search takes the first of
//! these and looks nowhere else:
//!
//! 1. the absolute path in `M3_DAEMON`,
//! 2. the command line tool itself, which includes the daemon,
//! 3. `m3d` beside the program, and then `m3d` in the directory of the installation: a plain file
//!    of root or of the caller, in a directory that no other user can write.

use crate::error::Fail;
use m3ipc_abi::Code;
use m3ipc_sys::{CheckedPath, PathFault};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// Seconds after which a daemon without VMs and members ends.
const IDLE_SECONDS: &str = "10";

/// Bytes of a failed start's reason at most.
const REASON_MAX_BYTES: usize = 4096;

/// The exit code of a daemon that finds another one in its directory.
const EXIT_BUSY: i32 = 3;

/// The exit code of a start whose daemon a signal ended before it served.
const EXIT_KILLED: i32 = 5;
/// Starts of one call, where a signal ends each daemon before it serves.
const STARTS_MAX: u32 = 5;

/// The directory in which `cargo xtask install` puts the programs.
const INSTALLED: &str = match option_env!("M3IPC_BINDIR") {
    Some(directory) => directory,
    None => "/usr/local/bin",
};

/// The name of the daemon's program.
const DAEMON: &str = "m3d";

/// The program that a test chose for this process.
static TEST_DAEMON: OnceLock<PathBuf> = OnceLock::new();

/// Makes this process start its daemons with a program that a test has found.
pub(crate) fn use_for_tests(program: &Path) {
    let _ = TEST_DAEMON.set(program.to_owned());
}

/// The program of the daemon, and the first words of its command line.
fn program() -> Result<(PathBuf, &'static [&'static str]), Fail> {
    if let Some(named) = m3ipc_sys::variable("M3_DAEMON") {
        let named = PathBuf::from(named);
        if named.is_relative() {
            let why = format!(
                "M3_DAEMON is {}, which depends on the current directory; give an absolute path",
                named.display()
            );
            return Err(Fail::new(Code::DrvsInit, why));
        }
        let prefix = prefix_of(&named);
        return Ok((named, prefix));
    }
    if let Some(chosen) = TEST_DAEMON.get() {
        return Ok((chosen.clone(), &[]));
    }
    let own = std::env::current_exe().ok();
    // The command line tool is a daemon too, and of its own version.
    let is_tool = |own: &&PathBuf| own.file_name().is_some_and(|name| name == "m3");
    if let Some(own) = own.as_ref().filter(is_tool) {
        return Ok((own.clone(), prefix_of(own)));
    }
    let beside = own.as_deref().and_then(Path::parent).map(|folder| folder.join(DAEMON));
    let candidates = beside.into_iter().chain([Path::new(INSTALLED).join(DAEMON)]);
    let mut reasons = Vec::new();
    for candidate in candidates {
        match check_program(&candidate) {
            Ok(()) => return Ok((candidate, &[])),
            Err(reason) => reasons.push(format!("{} {reason}", candidate.display())),
        }
    }
    let why = format!(
        "no node daemon runs, and no program to start one is trusted: {}; install m3ipc, or name \
         the program by its absolute path in M3_DAEMON",
        reasons.join(", ")
    );
    Err(Fail::new(Code::DrvsInit, why))
}

/// Checks that no other user can replace a file that this process is about to run or to load.
///
/// The file is plain, it and its directory belong to root or to this user, no other user can write
/// them, and no directory above can be changed by others.
///
/// ```
/// use m3ipc::runtime::check_program;
///
/// let reason = check_program("/no/such/program".as_ref()).unwrap_err();
/// assert_eq!(reason, "is absent or cannot be read");
/// ```
///
/// # Errors
/// The reason against the file, to follow its name: `is a symbolic link`. It names the path that
/// others can write, and the command that forbids it.
pub fn check_program(program: &Path) -> Result<(), String> {
    let file = open_place(program)?;
    // A sticky directory protects the names in it, but lets others put a program there first.
    let directory = open_place(program.parent().unwrap_or(Path::new("/")))?;
    if let Some(reason) = fault_of(&directory) {
        return Err(format!("lies in {}, which {reason}", directory.path().display()));
    }
    if !file.is_file() {
        return Err("is no plain file".to_owned());
    }
    fault_of(&file).map_or(Ok(()), Err)
}

fn open_place(path: &Path) -> Result<CheckedPath, String> {
    CheckedPath::open(path).map_err(|fault| match fault {
        PathFault::System { .. } => "is absent or cannot be read".to_owned(),
        PathFault::Link { .. } => "is a symbolic link".to_owned(),
        PathFault::Parent { path, uid, mode } => {
            format!("lies below {}, which {}", path.display(), reason_against(&path, uid, mode))
        }
    })
}

/// Why a file or directory is not of root or this user alone.
fn fault_of(place: &CheckedPath) -> Option<String> {
    let is_ours = place.is_roots_or_own() && !place.others_may_write();
    (!is_ours).then(|| reason_against(place.path(), place.user(), place.mode()))
}

fn reason_against(path: &Path, uid: u32, mode: u32) -> String {
    let is_ours = uid == 0 || uid == m3ipc_sys::user_id();
    match m3ipc_sys::repair_of_mode(path, mode).filter(|_repair| is_ours) {
        Some(repair) => format!("other users can write (`{repair}` forbids that)"),
        None => format!("belongs to user {uid}"),
    }
}

/// A program of the installation.
pub(crate) fn installed(program: &str) -> PathBuf {
    Path::new(INSTALLED).join(program)
}

fn prefix_of(program: &Path) -> &'static [&'static str] {
    if program.file_name().is_some_and(|name| name == "m3") { &["daemon"] } else { &[] }
}

/// Starts a daemon for this runtime directory in the background. Returns when the daemon serves.
///
/// A program with more rights than its user starts none: it would trust none of that user, and a
/// daemon with its rights would obey the files of that user.
pub(crate) fn daemon(directory: &Path, uninitialised: bool, deadline_ns: u64) -> Result<(), Fail> {
    if let Some(rights) = m3ipc_sys::extra_rights() {
        let why = format!(
            "no node daemon runs in {}, and this program starts none, because it has more rights \
             than its user ({rights}); start the node of the system as root: `systemctl start \
             m3d`, or `m3d --system`",
            directory.display()
        );
        return Err(Fail::new(Code::DrvsInit, why));
    }
    let (program, prefix) = program()?;
    start(&program, prefix, directory, uninitialised, deadline_ns)
}

/// Starts this program as the daemon of a runtime directory. Returns when the daemon serves.
pub(crate) fn start(
    program: &Path,
    prefix: &[&str],
    directory: &Path,
    uninitialised: bool,
    deadline_ns: u64,
) -> Result<(), Fail> {
    let mut command = Command::new(program);
    command.args(prefix).arg("--detach").arg("--runtime-dir").arg(directory);
    command.args(["--idle-exit", IDLE_SECONDS]);
    if uninitialised {
        command.arg("--uninitialised");
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let is_killed = |output: &Output| output.status.code() == Some(EXIT_KILLED);
    let mut output = output_until(&mut command, deadline_ns);
    for _ in 1..STARTS_MAX {
        if !output.as_ref().is_ok_and(is_killed) {
            break;
        }
        output = output_until(&mut command, deadline_ns);
    }
    let program = program.display();
    let why = match output {
        // Another process may have started one at the same time.
        Ok(output) if output.status.success() || output.status.code() == Some(EXIT_BUSY) => {
            return Ok(());
        }
        Ok(output) => match first_line(&output.stderr) {
            Some(reason) => format!("the node daemon {program} did not start: {reason}"),
            None => format!(
                "the node daemon {program} did not start ({}); run it by hand to see why",
                output.status
            ),
        },
        Err(cause) if cause.kind() == ErrorKind::TimedOut => format!(
            "the program {program} was to start the node daemon and did not return in time, so it \
             was ended; name the daemon's program in M3_DAEMON, and see whether this machine is \
             overloaded"
        ),
        Err(cause) => format!(
            "the node daemon {program} cannot be started: {cause}; check the file and M3_DAEMON",
        ),
    };
    Err(Fail::new(Code::DrvsInit, why))
}

/// Runs a program to its end, and returns its status and its standard error. Kills it at the
/// deadline.
fn output_until(command: &mut Command, deadline_ns: u64) -> io::Result<Output> {
    let mut child = command.spawn()?;
    let result = await_end(&mut child, deadline_ns);
    if result.is_err() {
        let _ = child.kill();
        child.wait()?;
    }
    result
}

fn await_end(child: &mut Child, deadline_ns: u64) -> io::Result<Output> {
    let left_ns = || deadline_ns.saturating_sub(m3ipc_sys::monotonic_ns());
    let late = || Err(ErrorKind::TimedOut.into());
    let mut text = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        let mut part = [0; REASON_MAX_BYTES];
        loop {
            // A signal belongs to the call that follows.
            match m3ipc_sys::wait_readable(&[stderr.as_fd()], left_ns()) {
                Ok(false) => return late(),
                Ok(true) => {}
                Err(_signal) => continue,
            }
            match stderr.read(&mut part)? {
                0 => break,
                bytes => text.extend(&part[..bytes.min(REASON_MAX_BYTES - text.len())]),
            }
        }
    }
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Output { status, stdout: Vec::new(), stderr: text });
        }
        if left_ns() == 0 {
            return late();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The first line of a daemon's message, without its name.
fn first_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().next()?;
    let line = line.strip_prefix("m3d: ").unwrap_or(line);
    // A program of another kind may stand in the daemon's place.
    Some(line.chars().filter(|it| !it.is_control()).collect()).filter(|it: &String| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_a_program_that_no_other_user_can_replace_is_started() {
        let folder = std::env::temp_dir().join(format!("m3-spawn-{}", std::process::id()));
        crate::runtime::make(&folder, 0o700).unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let program = folder.join(DAEMON);
        assert!(check_program(&program).unwrap_err().contains("absent"));
        std::fs::write(&program, "").unwrap();
        mode(&program, 0o755);
        assert_eq!(check_program(&program), Ok(()));
        mode(&program, 0o757);
        let reason = check_program(&program).unwrap_err();
        assert!(reason.contains(&format!("`chmod o-w {}`", program.display())), "{reason}");
        mode(&program, 0o755);
        for writable in [0o777, 0o1777, 0o707] {
            mode(&folder, writable);
            let reason = check_program(&program).unwrap_err();
            let names_repair = reason.contains("-w ") && reason.contains(folder.to_str().unwrap());
            assert!(names_repair, "a directory of mode {writable:o}: {reason}");
        }
        mode(&folder, 0o700);
        std::fs::rename(&program, folder.join("other")).unwrap();
        symlink("other", &program).unwrap();
        assert!(check_program(&program).unwrap_err().contains("symbolic link"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_daemon_that_a_signal_ends_before_it_serves_is_started_again() {
        let folder = std::env::temp_dir().join(format!("m3-starts-{}", std::process::id()));
        crate::runtime::make(&folder, 0o700).unwrap();
        let program = folder.join("daemon");
        let count = folder.join("count");
        let starts = || std::fs::read(&count).unwrap().len();
        for (served, wanted) in [(3, 3), (100, 5)] {
            let text = format!(
                "echo -n x >> {0}; test $(wc -c < {0}) -ge {served} && exit 0; \
                 echo m3d: killed >&2; exit 5",
                count.display()
            );
            std::fs::write(&program, text).unwrap();
            std::fs::write(&count, "").unwrap();
            let started =
                start(Path::new("/bin/sh"), &[program.to_str().unwrap()], &folder, false, u64::MAX);
            assert_eq!(starts(), wanted);
            let why = started.err().map(|fail| fail.why());
            assert_eq!(why.is_none(), served == 3, "{why:?}");
            assert!(why.is_none_or(|why| why.contains("did not start: killed")));
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
