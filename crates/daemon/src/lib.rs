//! The node daemon: it keeps the tables of a node, makes links, and reports deaths.
//!
//! The daemon has one thread for all requests and one event loop. Members exchange messages over
//! the links that the daemon made, so the daemon is on no hot path. It accepts no descriptors and
//! believes no member's statement about itself. Its memory holds nothing that the journal and the
//! kernel cannot give back.
//!
//! ```text
//! event_loop   sources, time limits, one frame after the other
//!   ├ serve/*    one family of requests each: check, change the tables, record, answer
//!   ├ deaths     processes and threads that ended
//!   ├ vm_end     VMs that end
//!   └ takeover   the tables of a killed predecessor
//! server       the state of the daemon, and the ways to answer a member
//!   ├ state/*    the parts of that state; none of them knows the server
//!   ├ tables/*   VMs, endpoints, links, areas: pure rules
//!   └ journal, runtime_directory, death_watcher, settings
//! ```
//!
//! # The chain of a death
//!
//! ```text
//! kernel marks the liveness lock of the ending thread
//!   → watcher thread     death_watcher::WatcherThread::run finds the mark, checks /proc
//!   → event loop         server::Server::liveness_lock_marked
//!   → process            server::Server::process_died, or thread_died
//!   → tables             tables::Node::exit, or exit_thread: the deaths, with their peers
//!   → each peer          server::Server::notify_peers_at_once, send_event(DaemonEvent::Died)
//!   → event word         m3ipc_link::ControlPageView::announce_event wakes the peer
//!   → journal            server::Server::record
//! ```
//!
//! The same in links: [`death_watcher::WatcherThread::run`],
//! [`server::Server::liveness_lock_marked`], [`server::Server::process_died`],
//! [`server::Server::thread_died`], [`tables::Node::exit`], [`tables::Node::exit_thread`],
//! [`server::Server::notify_peers_at_once`], [`server::Server::send_event`],
//! [`m3ipc_wire::DaemonEvent::Died`], [`m3ipc_link::ControlPageView::announce_event`],
//! [`server::Server::record`].
//!
//! The functions of `Server` lie in `deaths.rs`, `record` in `write_ahead.rs`, `send_event` in
//! `server.rs`. A pidfd reports the deaths that the liveness lock cannot report. It enters the
//! chain at [`server::Server::process_died`]. The peer's library reads the event and ends the call
//! with -109 or -108.
#![forbid(unsafe_code)]
// The chain above names private functions: the compiler checks that they exist.
#![allow(rustdoc::private_intra_doc_links)]

mod death_watcher;
mod deaths;
mod event_loop;
mod journal;
mod log;
mod network;
pub mod quota;
mod runtime_directory;
mod serve;
mod server;
mod settings;
mod state;
pub mod tables;
mod takeover;
#[cfg(test)]
mod test_server;
mod token;
mod vm_end;
mod vm_life;
mod write_ahead;

pub use network::Network;
pub use settings::{Args, LogFormat, LogLevel, Settings, SettingsError};

use runtime_directory::{RuntimeDirectory, RuntimeDirectoryError};
use std::io::Read;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Exit code: a setting or an argument is wrong.
pub const EXIT_USAGE: u8 = 2;
/// Exit code: another daemon serves this runtime directory.
pub const EXIT_BUSY: u8 = 3;
/// Exit code: the system refuses a resource that the daemon needs.
pub const EXIT_SYSTEM: u8 = 4;
/// Exit code of a start in the background: a signal ended the daemon before it served. Another
/// start may succeed.
pub const EXIT_KILLED: u8 = 5;

/// The daemon's time slice on a CPU: the shortest that the kernel grants.
const TIME_SLICE_NS: u64 = 100_000;

/// Bytes of a failed start's reason at most.
const REASON_MAX_BYTES: u64 = 4096;

/// A daemon with fewer open files than this cannot serve a node: it keeps some for itself, one and
/// a half for each member, and one for refusals.
const FILES_MIN: u64 = 64;

/// The last word of a daemon in the background on its standard error: it serves.
const SERVES: &str = "\0";
/// Environment variable of a daemon that [`detach`] started.
const DETACHED: &str = "M3_DETACHED";

/// The longest time until a daemon in the background serves. Its starter ends it then.
const START_LIMIT: Duration = Duration::from_secs(5);

