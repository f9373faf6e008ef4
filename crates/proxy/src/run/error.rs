//! Why a proxy ends.

use super::{ConfigError, sandbox};
use m3ipc::NodeError;
use std::io;

/// Why a proxy has ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The files are wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The daemon refuses this proxy, or there is none.
    #[error("the daemon of {directory}: {cause}")]
    Daemon {
        /// Its runtime directory.
        directory: std::path::PathBuf,
        /// The reason.
        cause: NodeError,
    },
    /// Another proxy serves the node.
    #[error("a proxy (pid {pid}) serves {directory} already; end it with `m3 node leave`")]
    Present {
        /// Its process id.
        pid: i32,
        /// The runtime directory.
        directory: std::path::PathBuf,
    },
    /// The address cannot be used.
    #[error("cannot listen at {address}: {cause}; {}", remedy_of_listening(cause))]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// The system's reason.
        cause: io::Error,
    },
    /// The sandbox cannot be closed.
    #[error(transparent)]
    Sandbox(#[from] sandbox::SandboxError),
    /// The system does not wait for descriptors.
    #[error("cannot wait for events: {0}")]
    Poll(rustix::io::Errno),
}

fn remedy_of_listening(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrNotAvailable => {
            "this machine does not have that address: change that of the node in the registry"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 are for root: take another one in the registry"
        }
        _ => "end the program that has it, or change the address of the node in the registry",
    }
}
