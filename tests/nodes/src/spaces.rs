//! A network namespace for each of three nodes, and a bridge between them.
//!
//! ```text
//!   node 0 ── veth ──┐
//!   node 1 ── veth ──┼ bridge, in a namespace of its own
//!   node 2 ── veth ──┘
//! ```
//! A process holds each namespace, and dies with the test: nothing has a name that could be left.

use crate::Process;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

/// The port of each proxy.
pub(crate) const PORT: u16 = 7400;

/// The address of a node.
pub(crate) fn address(node: usize) -> Ipv4Addr {
    let last = u8::try_from(node + 1).expect("three nodes");
    Ipv4Addr::new(10, 77, 0, last)
}

/// Three namespaces and their bridge.
#[derive(Debug)]
pub struct Spaces {
    nodes: [Process; 3],
    bridge: Process,
}

impl Spaces {
    /// Makes the namespaces; `None` with a reason on the output, if this system does not let us.
    #[must_use]
    pub fn make(test: &str) -> Option<Self> {
        let cause = match Self::try_make() {
            Ok(made) => return Some(made),
            Err(cause) => cause,
        };
        println!("SKIP {test}: it needs root, network namespaces, veth, bridge and `ip`: {cause}");
        None
    }

    fn try_make() -> Result<Self, String> {
        let [first, second, third, bridge] = [(); 4].map(|()| holder());
        let spaces = Self { nodes: [first?, second?, third?], bridge: bridge? };
        let bridge = spaces.bridge.pid();
        run(bridge, &["link", "add", "hub", "type", "bridge"])?;
        run(bridge, &["link", "set", "hub", "up"])?;
        for (at, node) in spaces.nodes.iter().enumerate() {
            let (own, cable) = (node.pid(), cable(at));
            let address = format!("{}/24", address(at));
            let there = bridge.to_string();
            let veth = ["link", "add", "eth", "type", "veth", "peer", &cable, "netns", &there];
            run(own, &veth)?;
            run(own, &["addr", "add", &address, "dev", "eth"])?;
            run(own, &["link", "set", "lo", "up"])?;
            run(own, &["link", "set", "eth", "up"])?;
            run(bridge, &["link", "set", &cable, "master", "hub"])?;
            run(bridge, &["link", "set", &cable, "up"])?;
        }
        Ok(spaces)
    }

    /// The process that holds the namespace of a node.
    pub(crate) fn holder_of(&self, node: usize) -> u32 {
        self.nodes[node].pid()
    }

    /// Pulls the cable of a node. Nobody is told.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn isolate(&self, node: usize) {
        run(self.bridge.pid(), &["link", "set", &cable(node), "down"]).expect("a cable");
    }

    /// Plugs the cable of a node in again.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn join(&self, node: usize) {
        run(self.bridge.pid(), &["link", "set", &cable(node), "up"]).expect("a cable");
    }
}

fn cable(node: usize) -> String {
    format!("cable{node}")
}

/// A process in a fresh network namespace.
fn holder() -> Result<Process, String> {
    let mut holder = Process::start_by(&["unshare", "--net"], &["space"]);
    if holder.line() == "here" { Ok(holder) } else { Err("unshare --net fails".into()) }
}

/// Runs `ip` in the namespace of a process.
fn run(holder: u32, words: &[&str]) -> Result<(), String> {
    let mut command = Command::new("nsenter");
    command.args(["--target", &holder.to_string(), "--net", "ip"]).args(words);
    let output = command.stdin(Stdio::null()).output().map_err(|cause| cause.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}
