//! `join`, `leave`, `ls`: the proxy of this node from the shell.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use m3ipc::{Node, VmConfig, VmLife, runtime};
use m3ipc_fabric::{VmCopy, VmEntry};
use m3ipc_sys::{ServiceProcess, start_service};

use super::failed::{Done, Failed};
use super::table;
use crate::run::Config;
use crate::status::{self, Asked, SOCKET_NAME, StatusError};

/// The log of a proxy in the background.
const LOG: &str = "proxy.log";
/// The time that a proxy has to serve, and to end.
const LIMIT: Duration = Duration::from_secs(10);
/// The mode of a VM without one in the registry.
const VM_MODE: u16 = 0o750;
/// How long the kernel may take to end a killed proxy.
const END_NS: u64 = 5_000_000_000;
const PAUSE: Duration = Duration::from_millis(5);
/// The size at which the log is emptied.
const LOG_BYTES: &str = "1048576";
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
            let wanted = config_of(vm);
            match node.vm(i32::from(vm.id)) {
                // Programs of other nodes call the members of the VM that their registry names.
                Ok(running) if running.name() == vm.name => {
                    let mode = vm.parameters.mode.unwrap_or(VM_MODE);
                    running.check_own(mode).map_err(Failed::new)?;
                }
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
    let log = log_of(directory)?;
    let asked = start(&args.config, &log)
        .and_then(|proxy| await_status(directory, &log, &proxy))
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

/// A VM as the registry describes it.
fn config_of(vm: &VmEntry) -> VmConfig {
    let parameters = &vm.parameters;
    let mut wanted = VmConfig::new(&vm.name).id(i32::from(vm.id));
    wanted = wanted.mode(parameters.mode.unwrap_or(VM_MODE));
    if let Some(slots) = parameters.procs {
        wanted = wanted.procs(slots);
    }
    if let Some(slots) = parameters.tasks {
        wanted = wanted.tasks(slots);
    }
    if let Some(ms) = parameters.grace_ms.and_then(|ms| u32::try_from(ms).ok()) {
        wanted = wanted.grace_ms(ms);
    }
    if let Some(copy) = parameters.copy {
        wanted = wanted.copy_granted(copy == VmCopy::Granted);
    }
    // A creator of this kind would end at once: the VM stays until it is ended.
    if parameters.life == Some(m3ipc_fabric::VmLife::Members) {
        wanted = wanted.life(VmLife::Members);
    }
    wanted
}

/// The log of the proxy of a node: as that of its daemon. A directory that everybody may enter is
/// the system's.
fn log_of(directory: &Path) -> Result<PathBuf, Failed> {
    runtime::check(directory).map_err(Failed::new)?;
    let mode = std::fs::metadata(directory).map_err(Failed::new)?.mode();
    if mode & 0o001 == 0 {
        return Ok(directory.join(LOG));
    }
    runtime::log_of_system(directory, LOG).map_err(|why| {
        Failed::new(format!("no log of the proxy: {why}; run `m3-proxy run` as a service"))
    })
}

/// Starts a proxy that goes on after this process.
fn start(config: &Path, log: &Path) -> Result<ServiceProcess, Failed> {
    let failed = |cause: std::io::Error| {
        Failed::new(format!("cannot start the proxy: {cause}; check this machine with `m3 doctor`"))
    };
    let own = std::env::current_exe().map_err(failed)?;
    let log = File::options().append(true).create(true).mode(0o600).open(log).map_err(failed)?;
    log.set_len(0).map_err(failed)?;
    let config = std::path::absolute(config).map_err(failed)?;
    let words = ["run", "--log-bytes", LOG_BYTES, "--config"].map(std::ffi::OsStr::new);
    let words = [&words[..], &[config.as_os_str()]].concat();
    start_service(&own, &words, &[], Path::new("/"), log.as_fd())
        .map_err(|errno| failed(errno.into()))
}

/// Waits until the proxy serves, or has ended.
fn await_status(directory: &Path, log: &Path, proxy: &ServiceProcess) -> Result<Asked, Failed> {
    let begin = Instant::now();
    let has_ended = |limit_ns| {
        m3ipc_sys::wait_readable(&[proxy.process.as_fd()], limit_ns).is_ok_and(|ended| ended)
    };
    loop {
        let over = begin.elapsed() > LIMIT || has_ended(0);
        match status::ask(directory) {
            Ok(asked) if asked.pid == proxy.pid => return Ok(asked),
            Ok(_) | Err(_) if !over => std::thread::sleep(PAUSE),
            Ok(_) | Err(_) => {
                // It may have ended by itself. Its log is whole when it has.
                let _ = m3ipc_sys::signal(&proxy.process, m3ipc_sys::Signal::KILL);
                has_ended(END_NS);
                return Err(Failed::new(reason(log)));
            }
        }
    }
}

/// What a proxy said before its end.
fn reason(path: &Path) -> String {
    let mut text = String::new();
    if let Ok(log) = File::open(path) {
        let _ = log.take(REASON_BYTES as u64).read_to_string(&mut text);
    }
    let last = text.lines().rev().find(|line| !line.is_empty()).unwrap_or_default();
    match last.strip_prefix("m3-proxy: ") {
        Some(last) => format!("the proxy has ended: {last}"),
        None => format!(
            "the proxy does not serve; see {}, and `m3-proxy run` in the foreground",
            path.display()
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
        if let Ok(log) = log_of(&directory) {
            let _ = std::fs::remove_file(log);
        }
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
        let json = serde_json::to_string(&asked.status).map_err(Failed::new)?;
        println!("{}", m3ipc_sys::json_escaped(&json));
    } else {
        println!("{}", table::text(&asked.status));
    }
    Ok(ExitCode::SUCCESS)
}
