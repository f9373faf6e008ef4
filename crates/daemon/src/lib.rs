//! The node daemon: it knows who is who, makes links, and tells of deaths.
//!
//! One thread, one table ([`m3ipc_model::tables::Node`]), one loop. It is off every hot
//! path: members talk through the links that it made. It accepts no
//! descriptors, trusts nothing that a member says about itself, and keeps
//! nothing in memory that its journal and the kernel could not give back.
//!
//! ```text
//! server ─ loop, sources, time limits      serve/* ─ a request in, a reply out
//!   ├ connection ─ one member's socket       ├ node vm bind contact waits ask rights
//!   ├ death ─ processes and threads watched  └ (all through `Server`)
//!   ├ turn ─ who is served when, and how much
//!   └ journal, home ─ what outlives a kill
//! ```

mod connection;
mod death;
mod home;
mod journal;
mod log;
mod record;
mod serve;
mod server;
mod settings;
mod spare;
mod turn;
mod ward;

pub use serve::sock::Network;
pub use settings::{Args, Settings, SettingsError};

use std::process::ExitCode;

/// Exit code: a setting or an argument is wrong.
pub const EXIT_USAGE: u8 = 2;
/// Exit code: another daemon serves this runtime directory.
pub const EXIT_BUSY: u8 = 3;
/// Exit code: the system does not give what is needed.
pub const EXIT_SYSTEM: u8 = 4;

/// The daemon's turns on a CPU: the shortest there are.
const TURN_NS: u64 = 100_000;

/// Tells a daemon that it was started in the background.
const DETACHED: &str = "M3_DETACHED";

/// Starts the same again without `--detach`, and leaves: the daemon is nobody's child.
fn detach() -> ExitCode {
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != "--detach");
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(cause) => {
            eprintln!("m3d: its own program cannot be found: {cause}");
            return ExitCode::from(EXIT_SYSTEM);
        }
    };
    let mut command = std::process::Command::new(program);
    match command.args(arguments).env(DETACHED, "1").spawn() {
        Ok(_child) => ExitCode::SUCCESS,
        Err(cause) => {
            eprintln!("m3d: cannot start in the background: {cause}");
            ExitCode::from(EXIT_SYSTEM)
        }
    }
}

/// Runs the daemon until it is told to leave.
#[must_use]
pub fn run(args: &Args) -> ExitCode {
    let settings = match Settings::resolve(args, &|name| std::env::var(name).ok()) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("m3d: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    if args.detach {
        return detach();
    }
    // Started in the background by ourselves: no terminal's signals, no terminal's fate.
    if std::env::var_os(DETACHED).is_some() {
        let _ = rustix::process::setsid();
    }
    log::begin(&settings);
    // It holds what it gives to members: another process of its user must not trace it for that.
    let _ = m3ipc_sys::no_core();
    // Members wait for its news of deaths, also where busy ones have all CPUs.
    if let Err(errno) = m3ipc_sys::request_time_slice(TURN_NS) {
        tracing::debug!(%errno, "the scheduler gives no short turns");
    }
    let home = match home::Home::open(&settings) {
        Ok(home) => home,
        Err(error) => {
            eprintln!("m3d: {error}");
            let busy = matches!(error, home::HomeError::Busy { .. });
            return ExitCode::from(if busy { EXIT_BUSY } else { EXIT_SYSTEM });
        }
    };
    match server::Server::new(settings, home).and_then(server::Server::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("m3d: {error}");
            ExitCode::from(EXIT_SYSTEM)
        }
    }
}
