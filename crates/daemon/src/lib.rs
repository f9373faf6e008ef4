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
pub use server::takeover_obstacle;
pub use settings::{Args, LogFormat, LogLevel, Settings, SettingsError};

use m3ipc::runtime::{self, BackgroundError};
use runtime_directory::{RuntimeDirectory, RuntimeDirectoryError};
use rustix::process::Resource;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::ExitCode;
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

/// A daemon with fewer open files than this cannot serve a node: it keeps some for itself, one and
/// a half for each member, and one for refusals.
const FILES_MIN: u64 = 64;

/// A daemon whose files may have fewer bytes than this cannot keep a journal and pages of members.
const FILE_BYTES_MIN: u64 = 1 << 20;

/// The longest time until a daemon in the background serves. Its starter ends it then.
const START_LIMIT: Duration = Duration::from_secs(5);

/// Starts this program again without `--detach`, and waits until the new daemon serves or ends.
fn detach() -> ExitCode {
    let failed_with = |code: u8, why: String| {
        m3ipc_sys::tell!("m3d: {why}; start it without --detach to see more");
        ExitCode::from(code)
    };
    let failed = |why: String| failed_with(EXIT_SYSTEM, why);
    let words: Vec<OsString> =
        std::env::args_os().skip(1).filter(|argument| argument != "--detach").collect();
    let words: Vec<&OsStr> = words.iter().map(OsString::as_os_str).collect();
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(cause) => return failed(format!("cannot find its own program file: {cause}")),
    };
    let limit_ns = u64::try_from(START_LIMIT.as_nanos()).unwrap_or(u64::MAX);
    let deadline_ns = m3ipc_sys::monotonic_ns().saturating_add(limit_ns);
    match runtime::serve_in_background(&program, &words, deadline_ns) {
        Ok(warnings) => {
            m3ipc_sys::tell!("{}", warnings.trim_end());
            ExitCode::SUCCESS
        }
        Err(BackgroundError::Ended { code: Some(code), said }) if !said.is_empty() => {
            m3ipc_sys::tell!("{}", said.trim_end());
            ExitCode::from(code)
        }
        Err(BackgroundError::Ended { code: Some(code), .. }) => {
            failed(format!("the daemon ended: exit code {code}"))
        }
        Err(BackgroundError::Ended { code: None, said }) => {
            m3ipc_sys::tell!("{}", said.trim_end());
            failed_with(EXIT_KILLED, "the daemon ended: signal".to_owned())
        }
        Err(BackgroundError::Start(cause)) => {
            failed(format!("cannot start in the background: {cause}"))
        }
        Err(BackgroundError::Late(pid)) => {
            failed(format!("process {pid} did not serve within {START_LIMIT:?} and was ended"))
        }
    }
}

/// Runs the daemon until a request, SIGTERM, SIGINT or an idle time ends it.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let settings = match Settings::resolve(args, &m3ipc_sys::text_variable) {
        Ok(settings) => settings,
        Err(error) => {
            m3ipc_sys::tell!("m3d: {error}");
            return end(EXIT_USAGE);
        }
    };
    if args.detach {
        return detach();
    }
    match serve(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, why)) => {
            m3ipc_sys::tell!("m3d: {why}");
            end(code)
        }
    }
}

/// Whether a starter waits until this daemon serves. The variable changes nothing else, so a
/// program with more rights than its caller obeys it too.
fn is_in_background() -> bool {
    std::env::var_os(runtime::IN_BACKGROUND).is_some()
}

/// Tells the starter of a daemon in the background why it ends.
fn end(code: u8) -> ExitCode {
    if is_in_background() {
        let _ = std::io::stderr().write_all(&[code]);
    }
    ExitCode::from(code)
}

/// Tells the starter of a daemon in the background that the daemon serves.
fn tell_starter() {
    if is_in_background() {
        let _ = std::io::stderr().write_all(&[runtime::SERVES]);
        // The starter gave it /dev/null as standard output. A new descriptor may be beyond its
        // limit.
        let _ = rustix::stdio::dup2_stderr(std::io::stdout());
    }
}

fn serve(mut settings: Settings) -> Result<(), (u8, String)> {
    let failed = |why: String| (EXIT_SYSTEM, why);
    if is_in_background() {
        settings.runtime_dir = std::path::absolute(&settings.runtime_dir).map_err(|cause| {
            failed(format!("{} has no absolute path: {cause}", settings.runtime_dir.display()))
        })?;
        rustix::process::chdir(c"/").map_err(|errno| failed(format!("cannot enter /: {errno}")))?;
    }
    // The modes of its files are in its code.
    rustix::process::umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
    // A file that may not grow is an error of one request.
    m3ipc_sys::survive_file_limit();
    let files = m3ipc_sys::raise_fd_limit();
    if files < FILES_MIN {
        return Err(failed(format!(
            "the limit of open files is {files}, and a daemon needs {FILES_MIN} or more; raise it \
             with `ulimit -Hn` or LimitNOFILE of the unit"
        )));
    }
    let limit = |resource| rustix::process::getrlimit(resource).current;
    if let Some(bytes) = limit(Resource::Fsize)
        && bytes < FILE_BYTES_MIN
    {
        return Err(failed(format!(
            "the limit of file sizes is {bytes} bytes, and a daemon needs {FILE_BYTES_MIN} or \
             more; start it where `ulimit -Hf` says unlimited, with `m3 up`"
        )));
    }
    // The daemon holds the memory of all members, so other processes of its user must not trace it.
    let _ = m3ipc_sys::no_core();
    let directory = RuntimeDirectory::open(&settings).map_err(|error| {
        let is_busy = matches!(error, RuntimeDirectoryError::Busy { .. });
        (if is_busy { EXIT_BUSY } else { EXIT_SYSTEM }, error.to_string())
    })?;
    let file = is_in_background().then(|| log::place(&settings, &directory.path)).transpose();
    let file = file.unwrap_or_else(|why| {
        m3ipc_sys::tell!("m3d: {why}");
        // The lines go to the closed standard error.
        None
    });
    log::begin(&settings, file.as_deref());
    for (resource, name) in [(Resource::Fsize, "file size"), (Resource::Cpu, "CPU time")] {
        if let Some(value) = limit(resource) {
            tracing::warn!(
                value,
                "a hard limit of the {name} holds for this daemon; start it elsewhere, with `m3 up`"
            );
        }
    }
    // Members wait for reports of deaths, also while other programs use all CPUs.
    if let Err(errno) = m3ipc_sys::request_time_slice(TIME_SLICE_NS) {
        tracing::debug!(%errno, "the scheduler does not grant a short time slice");
    }
    event_loop::run(settings, directory, tell_starter).map_err(|error| failed(error.to_string()))
}
