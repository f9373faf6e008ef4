//! The process of a service before its program runs.
//!
//! It asks the kernel for SIGKILL at the death of the supervisor, leaves the program no descriptor
//! and no disposition of a signal of the supervisor's starter, binds itself to its slot, and
//! executes the program. So the supervisor needs no code between fork and exec, and no unsafe code.

use clap::Args;
use m3ipc::{Address, BindError, Node};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// As a shell says that a program cannot be executed.
const CANNOT_RUN: u8 = 127;
/// How long the slot of the former process may be taken.
const SLOT_LIMIT: Duration = Duration::from_secs(5);

/// Becomes the program of a service.
#[derive(Args, Debug)]
pub struct Launch {
    /// The service.
    #[arg(long)]
    service: String,
    /// The number of the supervisor.
    #[arg(long)]
    parent: i32,
    /// The slot to bind first.
    #[arg(long, allow_negative_numbers = true)]
    slot: Option<i32>,
    /// The program and its arguments.
    #[arg(required = true, last = true)]
    words: Vec<OsString>,
}

/// Replaces this process by the program; returns only if that fails.
pub fn run(args: &Launch) -> ExitCode {
    match launch(args) {
        Ok(never) => match never {},
        Err(why) => {
            crate::log::say(&format!("{}: {why}", args.service));
            ExitCode::from(CANNOT_RUN)
        }
    }
}

fn launch(args: &Launch) -> Result<std::convert::Infallible, String> {
    m3ipc_sys::die_with_parent().map_err(|errno| format!("prctl: {errno}"))?;
    // The supervisor may have died before the call above.
    if m3ipc_sys::parent_id() != args.parent {
        return Err("the supervisor has ended".to_owned());
    }
    m3ipc_sys::prepare_exec();
    let (program, arguments) = args.words.split_first().ok_or("no program is named")?;
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(slot) = args.slot {
        let address = bind(slot)?;
        command.env("M3_ENDPOINT", address.0.to_string());
    }
    let cause = command.exec();
    Err(format!("cannot run {}: {cause}; check its path in the file", program.display()))
}

/// Binds this process, whose endpoint its program takes by `wait_for_bind`.
fn bind(slot: i32) -> Result<Address, String> {
    let variable = |name| std::env::var_os(name).ok_or(format!("{name} is not set"));
    let directory = PathBuf::from(variable("M3_RUNTIME_DIR")?);
    let vm = variable("M3_VM")?.to_str().and_then(|it| it.parse().ok()).ok_or("M3_VM is wrong")?;
    let mut node = Node::attach_at(&directory).map_err(|error| error.to_string())?;
    let begun = Instant::now();
    loop {
        match node.bind_other(vm, m3ipc_sys::process_id(), slot) {
            // The daemon may not know of the former process's death yet.
            Err(BindError::Taken(_)) if begun.elapsed() < SLOT_LIMIT => {
                std::thread::sleep(Duration::from_millis(2));
            }
            bound => return bound.map_err(|error| format!("cannot bind slot {slot}: {error}")),
        }
    }
}
