//! Whether a proxy listens at the address of a node.
//!
//! The node of the lower id connects, so a node of a higher id learns nothing of its own when the
//! proxy of the other one has ended. It then begins a connection that it never uses: a refusal
//! proves that nobody listens there.

use crate::transport::connect_to;
use m3ipc_fabric::NodeId;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The time for an answer, and between two probes of a node. Then the grace of the session decides.
pub const LIMIT: Duration = Duration::from_secs(1);

struct Probe {
    node: NodeId,
    socket: TcpStream,
    until: Instant,
}

/// Connections that have begun.
#[derive(Default)]
pub struct Probes {
    open: Vec<Probe>,
    /// The latest one with each node.
    latest: BTreeMap<NodeId, Instant>,
}

impl Probes {
    /// Begins to connect, at most once in a second with each node. The node, if nobody listens
    /// there.
    pub fn begin(&mut self, node: NodeId, at: SocketAddr, now: Instant) -> Option<NodeId> {
        let latest = self.latest.get(&node);
        if latest.is_some_and(|latest| now.saturating_duration_since(*latest) < LIMIT) {
            return None;
        }
        self.latest.insert(node, now);
        match connect_to(at) {
            Ok(socket) => {
                self.open.push(Probe { node, socket, until: now + LIMIT });
                None
            }
            Err(error) => (error.kind() == ErrorKind::ConnectionRefused).then_some(node),
        }
    }

    /// The nodes at whose addresses nobody listens. Ends all attempts that have an answer.
    pub fn refused(&mut self, now: Instant) -> Vec<NodeId> {
        let mut refused = Vec::new();
        self.open.retain(|probe| match probe.socket.take_error() {
            Ok(Some(error)) => {
                if error.kind() == ErrorKind::ConnectionRefused {
                    refused.push(probe.node);
                }
                false
            }
            Ok(None) => probe.socket.peer_addr().is_err() && now < probe.until,
            Err(_) => false,
        });
        refused
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// The descriptors to poll until they take bytes.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.open.iter().map(|probe| probe.socket.as_fd())
    }

    /// When [`Probes::refused`] is due without an event.
    pub fn deadline(&self) -> Option<Instant> {
        self.open.iter().map(|probe| probe.until).min()
    }
}
