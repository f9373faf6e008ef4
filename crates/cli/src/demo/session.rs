//! The processes of the demonstration, from the first start to the last end.

use super::protocol::{ClientCommand, ClientReply, VM};
use super::role::{DemoRole, Placement, node_directory};
use crate::cpus::Cpus;
use crate::error::{CliError, Result};
use m3ipc::{Node, Vm, VmConfig};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

/// The time limit for the start and for the end of a process.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// The client process and its channel.
struct Client {
    process: Child,
    commands: ChildStdin,
    replies: BufReader<ChildStdout>,
}

/// All processes of the demonstration, with their directory.
pub struct Session {
    /// The directory of all files.
    pub directory: PathBuf,
    /// The CPUs of client and server, where there are two.
    pub cpus: Option<(usize, usize)>,
    /// The numbers of all processes that were started.
    pub pids: Vec<i32>,
    /// The VM.
    pub vm: Vm,
    node: Option<Node>,
    daemon: Child,
    /// Standard input of the daemon, which ends with this process: the daemon then clears up.
    lifeline: Option<ChildStdin>,
    server: Option<Child>,
    client: Option<Client>,
}

impl Session {
    /// Creates the directory, starts the daemon, and creates the VM.
    pub fn start() -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("m3-demo-{}", std::process::id()));
        let created = std::fs::DirBuilder::new().mode(0o700).create(&directory);
        created.map_err(|cause| {
            CliError::system(format!("cannot create {}", directory.display()), cause)
        })?;
        let mut command = DemoRole::Daemon.command(&directory, Placement::default())?;
        // Outside the terminal's process group: ^C ends this process, and the daemon clears up.
        command.stdin(Stdio::piped()).process_group(0);
        let mut daemon = DemoRole::Daemon.spawn(&mut command)?;
        let lifeline = daemon.stdin.take();
        let mut node = Self::wait_for_node(&directory, &mut daemon)?;
        let vm = node.vm_init(&VmConfig::new(VM))?;
        let pids = vec![pid(&daemon)];
        Ok(Self {
            directory,
            cpus: Cpus::allowed().pair(),
            pids,
            vm,
            node: Some(node),
            daemon,
            lifeline,
            server: None,
            client: None,
        })
    }

    fn wait_for_node(directory: &Path, daemon: &mut Child) -> Result<Node> {
        let start = Instant::now();
        loop {
            let is_over =
                start.elapsed() > PROCESS_TIMEOUT || !matches!(daemon.try_wait(), Ok(None));
            match Node::find(&node_directory(directory)) {
                Ok(node) => return Ok(node),
                Err(error) if is_over => {
                    // A daemon that never served has not removed the directory.
                    let _ = std::fs::remove_dir_all(directory);
                    return Err(error.into());
                }
                Err(_) => std::thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// The node.
    pub fn node(&mut self) -> Result<&mut Node> {
        self.node.as_mut().ok_or_else(|| CliError::failure("the node has ended"))
    }

    /// Starts a server and returns its process number.
    pub fn start_server(&mut self) -> Result<i32> {
        let placement = Placement { cpu: self.cpus.map(|cpus| cpus.1), partner_cpu: None };
        let mut command = DemoRole::Server.command(&self.directory, placement)?;
        let server = DemoRole::Server.spawn(&mut command)?;
        let pid = pid(&server);
        self.pids.push(pid);
        self.server = Some(server);
        Ok(pid)
    }

    /// Starts the client and returns its process number.
    pub fn start_client(&mut self) -> Result<i32> {
        let placement = Placement {
            cpu: self.cpus.map(|cpus| cpus.0),
            partner_cpu: self.cpus.map(|cpus| cpus.1),
        };
        let mut command = DemoRole::Client.command(&self.directory, placement)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = DemoRole::Client.spawn(&mut command)?;
        let pid = pid(&process);
        self.pids.push(pid);
        let (Some(commands), Some(replies)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(CliError::failure("the client has no pipes"));
        };
        self.client = Some(Client { process, commands, replies: BufReader::new(replies) });
        Ok(pid)
    }

    /// Sends a command to the client.
    pub fn send(&mut self, command: ClientCommand) -> Result<()> {
        let text = serde_json::to_string(&command)
            .map_err(|cause| CliError::system("cannot encode a command", cause))?;
        let client = self.client.as_mut().ok_or_else(no_client)?;
        writeln!(client.commands, "{text}").map_err(|cause| CliError::system(CLIENT_ENDED, cause))
    }

    /// Waits for the reply to a command.
    pub fn reply(&mut self) -> Result<ClientReply> {
        let client = self.client.as_mut().ok_or_else(no_client)?;
        let mut line = String::new();
        client
            .replies
            .read_line(&mut line)
            .map_err(|cause| CliError::system(CLIENT_ENDED, cause))?;
        match serde_json::from_str(&line).map_err(|cause| CliError::system(CLIENT_ENDED, cause))? {
            ClientReply::Failed(why) => Err(CliError::failure(format!("the client failed: {why}"))),
            reply => Ok(reply),
        }
    }

    /// Sends a command and waits for the reply.
    pub fn execute(&mut self, command: ClientCommand) -> Result<ClientReply> {
        self.send(command)?;
        self.reply()
    }

    /// Kills the server with SIGKILL; returns the monotonic time right before, in nanoseconds.
    pub fn kill_server(&mut self) -> Result<u64> {
        let mut server =
            self.server.take().ok_or_else(|| CliError::failure("there is no server"))?;
        let before_ns = m3ipc_sys::monotonic_ns();
        server.kill().map_err(|cause| CliError::system("cannot kill the server", cause))?;
        server.wait().map_err(|cause| CliError::system("cannot wait for the server", cause))?;
        Ok(before_ns)
    }

    /// Ends client, VM, server and daemon in this order, and expects an empty directory.
    pub fn end(&mut self) -> Result<()> {
        self.send(ClientCommand::Exit)?;
        if let Some(mut client) = self.client.take() {
            wait_for_exit(&mut client.process, DemoRole::Client)?;
        }
        let vm = self.vm.id();
        let ended = self.node()?.vm_end(vm);
        if let Some(mut server) = self.server.take() {
            wait_for_exit(&mut server, DemoRole::Server)?;
        }
        ended?;
        if let Some(node) = self.node.take() {
            node.end()?;
        }
        wait_for_exit(&mut self.daemon, DemoRole::Daemon)?;
        std::fs::remove_dir(&self.directory).map_err(|cause| {
            CliError::system(format!("cannot remove {}", self.directory.display()), cause)
        })
    }
}

/// After an error: kills client and server, and lets the daemon clear up.
impl Drop for Session {
    fn drop(&mut self) {
        let client = self.client.iter_mut().map(|client| &mut client.process);
        for process in client.chain(&mut self.server) {
            let _ = process.kill();
            let _ = process.wait();
        }
        drop(self.lifeline.take());
        let _ = self.daemon.wait();
    }
}

const CLIENT_ENDED: &str = "the client has ended";

fn no_client() -> CliError {
    CliError::failure("there is no client")
}

fn pid(process: &Child) -> i32 {
    i32::try_from(process.id()).unwrap_or(0)
}

/// Waits until a process exits by itself with code 0.
fn wait_for_exit(process: &mut Child, role: DemoRole) -> Result<()> {
    let start = Instant::now();
    let name = role.name();
    loop {
        let status = process
            .try_wait()
            .map_err(|cause| CliError::system(format!("cannot wait for the {name}"), cause))?;
        match status {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(CliError::failure(format!("the {name} failed: {status}"))),
            None if start.elapsed() > PROCESS_TIMEOUT => {
                return Err(CliError::failure(format!("the {name} does not exit")));
            }
            None => std::thread::sleep(POLL_INTERVAL),
        }
    }
}
