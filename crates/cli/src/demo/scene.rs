//! The scene: a directory, a node, a server, a client; all gone at the end.

use super::part::{Role, node_directory};
use super::{Order, Told, VM};
use crate::fail::{Fail, Result};
use m3ipc::{Node, Vm, VmConfig};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a part may take to come or to go.
const LIMIT: Duration = Duration::from_secs(10);

/// The command line of a part.
pub fn part(
    role: Role,
    directory: &Path,
    cpu: Option<usize>,
    other_cpu: Option<usize>,
) -> Result<Command> {
    let program =
        std::env::current_exe().map_err(|cause| Fail::system("cannot find m3 itself", cause))?;
    let mut command = Command::new(program);
    command
        .arg("__demo")
        .arg(role.name())
        .arg(directory)
        .env("M3_RUNTIME_DIR", node_directory(directory));
    command.arg("--parent").arg(std::process::id().to_string());
    for (flag, cpu) in [("--cpu", cpu), ("--other-cpu", other_cpu)] {
        if let Some(cpu) = cpu {
            command.arg(flag).arg(cpu.to_string());
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Ok(command)
}

fn spawn(mut command: Command, role: Role) -> Result<Child> {
    command
        .spawn()
        .map_err(|cause| Fail::system(format!("cannot start the {}", role.name()), cause))
}

/// The client, and the talk with it.
struct Client {
    process: Child,
    orders: ChildStdin,
    told: BufReader<ChildStdout>,
}

/// Everything that the demo has started.
pub struct Scene {
    /// Where everything lies.
    pub directory: PathBuf,
    /// The CPUs of client and server, where there are two.
    pub cpus: Option<(usize, usize)>,
    /// The numbers of all processes that were ever started.
    pub pids: Vec<i32>,
    /// The VM.
    pub vm: Vm,
    node: Option<Node>,
    daemon: Child,
    /// Ends with this process: then the daemon clears up and goes.
    _lifeline: Option<ChildStdin>,
    server: Option<Child>,
    client: Option<Client>,
}

impl Scene {
    /// Makes the directory, and starts the node with its VM.
    pub fn open() -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("m3-demo-{}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&directory);
        made.map_err(|cause| Fail::system(format!("cannot make {}", directory.display()), cause))?;
        let mut command = part(Role::Daemon, &directory, None, None)?;
        // Not in the terminal's group: ^C ends the show, and the daemon clears up then.
        command.stdin(Stdio::piped()).process_group(0);
        let mut daemon = spawn(command, Role::Daemon)?;
        let lifeline = daemon.stdin.take();
        let mut node = Self::reach(&directory, &mut daemon)?;
        let vm = node.vm_init(&VmConfig::new(VM))?;
        let cpus = crate::cpus::two();
        let pids = vec![number(&daemon)];
        Ok(Self {
            directory,
            cpus,
            pids,
            vm,
            node: Some(node),
            daemon,
            _lifeline: lifeline,
            server: None,
            client: None,
        })
    }

    fn reach(directory: &Path, daemon: &mut Child) -> Result<Node> {
        let begun = Instant::now();
        loop {
            match Node::find(&node_directory(directory)) {
                Ok(node) => return Ok(node),
                Err(error) if begun.elapsed() > LIMIT || !matches!(daemon.try_wait(), Ok(None)) => {
                    // With its lifeline the daemon removes the directory; where it never lived, we do.
                    let _ = std::fs::remove_dir_all(directory);
                    return Err(error.into());
                }
                Err(_) => std::thread::sleep(Duration::from_micros(200)),
            }
        }
    }

    /// The node.
    pub fn node(&mut self) -> Result<&mut Node> {
        self.node.as_mut().ok_or_else(|| Fail::plain("the node has ended"))
    }

    /// Starts a server; returns its process.
    pub fn start_server(&mut self) -> Result<i32> {
        let server = spawn(
            part(Role::Server, &self.directory, self.cpus.map(|cpus| cpus.1), None)?,
            Role::Server,
        )?;
        let pid = number(&server);
        self.pids.push(pid);
        self.server = Some(server);
        Ok(pid)
    }

    /// Starts the client; returns its process.
    pub fn start_client(&mut self) -> Result<i32> {
        let (cpu, other_cpu) = (self.cpus.map(|cpus| cpus.0), self.cpus.map(|cpus| cpus.1));
        let mut command = part(Role::Client, &self.directory, cpu, other_cpu)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = spawn(command, Role::Client)?;
        let pid = number(&process);
        self.pids.push(pid);
        let (Some(orders), Some(told)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Fail::plain("the client cannot be talked to"));
        };
        self.client = Some(Client { process, orders, told: BufReader::new(told) });
        Ok(pid)
    }

    /// Gives the client an order.
    pub fn order(&mut self, order: Order) -> Result<()> {
        let text =
            serde_json::to_string(&order).map_err(|cause| Fail::system("cannot order", cause))?;
        let client = self.client.as_mut().ok_or_else(no_client)?;
        writeln!(client.orders, "{text}")
            .map_err(|cause| Fail::system("the client has gone", cause))
    }

    /// What the client tells.
    pub fn told(&mut self) -> Result<Told> {
        let client = self.client.as_mut().ok_or_else(no_client)?;
        let mut line = String::new();
        client
            .told
            .read_line(&mut line)
            .map_err(|cause| Fail::system("the client has gone", cause))?;
        match serde_json::from_str(&line)
            .map_err(|cause| Fail::system("the client has gone", cause))?
        {
            Told::Failed(what) => Err(Fail::plain(format!("the client failed: {what}"))),
            told => Ok(told),
        }
    }

    /// Kills the server with -9; returns the time right before.
    pub fn kill_server(&mut self) -> Result<u64> {
        let mut server = self.server.take().ok_or_else(|| Fail::plain("there is no server"))?;
        let before_ns = m3ipc_sys::monotonic_ns();
        server.kill().map_err(|cause| Fail::system("cannot kill the server", cause))?;
        server.wait().map_err(|cause| Fail::system("cannot wait for the server", cause))?;
        Ok(before_ns)
    }

    /// Ends client, VM, server and node, in this order and all of them properly.
    pub fn close(&mut self) -> Result<()> {
        self.order(Order::End)?;
        if let Some(mut client) = self.client.take() {
            leave(&mut client.process, "client")?;
        }
        let vm = self.vm.id();
        let ended = self.node()?.vm_end(vm);
        if let Some(mut server) = self.server.take() {
            leave(&mut server, "server")?;
        }
        ended?;
        if let Some(node) = self.node.take() {
            node.end()?;
        }
        leave(&mut self.daemon, "daemon")?;
        let removed = std::fs::remove_dir(&self.directory);
        removed.map_err(|cause| {
            Fail::system(format!("{} is not empty", self.directory.display()), cause)
        })
    }
}

/// Where the show breaks off, nothing stays either: the others die by signal, the
/// daemon clears up when its lifeline goes.
impl Drop for Scene {
    fn drop(&mut self) {
        for process in
            self.client.iter_mut().map(|client| &mut client.process).chain(&mut self.server)
        {
            let _ = process.kill();
            let _ = process.wait();
        }
        drop(self._lifeline.take());
        let _ = self.daemon.wait();
    }
}

fn no_client() -> Fail {
    Fail::plain("there is no client")
}

fn number(process: &Child) -> i32 {
    i32::try_from(process.id()).unwrap_or(0)
}

/// Waits until a part has ended by itself, and well.
fn leave(process: &mut Child, who: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        match process
            .try_wait()
            .map_err(|cause| Fail::system(format!("cannot wait for the {who}"), cause))?
        {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(Fail::plain(format!("the {who} ended badly: {status}"))),
            None if begun.elapsed() > LIMIT => {
                return Err(Fail::plain(format!("the {who} does not end")));
            }
            None => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}
