//! The driver of `m3 bench nodes --engines`: engines between nodes, and their costs.
//!
//! It is built apart, so that no build of the product compiles an engine. Each engine has a file;
//! the loops, the checks and the frames are the same for all.
//!
//! ```text
//! supervisor ──> __serve ENGINE   in the namespaces b and c: echoes small frames, takes copies
//!            ├─> __client ENGINE  in the namespace a: one row, figures as JSON
//!            └─> nats-server      in the namespace a, for NATS alone
//! ```

mod acceptance;
mod client;
mod engines;
mod host;
mod keys;
mod line;
mod place;
mod supervisor;
mod table;

use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::client::Task;
use crate::engines::Work;
use crate::keys::Keys;
use crate::line::Engine;

/// Measures engines between nodes beside raw TCP
#[derive(Debug, Parser)]
#[command(name = "m3-nodes", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    #[command(flatten)]
    run: supervisor::RunArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Role {
    #[command(name = "daemon", hide = true)]
    Daemon(m3ipc_daemon::Args),
    #[command(name = "__proxy", hide = true)]
    Proxy { config: PathBuf },
    #[command(name = "__other-proxy", hide = true)]
    OtherProxy { program: PathBuf, config: PathBuf },
    #[command(name = "__server", hide = true)]
    Server { slot: i32, runtime: PathBuf },
    #[command(name = "__serve", hide = true)]
    Serve { engine: String, keys: PathBuf, broker: SocketAddr, at: SocketAddr },
    #[command(name = "__client", hide = true)]
    Client {
        engine: String,
        keys: PathBuf,
        broker: SocketAddr,
        task: Task,
        millis: u64,
        to: Vec<SocketAddr>,
    },
}

struct Serve(SocketAddr);

impl Work for Serve {
    async fn run<E: Engine>(self, engine: &'static E) -> io::Result<()> {
        engine.serve(self.0).await
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.role {
        None => supervisor::run(&arguments.run),
        Some(role) => play(role),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("m3-nodes: {error}");
            ExitCode::from(4)
        }
    }
}

fn play(role: Role) -> io::Result<()> {
    // A server or client must not outlive its supervisor.
    let signal = rustix::process::Signal::KILL;
    rustix::process::set_parent_process_death_signal(Some(signal))?;
    // tonic and async-nats take the provider of the process.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match &role {
        Role::Daemon(args) => {
            let _code = m3ipc_daemon::run(args);
            return Ok(());
        }
        Role::Proxy { config } => {
            let config = m3ipc_proxy::run::Config::read(config).map_err(io::Error::other)?;
            return m3ipc_proxy::run::run(&config).map_err(io::Error::other);
        }
        Role::OtherProxy { program, config } => {
            let mut command = std::process::Command::new(program);
            return Err(command.args(["run", "--config"]).arg(config).exec());
        }
        Role::Server { slot, runtime } => return engines::ipc2::serve(*slot, runtime),
        _ => {}
    }
    line::in_a_loop(async move || match role {
        Role::Daemon(_) | Role::Proxy { .. } | Role::OtherProxy { .. } | Role::Server { .. } => {
            Ok(())
        }
        Role::Serve { engine, keys, broker, at } => {
            engines::with(&engine, &Keys(keys), broker, Serve(at)).await
        }
        Role::Client { engine, keys, broker, task, millis, to } => {
            let length = Duration::from_millis(millis);
            let work = client::Client { task, to, length, keys: keys.clone() };
            engines::with(&engine, &Keys(keys), broker, work).await
        }
    })?
}
