//! `m3 run`: runs a program that is bound before its first instruction.
//!
//! This process binds itself with lclbind, which needs the process number alone, and then executes
//! the program. The program keeps the process number, the terminal and the exit code.

use crate::error::{CliError, Result};
use crate::lookup;
use crate::options::NodeOptions;
use clap::Args;
use m3ipc::{Address, BindError, Node};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The first slot of user processes.
const FIRST_USER_SLOT: i32 = m3ipc_abi::SYSTEM_SLOTS;

/// Run a program that is bound in a VM before it starts; it takes its endpoint with wait4bind.
///
/// The environment of the program has M3_RUNTIME_DIR, M3_VM (the id of the VM) and M3_ENDPOINT
/// (the address).
///
/// Example: m3 run --vm shop --endpoint 40 -- ./server
#[derive(Args, Debug)]
pub struct Run {
    #[command(flatten)]
    node: NodeOptions,
    /// The VM, by name or id.
    #[arg(long)]
    vm: String,
    /// The slot [default: the lowest free user slot].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    endpoint: Option<i32>,
    /// The program and its arguments.
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Replaces this process by the program; returns only if that fails.
pub fn run(args: &Run) -> Result<()> {
    let mut node = lookup::node(&args.node)?;
    let vm = lookup::vm(&mut node, &args.vm)?;
    let address = match args.endpoint {
        Some(slot) => node.bind_other(vm.id(), m3ipc_sys::process_id(), slot)?,
        None => bind_free_slot(&mut node, vm.id(), vm.info().procs)?,
    };
    let (name, arguments) = args.program.split_first().ok_or_else(|| {
        CliError::usage("no program is named").advice("write it after `--`, as in: -- ./server")
    })?;
    let mut command = Command::new(name);
    command
        .args(arguments)
        .env("M3_RUNTIME_DIR", node.directory())
        .env("M3_VM", vm.id().to_string())
        .env("M3_ENDPOINT", address.to_string());
    m3ipc_sys::keep_ignored_pipe(&mut command);
    let cause = command.exec();
    Err(CliError::system(format!("cannot run {}", name.display()), cause)
        .advice("check that the program is installed and executable; the endpoint is free again"))
}

fn bind_free_slot(node: &mut Node, vm: i32, procs: i32) -> Result<Address> {
    let used: Vec<i32> = node.endpoints(vm)?.iter().map(|endpoint| endpoint.slot).collect();
    for slot in (FIRST_USER_SLOT..procs).filter(|slot| !used.contains(slot)) {
        match node.bind_other(vm, m3ipc_sys::process_id(), slot) {
            // Another process bound the slot since the list was made.
            Err(BindError::Taken(_)) => {}
            other => return Ok(other?),
        }
    }
    Err(CliError::failure("the VM has no free user slot")
        .advice("end a member, or create the VM with more slots: m3 vm create NAME --procs N"))
}
