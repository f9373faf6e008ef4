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

use crate::background::{BackgroundError, serve_in_background};
use crate::error::Fail;
use m3ipc_abi::Code;
use m3ipc_sys::{CheckedPath, Errno, PathFault};
use std::ffi::OsStr;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Seconds after which a daemon without VMs and members ends.
const IDLE_SECONDS: &str = "10";

/// The exit code of a daemon that finds another one in its directory.
const EXIT_BUSY: u8 = 3;

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
    let mut words: Vec<&OsStr> = prefix.iter().map(OsStr::new).collect();
    words.extend(["--runtime-dir".as_ref(), directory.as_os_str()]);
    words.extend(["--idle-exit", IDLE_SECONDS].map(OsStr::new));
    if uninitialised {
        words.push("--uninitialised".as_ref());
    }
    let mut started = serve_in_background(program, &words, deadline_ns);
    for _ in 1..STARTS_MAX {
        if !matches!(started, Err(BackgroundError::Ended { code: None, .. })) {
            break;
        }
        started = serve_in_background(program, &words, deadline_ns);
    }
    let program = program.display();
    let why = match started {
        // Another process may have started one at the same time.
        Ok(_) | Err(BackgroundError::Ended { code: Some(EXIT_BUSY), .. }) => return Ok(()),
        Err(BackgroundError::Ended { code, said }) => match (first_line(&said), code) {
            (Some(reason), _) => format!("the node daemon {program} did not start: {reason}"),
            (None, Some(code)) => format!(
                "the node daemon {program} did not start (exit code {code}); run it by hand to see \
                 why"
            ),
            (None, None) => format!(
                "the node daemon {program} did not start: a signal ended it, or the program is no \
                 m3d; check M3_DAEMON, and run it by hand to see why"
            ),
        },
        Err(BackgroundError::Late(_)) => format!(
            "the program {program} was to start the node daemon and did not serve in time, so it \
             was ended; name the daemon's program in M3_DAEMON, and see whether this machine is \
             overloaded"
        ),
        Err(BackgroundError::Start(cause)) => cannot_start(&program, &cause),
    };
    Err(Fail::new(Code::DrvsInit, why))
}

/// Why the system starts no daemon, and the next step.
fn cannot_start(program: &dyn Display, cause: &std::io::Error) -> String {
    // The start needs pidfd_open(2), which Linux has since 5.3.
    let next = match Errno::from_io_error(cause) {
        Some(Errno::NOSYS) => {
            "a tool or a filter takes system calls from this process, as valgrind does; start the \
             node outside of it before, with `m3 up`"
        }
        _ => "check the file and M3_DAEMON",
    };
    format!("the node daemon {program} cannot be started: {cause}; {next}")
}

/// The first line of a daemon's message, without its name.
fn first_line(text: &str) -> Option<String> {
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
    fn a_process_without_the_system_calls_of_a_start_learns_where_to_start_it() {
        let why = |errno: Errno| cannot_start(&"m3d", &errno.into());
        assert!(why(Errno::NOSYS).contains("valgrind") && why(Errno::NOSYS).contains("`m3 up`"));
        assert!(why(Errno::NOENT).ends_with("check the file and M3_DAEMON"));
    }

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
                "echo -n x >> {0}; test $(wc -c < {0}) -ge {served} && {{ printf '\\000' >&2; \
                 exit; }}; echo m3d: killed >&2; kill -9 $$",
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
