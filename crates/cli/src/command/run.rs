//! `m3 run`: runs a program that is bound before its first instruction.
//!
//! This process binds itself (lclbind needs only the number) and then becomes
//! the program: its number, its exit code, its terminal and its signals are
//! the program's own, and nothing of `m3` stays.

use crate::cli::Common;
use crate::fail::{Fail, Result};
use crate::reach;
use clap::Args;
use m3ipc::{Address, BindError, Node};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// First slot of user processes.
const FIRST_USER_SLOT: i32 = m3ipc_abi::SYSTEM_SLOTS;

/// Run a program that is bound in a VM before it starts; it takes its endpoint with wait4bind.
///
/// The program finds M3_RUNTIME_DIR, M3_VM (the VM's id) and M3_ENDPOINT (its address) in its environment.
#[derive(Args, Debug)]
pub struct Run {
    #[command(flatten)]
    pub common: Common,
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

/// Becomes the program; comes back only where that fails.
pub fn run(args: &Run) -> Result<()> {
    let mut node = reach::node(&args.common)?;
    let vm = reach::vm(&mut node, &args.vm)?;
    let address = match args.endpoint {
        Some(slot) => node.bind_other(vm.id(), m3ipc_sys::process_id(), slot)?,
        None => bind_free(&mut node, vm.id(), vm.info().procs)?,
    };
    let (name, arguments) =
        args.program.split_first().ok_or_else(|| Fail::usage("no program is named"))?;
    let failed = Command::new(name)
        .args(arguments)
        .env("M3_RUNTIME_DIR", node.directory())
        .env("M3_VM", vm.id().to_string())
        .env("M3_ENDPOINT", address.to_string())
        .exec();
    Err(Fail::system(format!("cannot run {}", name.display()), failed)
        .next("the endpoint is free again; is the program installed and executable?"))
}

fn bind_free(node: &mut Node, vm: i32, procs: i32) -> Result<Address> {
    let taken: Vec<i32> = node.endpoints(vm)?.iter().map(|member| member.slot).collect();
    let mut free = (FIRST_USER_SLOT..procs).filter(|slot| !taken.contains(slot));
    loop {
        let slot = free.next().ok_or_else(|| Fail::plain("the VM has no free user slot"))?;
        match node.bind_other(vm, m3ipc_sys::process_id(), slot) {
            // Another was quicker.
            Err(BindError::Taken(_)) => {}
            other => return Ok(other?),
        }
    }
}
