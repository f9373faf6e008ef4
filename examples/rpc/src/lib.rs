//! tonic, tarpc and hyper over com-sockets. Each module has a server and a client of one library.

pub mod grpc;
pub mod http1;
pub mod place;
pub mod tarpc;

pub use place::Place;

use std::future::Future;
use std::net::SocketAddrV4;
use std::sync::Arc;

/// An error of a program.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What a client of each library does. Each call ends with an error when the server is killed.
pub trait Calls: Clone + Send + Sync + Sized + 'static {
    /// A client of the server at an address.
    fn connect(
        place: Arc<Place>,
        at: SocketAddrV4,
    ) -> impl Future<Output = Result<Self, Failure>> + Send;

    /// Sends bytes and awaits the same.
    fn echo(&self, bytes: Vec<u8>) -> impl Future<Output = Result<Vec<u8>, Failure>> + Send;

    /// A call that the server takes and never answers.
    fn hang(&self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Reads a stream that the server never ends; `heard` is told of each piece.
    fn stream(
        &self,
        heard: impl FnMut(usize) + Send,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}
