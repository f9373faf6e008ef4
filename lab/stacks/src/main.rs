//! The driver of `m3 bench stacks`: typed calls of other libraries, over com-sockets and over the
//! kernel's sockets, beside those of m3ipc.
//!
//! It is built apart, so that no build of the product compiles these libraries. Client and server
//! are two processes on two CPUs, each with one thread.
//!
//! ```text
//! supervisor ──> __serve STACK   a server; prints its address, ends with the supervisor
//!            └─> __call STACK    a client; checks each answer, prints its figures
//! ```

mod block;
mod bounds;
mod call;
mod calls;
mod figures;
mod grpc;
mod http;
mod ipc2;
mod stack;
mod supervisor;
mod tarpc;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::stack::{Role, Work};

/// An error that ends a process of the run.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Measures RPC libraries over com-sockets beside kernel sockets and beside m3ipc
#[derive(Debug, Parser)]
#[command(name = "m3-stacks", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    process: Option<Process>,
    #[command(flatten)]
    run: supervisor::RunArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Process {
    #[command(name = "__serve", hide = true)]
    Serve { stack: String, directory: PathBuf, vm: String },
    #[command(name = "__call", hide = true)]
    Call {
        stack: String,
        directory: PathBuf,
        vm: String,
        at: String,
        millis: u64,
        in_flight: usize,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.process {
        None => supervisor::run(&arguments.run),
        Some(process) => play(process),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("m3-stacks: {error}");
            ExitCode::from(4)
        }
    }
}

fn play(process: Process) -> Result<ExitCode, Failure> {
    // A server or client must not outlive its supervisor.
    let signal = rustix::process::Signal::KILL;
    rustix::process::set_parent_process_death_signal(Some(signal))?;
    let (name, place, role, cpu) = match process {
        Process::Serve { stack, directory, vm } => {
            (stack, stack::Place { directory, vm }, Role::Serve, 1)
        }
        Process::Call { stack, directory, vm, at, millis, in_flight } => {
            let work = Work { at, length: Duration::from_millis(millis), in_flight };
            (stack, stack::Place { directory, vm }, Role::Call(work), 0)
        }
    };
    stack::pin(cpu)?;
    stack::play(&name, &place, role)?;
    Ok(ExitCode::SUCCESS)
}
