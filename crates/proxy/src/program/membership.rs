//! `join`, `leave`, `ls`: the proxy of this node from the shell.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use m3ipc::{Node, VmConfig, runtime};

use super::failed::{Done, Failed};
use super::table;
use crate::run::Config;
use crate::status::{self, Asked, SOCKET_NAME, StatusError};

/// The log of a proxy in the background.
const LOG: &str = "proxy.log";
/// The time that a proxy has to serve, and to end.
const LIMIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);
/// The most of a log that an error repeats.
const REASON_BYTES: usize = 2_000;

/// A configuration.
#[derive(Debug, clap::Args)]
pub struct Join {
    /// The configuration of the proxy
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Do not create the VMs of the registry that have slots here
    #[arg(long)]
    no_vms: bool,
}

/// A node.
#[derive(Debug, clap::Args)]
pub struct Leave {
    /// The runtime directory of the node [default: as for all programs]
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
}

/// A node, and the form of the answer.
#[derive(Debug, clap::Args)]
pub struct Ls {
    /// The runtime directory of the node [default: as for all programs]
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn directory(named: Option<&PathBuf>) -> PathBuf {
    named.cloned().unwrap_or_else(runtime::directory)
}

/// Starts daemon, VMs and proxy.
pub fn join(args: &Join) -> Done {
    let config = Config::read(&args.config).map_err(Failed::new)?;
    if !config.without_security {
        config.read_keys().map_err(Failed::new)?;
    }
    let directory = &config.runtime_directory;
    if let Ok(Asked { status, pid, .. }) = status::ask(directory) {
        return Err(Failed::busy(format!(
            "the proxy of node {} (pid {pid}) serves {} already; end it with `m3 node leave`",
            status.node,
            directory.display()
        )));
    }
    let mut node = Node::attach_at(directory).map_err(Failed::new)?;
    if !args.no_vms {
        for vm in config.registry.vms.iter().filter(|vm| vm.nodes.contains(&config.own.id)) {
            let wanted = VmConfig::new(&vm.name).id(i32::from(vm.id));
            match node.vm(i32::from(vm.id)) {
                Ok(running) if running.name() == vm.name => {}
                Ok(other) => {
                    return Err(Failed::new(format!(
                        "the registry gives the id {} to VM {}, and VM {} has it here; end that \
                         one with `m3 vm end {}`, or change the registry",
                        vm.id,
                        vm.name,
                        other.name(),
                        other.name()
                    )));
                }
                Err(_) => {
                    node.vm_init(&wanted).map_err(Failed::new)?;
                    println!("VM {} ({}) runs", vm.id, vm.name);
                }
            }
        }
    }
    let asked = start(&args.config, directory)
        .and_then(|mut proxy| await_status(directory, &mut proxy))
        .map_err(|failed| Failed {
            text: format!(
                "{}; the daemon and its VMs run on: `m3 down --runtime-dir {}` ends them",
                failed.text,
                directory.display()
            ),
            ..failed
        })?;
    println!("node {} has joined: proxy {}", config.name, asked.pid);
    println!("{}", table::text(&asked.status));
    Ok(ExitCode::SUCCESS)
}

/// Starts a proxy that goes on after this process.
fn start(config: &Path, directory: &Path) -> Result<Child, Failed> {
    let failed = |cause: std::io::Error| {
        Failed::new(format!("cannot start the proxy: {cause}; check this machine with `m3 doctor`"))
    };
    let own = std::env::current_exe().map_err(failed)?;
    let log = File::create(directory.join(LOG)).map_err(failed)?;
    let config = std::path::absolute(config).map_err(failed)?;
    let mut command = Command::new(own);
    command.args(["run", "--config"]).arg(config).current_dir("/").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().map_err(failed)
}

/// Waits until the proxy serves, or has ended.
fn await_status(directory: &Path, proxy: &mut Child) -> Result<Asked, Failed> {
    let begin = Instant::now();
    let own = i32::try_from(proxy.id()).unwrap_or_default();
    loop {
        let over = begin.elapsed() > LIMIT || !matches!(proxy.try_wait(), Ok(None));
        match status::ask(directory) {
            Ok(asked) if asked.pid == own => return Ok(asked),
            Ok(_) | Err(_) if !over => std::thread::sleep(PAUSE),
            Ok(_) | Err(_) => {
                let _ = proxy.kill();
                let _ = proxy.wait();
                return Err(Failed::new(reason(directory)));
            }
        }
    }
}

/// What a proxy said before its end.
fn reason(directory: &Path) -> String {
    let mut text = String::new();
    if let Ok(log) = File::open(directory.join(LOG)) {
        let _ = log.take(REASON_BYTES as u64).read_to_string(&mut text);
    }
    let last = text.lines().rev().find(|line| !line.is_empty()).unwrap_or_default();
    match last.strip_prefix("m3-proxy: ") {
        Some(last) => format!("the proxy has ended: {last}"),
        None => format!(
            "the proxy does not serve; see {}, and `m3-proxy run` in the foreground",
            directory.join(LOG).display()
        ),
    }
}

/// Ends the proxy.
pub fn leave(args: &Leave) -> Done {
    let directory = directory(args.runtime_dir.as_ref());
    let Asked { status, pid, process } = status::ask(&directory).map_err(Failed::new)?;
    let term = rustix::process::Signal::TERM;
    rustix::process::pidfd_send_signal(&process, term).map_err(|errno| {
        Failed::new(format!("cannot end the proxy {pid}: {errno}; run this as its user or as root"))
    })?;
    let mut ended = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec::try_from(LIMIT).ok();
    match rustix::event::poll(&mut ended, limit.as_ref()) {
        Ok(1..) => {}
        _ => {
            return Err(Failed::new(format!(
                "the proxy {pid} does not end; it may be stopped: `kill -CONT {pid}`, or `kill -9 \
                 {pid}`"
            )));
        }
    }
    // Another proxy may serve by now; its socket stays.
    if matches!(status::ask(&directory), Err(StatusError::Absent { .. })) {
        let _ = std::fs::remove_file(directory.join(SOCKET_NAME));
        let _ = std::fs::remove_file(directory.join(LOG));
    }
    println!("node {} has left: proxy {pid} has ended", status.node);
    Ok(ExitCode::SUCCESS)
}

/// Lists the nodes.
pub fn list(args: &Ls) -> Done {
    let directory = directory(args.runtime_dir.as_ref());
    let asked = match status::ask(&directory) {
        // The end of a daemon removes the socket of the proxy, too.
        Err(StatusError::Absent { .. }) if !runtime::socket(&directory).exists() => {
            return Err(Failed::new(format!(
                "no node daemon runs in {}; start one with `m3 up`, and its proxy with \
                 `m3 node join`",
                directory.display()
            )));
        }
        asked => asked.map_err(Failed::new)?,
    };
    if !asked.status.daemon {
        return Err(Failed::new(format!(
            "the daemon of {} has ended, and the proxy of node {} (pid {}) waits for the next one; \
             start it with `m3 up`, or end the proxy with `m3 node leave`",
            directory.display(),
            asked.status.node,
            asked.pid
        )));
    }
    if args.json {
        println!("{}", serde_json::to_string(&asked.status).map_err(Failed::new)?);
    } else {
        println!("{}", table::text(&asked.status));
    }
    Ok(ExitCode::SUCCESS)
}
