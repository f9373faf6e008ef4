//! The processes of the demonstration. Each one dies with its parent, whatever ends that.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use m3ipc::{Node, Source, Vm, VmConfig, runtime};

use super::failed::{Done, Failed};
use super::network::Network;

/// The id and the name of the VM.
pub const VM: (i32, &str) = (3, "shop");
/// A request of this type gets no answer.
pub const KEEP: i32 = 2;
/// The time for the start of a process.
pub const LIMIT: Duration = Duration::from_secs(20);
pub const PAUSE: Duration = Duration::from_millis(2);

/// A process of the demonstration.
#[derive(Debug, clap::Subcommand)]
pub enum Role {
    /// Becomes another program, which dies with the parent
    #[command(name = "__follow", hide = true)]
    Follow {
        parent: u32,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        words: Vec<std::ffi::OsString>,
    },
    /// Answers each request
    #[command(name = "__server", hide = true)]
    Server {
        runtime: PathBuf,
        #[arg(allow_negative_numbers = true)]
        slot: i32,
    },
    /// Removes a directory when its standard input ends
    #[command(name = "__janitor", hide = true)]
    Janitor { directory: PathBuf },
}

/// Plays a role until its end.
pub fn play(role: &Role) -> Done {
    match role {
        Role::Follow { parent, words } => follow(*parent, words),
        Role::Server { runtime, slot } => serve(runtime, *slot).map_err(Failed::new),
        Role::Janitor { directory } => Ok(tidy(directory)),
    }
}

fn follow(parent: u32, words: &[std::ffi::OsString]) -> Done {
    m3ipc_sys::die_with_parent().map_err(Failed::new)?;
    // A parent that died before that call sent no signal.
    if parent != std::os::unix::process::parent_id() {
        return Ok(ExitCode::FAILURE);
    }
    Err(Failed::new(Command::new(&words[0]).args(&words[1..]).exec()))
}

fn serve(directory: &Path, slot: i32) -> Result<ExitCode, m3ipc::NodeError> {
    let vm = Node::find(directory)?.vm(VM.0)?;
    let Ok(mut server) = vm.bind(slot) else { return Ok(ExitCode::FAILURE) };
    loop {
        match server.receive(Source::Any) {
            Ok(request) if request.m_type != KEEP => {
                // A client that is gone needs no answer.
                let _ = server.reply(request.source, &request);
            }
            Ok(_) => {}
            Err(_) => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// Waits for the end of the parent, and removes what it left.
fn tidy(directory: &Path) -> ExitCode {
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    let begin = Instant::now();
    // The processes that the kernel kills now may still make files.
    while directory.exists() && begin.elapsed() < LIMIT {
        let _ = std::fs::remove_dir_all(directory);
        std::thread::sleep(PAUSE);
    }
    ExitCode::SUCCESS
}

/// A process that dies with this one. Its standard input is a pipe.
fn start(words: &[&str]) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["__follow", &std::process::id().to_string()]).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// Starts the process that removes the directory after any end of this one.
pub fn start_janitor(directory: &Path) -> io::Result<(Child, Option<ChildStdin>)> {
    let mut command = Command::new(std::env::current_exe()?);
    // Outside the terminal's process group: ^C ends this process, and the janitor works.
    let command = command.arg("__janitor").arg(directory).process_group(0);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let pipe = child.stdin.take();
    Ok((child, pipe))
}

/// The program of the daemon, and the first words of its command line.
fn daemon() -> io::Result<(PathBuf, &'static [&'static str])> {
    let prefix = |path: &Path| -> &'static [&'static str] {
        if path.file_name().is_some_and(|name| name == "m3") { &["daemon"] } else { &[] }
    };
    if let Some(named) = m3ipc_sys::variable("M3_DAEMON") {
        let named = PathBuf::from(named);
        let prefix = prefix(&named);
        return Ok((named, prefix));
    }
    let own = std::env::current_exe()?;
    for name in ["m3", "m3d", "../../bin/m3"] {
        let Ok(path) = own.with_file_name(name).canonicalize() else { continue };
        if runtime::check_program(&path).is_ok() {
            let prefix = prefix(&path);
            return Ok((path, prefix));
        }
    }
    Err(io::Error::other(format!(
        "no node daemon lies beside {}; build m3ipc-cli, or name the program in M3_DAEMON",
        own.display()
    )))
}

