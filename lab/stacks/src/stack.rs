//! The stacks by name, and what a process of each does.

use std::path::PathBuf;
use std::time::Duration;

use m3ipc::{Node, Vm};

use crate::wire::{Com, Tcp, Unix};
use crate::{Failure, block, call, calls, grpc, http, ipc2, tarpc};

/// The bytes of a request and of its answer.
pub const CALL_BYTES: usize = 100;

/// A stack, and whether it can have many calls in flight.
pub const STACKS: &[(&str, bool)] = &[
    ("ipc2", false),
    ("record", false),
    ("call", false),
    ("bytes", false),
    ("calls", true),
    ("tarpc-com", true),
    ("tarpc-unix", true),
    ("tarpc-tcp", true),
    ("grpc-com", true),
    ("grpc-unix", true),
    ("grpc-tcp", true),
    ("http-com", false),
    ("http-unix", false),
    ("http-tcp", false),
    ("block", false),
];

/// Where both processes meet.
pub struct Place {
    /// The runtime directory of the node.
    pub directory: PathBuf,
    /// The name of the VM.
    pub vm: String,
}

impl Place {
    /// The VM of the run.
    pub fn vm(&self) -> Result<Vm, Failure> {
        Ok(Node::attach_at(&self.directory)?.vm_named(&self.vm)?)
    }
}

/// What a client measures.
pub struct Work {
    /// The server's address, as it printed it.
    pub at: String,
    /// How long.
    pub length: Duration,
    /// Calls in flight.
    pub in_flight: usize,
}

/// What a process does.
pub enum Role {
    /// Answers until it is killed.
    Serve,
    /// Calls, and prints figures.
    Call(Work),
}

/// Plays a role of a stack.
pub fn play(name: &str, place: &Place, role: Role) -> Result<(), Failure> {
    match name {
        "ipc2" => ipc2::play(place, role),
        "record" => call::play_record(place, role),
        "call" => call::play(place, role),
        "bytes" => call::play_bytes(place, role),
        "block" => block::play(place, role),
        "calls" => in_a_loop(calls::play(place, role)),
        "tarpc-com" => in_a_loop(tarpc::play::<Com>(place, role)),
        "tarpc-unix" => in_a_loop(tarpc::play::<Unix>(place, role)),
        "tarpc-tcp" => in_a_loop(tarpc::play::<Tcp>(place, role)),
        "grpc-com" => in_a_loop(grpc::play::<Com>(place, role)),
        "grpc-unix" => in_a_loop(grpc::play::<Unix>(place, role)),
        "grpc-tcp" => in_a_loop(grpc::play::<Tcp>(place, role)),
        "http-com" => in_a_loop(http::play::<Com>(place, role)),
        "http-unix" => in_a_loop(http::play::<Unix>(place, role)),
        "http-tcp" => in_a_loop(http::play::<Tcp>(place, role)),
        _ => Err(format!("there is no stack {name}").into()),
    }
}

/// Runs a task in a runtime of one thread.
fn in_a_loop(task: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, task)
}

/// Tells the supervisor that the server is ready, and where.
pub fn tell_address(at: &str) {
    use std::io::Write;
    println!("{at}");
    // A supervisor that has gone ends this process.
    let _ = std::io::stdout().flush();
}

/// Puts this process on one CPU.
pub fn pin(cpu: usize) -> Result<(), Failure> {
    let count = std::thread::available_parallelism()?.get();
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu % count);
    rustix::thread::sched_setaffinity(None, &set)?;
    Ok(())
}