/// Starts this program again without `--detach`, and waits until the new daemon serves or ends. The
/// new daemon is a child of no shell. It says that it serves and closes its
/// standard error.
fn detach() -> ExitCode {
    let failed_with = |code: u8, why: String| {
        eprintln!("m3d: {why}; start it without --detach to see more");
        ExitCode::from(code)
    };
    let failed = |why: String| failed_with(EXIT_SYSTEM, why);
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != "--detach");
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(cause) => return failed(format!("cannot find its own program file: {cause}")),
    };
    let mut command = Command::new(program);
    command.args(arguments).env(DETACHED, "1").stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = match command.stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(cause) => return failed(format!("cannot start in the background: {cause}")),
    };
    let (sender, receiver) = mpsc::channel();
    let stderr = child.stderr.take();
    std::thread::spawn(move || {
        let mut text = String::new();
        if let Some(mut stderr) = stderr {
            // Bytes that are no text end the reading, and what came before them is shown.
            let _ = stderr.by_ref().take(REASON_MAX_BYTES).read_to_string(&mut text);
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
        }
        let _ = sender.send(text);
    });
    match receiver.recv_timeout(START_LIMIT) {
        Ok(text) => match text.strip_suffix(SERVES) {
            Some(warnings) => {
                eprint!("{warnings}");
                ExitCode::SUCCESS
            }
            // It has ended, or ends.
            None => match (child.wait().map(|status| (status.code(), status)), text.as_str()) {
                (Ok((Some(code), _)), said) if !said.is_empty() => {
                    eprint!("{said}");
                    ExitCode::from(u8::try_from(code).unwrap_or(EXIT_SYSTEM))
                }
                (Ok((Some(_), status)), _) => failed(format!("the daemon ended: {status}")),
                // A signal ended it.
                (Ok((None, status)), said) => {
                    eprint!("{said}");
                    failed_with(EXIT_KILLED, format!("the daemon ended: {status}"))
                }
                (Err(cause), _) => failed(format!("the end of the daemon is unknown: {cause}")),
            },
        },
        Err(_) => {
            // It must not serve after its starter reported a failure.
            let _ = child.kill();
            let _ = child.wait();
            let pid = child.id();
            failed(format!("process {pid} did not serve within {START_LIMIT:?} and was ended"))
        }
    }
}

/// Tells the starter of a daemon in the background that the daemon serves.
fn close_standard_error() {
    // The starter gave it /dev/null as standard output. A new descriptor may be beyond its limit.
    let _ = rustix::stdio::dup2_stderr(std::io::stdout());
}

/// Runs the daemon until a request, SIGTERM, SIGINT or an idle time ends it.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let settings = match Settings::resolve(args, &m3ipc_sys::text_variable) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("m3d: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    if args.detach {
        return detach();
    }
    // A session of its own: signals of the starter's terminal do not reach the daemon. The variable
    // changes nothing else, so a program with more rights than its caller obeys it too.
    let is_detached = std::env::var_os(DETACHED).is_some();
    if is_detached {
        let _ = rustix::process::setsid();
    }
    let files = m3ipc_sys::raise_fd_limit();
    if files < FILES_MIN {
        eprintln!(
            "m3d: the limit of open files is {files}, and a daemon needs {FILES_MIN} or more; \
             raise it with `ulimit -Hn` or LimitNOFILE of the unit"
        );
        return ExitCode::from(EXIT_SYSTEM);
    }
    // The daemon holds the memory of all members, so other processes of its user must not trace it.
    let _ = m3ipc_sys::no_core();
    let directory = match RuntimeDirectory::open(&settings) {
        Ok(directory) => directory,
        Err(error) => {
            eprintln!("m3d: {error}");
            let busy = matches!(error, RuntimeDirectoryError::Busy { .. });
            return ExitCode::from(if busy { EXIT_BUSY } else { EXIT_SYSTEM });
        }
    };
    log::begin(&settings, is_detached.then_some(directory.path.as_path()));
    // Members wait for reports of deaths, also while other programs use all CPUs.
    if let Err(errno) = m3ipc_sys::request_time_slice(TIME_SLICE_NS) {
        tracing::debug!(%errno, "the scheduler does not grant a short time slice");
    }
    let serving = || {
        if is_detached {
            eprint!("{SERVES}");
            close_standard_error();
        }
    };
    match event_loop::run(settings, directory, serving) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("m3d: {error}");
            ExitCode::from(EXIT_SYSTEM)
        }
    }
}
