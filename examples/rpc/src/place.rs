//! Where a server and its clients meet: a domain of com-sockets.

use crate::Failure;
use m3ipc::{Node, Vm};
use m3ipc_sockets::{AsyncListener, AsyncPoller, AsyncStream, Domain};
use std::net::SocketAddrV4;
use std::path::Path;

/// The domain of this process, and the poller of its streams.
pub struct Place {
    domain: Domain,
    poller: AsyncPoller,
}

impl Place {
    /// Joins the com-sockets of a VM.
    pub fn join(directory: &Path, vm: &str) -> Result<Self, Failure> {
        let vm: Vm = Node::attach_at(directory)?.vm_named(vm)?;
        Ok(Self { domain: Domain::join(directory, &vm)?, poller: AsyncPoller::new()? })
    }

    /// A listener at a free port, and its address.
    pub fn listen(&self) -> Result<(AsyncListener, SocketAddrV4), Failure> {
        let listener = self.domain.listen(0, 64)?;
        let at = listener.local_addr();
        Ok((AsyncListener::new(listener)?, at))
    }

    /// The next connection.
    pub async fn accept(&self, listener: &AsyncListener) -> std::io::Result<AsyncStream> {
        listener.accept_in(&self.poller).await
    }

    /// A connection to a server.
    pub fn connect(&self, at: SocketAddrV4) -> std::io::Result<AsyncStream> {
        AsyncStream::new_in(&self.poller, self.domain.connect(at)?)
    }
}
