//! gRPC by tonic over streams of com-sockets.
//!
//! An [`AsyncStream`] is the transport; tonic needs nothing else for its clients. Its server also
//! asks each connection who the client is.

use crate::asynchronous::AsyncStream;
use std::net::SocketAddrV4;
use tonic::transport::server::Connected;

/// The client of a connection, in the extensions of each request of tonic.
///
/// ```no_run
/// // Not run here: it needs a node daemon and a service that a .proto file describes.
/// use m3ipc_sockets::{AsyncListener, AsyncPoller, ClientInfo};
///
/// async fn serve(listener: AsyncListener) -> Result<(), Box<dyn std::error::Error>> {
///     let poller = AsyncPoller::new()?;
///     let stream = listener.accept_in(&poller).await?;
///     // tonic: Server::builder().add_service(service).serve_with_incoming(streams)
///     drop(stream);
///     Ok(())
/// }
///
/// fn user(request: &tonic::Request<()>) -> Option<u32> {
///     request.extensions().get::<ClientInfo>().map(ClientInfo::user)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    address: SocketAddrV4,
    process: i32,
    user: u32,
}

impl ClientInfo {
    /// The address of the client. The example is at [`ClientInfo`].
    #[must_use]
    pub fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// The process id of the client, from the kernel. The example is at [`ClientInfo`].
    #[must_use]
    pub fn process(&self) -> i32 {
        self.process
    }

    /// The user id of the client, from the kernel. The example is at [`ClientInfo`].
    #[must_use]
    pub fn user(&self) -> u32 {
        self.user
    }
}

impl Connected for AsyncStream {
    type ConnectInfo = ClientInfo;

    fn connect_info(&self) -> ClientInfo {
        let stream = self.stream();
        let (process, user) = stream.peer_process();
        ClientInfo { address: stream.peer_addr(), process, user }
    }
}
