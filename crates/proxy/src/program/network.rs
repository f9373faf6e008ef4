//! The network of the demonstration: a namespace for each proxy, or loopback.
//!
//! The namespaces have no names, so the kernel removes them with their last process.
//!
//! ```text
//! alpha 10.91.0.1 on a bridge ── veth ── beta 10.91.0.2
//!                             └─ veth ── gamma 10.91.0.3
//! ```

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};

/// The port of a proxy in its namespace.
const PORT: u16 = 7400;

/// Where the nodes live.
#[derive(Clone, Debug)]
pub enum Network {
    /// In namespaces.
    Namespaces,
    /// At these ports of loopback.
    Loopback(Vec<u16>),
}

impl Network {
    /// Namespaces, if this process may make them and the programs are there.
    pub fn choose(nodes: usize, loopback: bool) -> io::Result<Self> {
        let can = !loopback
            && m3ipc_sys::user_id() == 0
            && run(&["unshare", "--net", "ip", "link", "add", "m3", "type", "bridge"]).is_ok()
            && run(&["nsenter", "--version"]).is_ok();
        if can {
            return Ok(Self::Namespaces);
        }
        // Held together, so that they differ.
        let listeners: io::Result<Vec<TcpListener>> =
            (0..nodes).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
        let ports: io::Result<Vec<u16>> =
            listeners?.iter().map(|it| it.local_addr().map(|at| at.port())).collect();
        ports.map(Self::Loopback)
    }

    /// The address of the node of this number, from 0 on.
    pub fn address(&self, number: usize) -> SocketAddr {
        match self {
            Self::Namespaces => ([10, 91, 0, last(number)], PORT).into(),
            Self::Loopback(ports) => {
                ([127, 0, 0, 1], ports.get(number).copied().unwrap_or_default()).into()
            }
        }
    }

    /// The words before those of a proxy: it waits for a line before it begins.
    pub fn prefix(&self) -> &'static [&'static str] {
        match self {
            Self::Namespaces => {
                &["unshare", "--net", "sh", "-c", "read -r line; exec \"$@\"", "sh"]
            }
            Self::Loopback(_) => &[],
        }
    }

    /// Connects the namespace of a process with that of the first one.
    pub fn connect(&self, number: usize, pid: u32, first: u32) -> io::Result<()> {
        if matches!(self, Self::Loopback(_)) {
            return Ok(());
        }
        await_namespace(pid)?;
        let at = format!("10.91.0.{}/24", last(number));
        ip(pid, "link set lo up")?;
        if number == 0 {
            ip(pid, "link add m3 type bridge")?;
            ip(pid, &format!("address add {at} dev m3"))?;
            return ip(pid, "link set m3 up");
        }
        let near = format!("to-{number}");
        // The kernel may still be at the end of the namespace of a killed node.
        let _ = ip(first, &format!("link delete {near}"));
        // A node that is started again has its address of before, also for the kernels of others,
        // which remember it for half a minute.
        let hardware = format!("02:00:0a:5b:00:{:02x}", last(number));
        ip(
            first,
            &format!("link add {near} type veth peer name m3 address {hardware} netns {pid}"),
        )?;
        ip(first, &format!("link set {near} master m3 up"))?;
        ip(pid, &format!("address add {at} dev m3"))?;
        ip(pid, "link set m3 up")
    }

    /// In words.
    pub fn text(&self) -> &'static str {
        match self {
            Self::Namespaces => "each in a network namespace, veth between them",
            Self::Loopback(_) => "each at a port of loopback",
        }
    }
}

fn last(number: usize) -> u8 {
    u8::try_from(number + 1).unwrap_or(u8::MAX)
}

/// Waits until a process that was just started has left the namespace of this one.
fn await_namespace(pid: u32) -> io::Result<()> {
    let own = std::fs::read_link("/proc/self/ns/net")?;
    for _ in 0..2_000 {
        if std::fs::read_link(format!("/proc/{pid}/ns/net"))? != own {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Err(io::Error::other("a process stays in the namespace of its parent"))
}

fn ip(pid: u32, words: &str) -> io::Result<()> {
    let target = pid.to_string();
    let mut all = vec!["nsenter", "--target", &target, "--net", "ip"];
    all.extend(words.split(' '));
    run(&all)
}

fn run(words: &[&str]) -> io::Result<()> {
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{}: {}", words.join(" "), said.trim())))
}
