//! Where the nodes run: network namespaces of the run's own, or loopback without root.
//!
//! ```text
//! namespace a (client, broker)   10.91.1.1 ── veth ── 10.91.1.2   namespace b (healthy server)
//!                                10.91.2.1 ── veth ── 10.91.2.2   namespace c (second server)
//! ```
//! The drop of a place removes its namespaces, and with them the pairs of veth.

use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// A node of the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// The client, and the broker of engines that have one.
    A,
    /// The healthy server.
    B,
    /// The server that dies or stops.
    C,
}

/// The namespaces of a run.
pub struct Place {
    /// The beginning of the names of the namespaces, or `None` for loopback.
    name: Option<String>,
}

impl Place {
    /// Makes the namespaces, or takes loopback, and says why.
    pub fn make() -> (Self, String) {
        let name = format!("m3-nodes-{}", std::process::id());
        let place = Self { name: Some(name.clone()) };
        match place.lay_out(&name) {
            Ok(()) => (place, "three network namespaces, veth between them".into()),
            Err(error) => {
                drop(place);
                (Self { name: None }, format!("loopback: no network namespaces ({error})"))
            }
        }
    }

    fn lay_out(&self, name: &str) -> io::Result<()> {
        for node in ["a", "b", "c"] {
            ip(&["netns", "add", &format!("{name}-{node}")])?;
            ip(&["-n", &format!("{name}-{node}"), "link", "set", "lo", "up"])?;
        }
        let near = format!("{name}-a");
        for (node, number) in [("b", 1), ("c", 2)] {
            let far = format!("{name}-{node}");
            let device = format!("to-{node}");
            let pair = ["type", "veth", "peer", "name", "to-a", "netns", &far];
            ip(&[&["-n", &near, "link", "add", &device], &pair[..]].concat())?;
            for (space, device, end) in [(&near, device.as_str(), 1), (&far, "to-a", 2)] {
                let address = format!("10.91.{number}.{end}/30");
                ip(&["-n", space, "address", "add", &address, "dev", device])?;
                ip(&["-n", space, "link", "set", device, "up"])?;
            }
        }
        Ok(())
    }

    /// The address at which a node listens.
    pub fn address(&self, node: Node, port: u16) -> SocketAddr {
        match (&self.name, node) {
            (None, Node::A) => ([127, 0, 0, 1], port).into(),
            (None, Node::B) => ([127, 0, 0, 1], port + 1).into(),
            (None, Node::C) => ([127, 0, 0, 1], port + 2).into(),
            (Some(_), Node::A) => ([0, 0, 0, 0], port).into(),
            (Some(_), Node::B) => ([10, 91, 1, 2], port).into(),
            (Some(_), Node::C) => ([10, 91, 2, 2], port).into(),
        }
    }

    /// The address of the broker as a node sees it.
    pub fn broker(&self, node: Node, port: u16) -> SocketAddr {
        match (&self.name, node) {
            (None, _) => ([127, 0, 0, 1], port).into(),
            (Some(_), Node::A | Node::B) => ([10, 91, 1, 1], port).into(),
            (Some(_), Node::C) => ([10, 91, 2, 1], port).into(),
        }
    }

    /// A command that runs on a node.
    pub fn command(&self, node: Node, program: &str) -> Command {
        let Some(name) = &self.name else { return Command::new(program) };
        let space = match node {
            Node::A => "a",
            Node::B => "b",
            Node::C => "c",
        };
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{name}-{space}"), program]);
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for node in self.name.iter().flat_map(|_| ["a", "b", "c"]) {
            let name = self.name.as_deref().unwrap_or_default();
            // A namespace that was never made is no loss.
            let _ = ip(&["netns", "delete", &format!("{name}-{node}")]);
        }
    }
}

fn ip(arguments: &[&str]) -> io::Result<()> {
    let output = Command::new("ip").args(arguments).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("ip {}: {}", arguments.join(" "), said.trim())))
}