/// One node: daemon, VM, proxy and server, in the order of their start.
#[derive(Debug)]
pub struct DemoNode {
    /// Its runtime directory.
    pub runtime: PathBuf,
    /// The slot of its server.
    pub slot: i32,
    /// Its VM.
    pub vm: Vm,
    daemon: Child,
    proxy: Child,
    server: Option<Child>,
}

/// What a node needs to begin.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The directory of the demonstration.
    pub directory: &'a Path,
    /// Its network.
    pub network: &'a Network,
    /// The name of the node, its number from 0 on, and the slot of its server.
    pub node: (&'static str, usize, i32),
    /// The proxy of the first node.
    pub first: Option<u32>,
}

impl DemoNode {
    /// Starts all processes of a node; those of node 0 without a server.
    pub fn start(plan: Plan<'_>) -> Result<Self, Failed> {
        let (name, number, slot) = plan.node;
        let runtime = plan.directory.join(name);
        let config = plan.directory.join(format!("{name}.toml"));
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (program, prefix) = daemon().map_err(Failed::new)?;
        let (program, run) = (text(&program), text(&runtime));
        let mut words = vec![program.as_str()];
        words.extend(prefix);
        words.extend(["--log-level", "error", "--runtime-dir", &run]);
        let mut daemon = start(&words).map_err(Failed::new)?;
        let mut node = until("the daemon serves", &mut daemon, || Node::find(&runtime).ok())?;
        let vm = node.vm_open_or_create(&VmConfig::new(VM.1).id(VM.0)).map_err(Failed::new)?;
        let own = text(&std::env::current_exe().map_err(Failed::new)?);
        let config = text(&config);
        let mut words = plan.network.prefix().to_vec();
        words.extend([own.as_str(), "run", "--config", &config]);
        let mut proxy = start(&words).map_err(Failed::new)?;
        let pid = proxy.id();
        plan.network.connect(number, pid, plan.first.unwrap_or(pid)).map_err(Failed::new)?;
        if let Some(mut input) = proxy.stdin.take() {
            // A proxy on loopback reads nothing.
            let _ = input.write_all(b"\n");
        }
        let mut made = Self { runtime, slot, vm, daemon, proxy, server: None };
        if number > 0 {
            made.server = Some(made.start_server().map_err(Failed::new)?);
        }
        Ok(made)
    }

    fn start_server(&self) -> io::Result<Child> {
        let own = std::env::current_exe()?;
        let (own, run) = (own.to_string_lossy(), self.runtime.to_string_lossy());
        start(&[&own, "__server", &run, &self.slot.to_string()])
    }

    /// The process id of its proxy.
    pub fn proxy(&self) -> u32 {
        self.proxy.id()
    }

    /// The process ids of all its processes.
    pub fn pids(&self) -> Vec<u32> {
        let server = self.server.iter();
        [&self.proxy, &self.daemon].into_iter().chain(server).map(Child::id).collect()
    }

    /// Kills all its processes, as the end of its machine would.
    pub fn kill(&mut self) {
        // The proxy first: it would start a daemon in place of a killed one.
        let server = self.server.iter_mut();
        for process in [&mut self.proxy, &mut self.daemon].into_iter().chain(server) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Ends the node: first the VM and the daemon, then the proxy.
    pub fn end(&mut self) -> Result<(), Failed> {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
        Node::find(&self.runtime).and_then(Node::end).map_err(Failed::new)?;
        until("the daemon ends", &mut self.daemon, || (!self.runtime.exists()).then_some(()))?;
        Ok(())
    }
}

impl Drop for DemoNode {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for something that a living process does.
fn until<T>(what: &str, process: &mut Child, found: impl Fn() -> Option<T>) -> Result<T, Failed> {
    let begin = Instant::now();
    loop {
        let over = begin.elapsed() > LIMIT || !matches!(process.try_wait(), Ok(None));
        match found() {
            Some(found) => return Ok(found),
            None if over => {
                return Err(Failed::new(format!(
                    "{what}: this does not happen; check this machine with `m3 doctor`"
                )));
            }
            None => std::thread::sleep(PAUSE),
        }
    }
}
