//! tarpc: a service by its macro, bincode.

use crate::{Calls, Failure, Place};
use futures_util::StreamExt;
use m3ipc_sockets::{AsyncListener, AsyncStream};
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tarpc::context::Context;
use tarpc::serde_transport;
use tarpc::server::{BaseChannel, Channel};
use tarpc::tokio_serde::formats::Bincode;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

/// The time limit of a call, which tarpc sends to the server.
const LIMIT: Duration = Duration::from_secs(3_600);

#[tarpc::service]
trait Echoes {
    async fn echo(bytes: Vec<u8>) -> Vec<u8>;
    async fn hang();
}

#[derive(Clone)]
struct Server;

impl Echoes for Server {
    async fn echo(self, _: Context, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    async fn hang(self, _: Context) {
        std::future::pending().await
    }
}

fn frames(stream: AsyncStream) -> Framed<AsyncStream, LengthDelimitedCodec> {
    LengthDelimitedCodec::builder().new_framed(stream)
}

/// Serves for ever.
pub async fn serve(place: Arc<Place>, listener: AsyncListener) -> Result<(), Failure> {
    loop {
        let stream = place.accept(&listener).await?;
        let transport = serde_transport::new(frames(stream), Bincode::default());
        let requests = BaseChannel::with_defaults(transport).execute(Server.serve());
        tokio::spawn(requests.for_each(async |answer| {
            tokio::spawn(answer);
        }));
    }
}

/// A client.
#[derive(Clone)]
pub struct Client(EchoesClient);

fn within_limit() -> Context {
    let mut context = tarpc::context::current();
    context.deadline = Instant::now() + LIMIT;
    context
}

impl Calls for Client {
    async fn connect(place: Arc<Place>, at: SocketAddrV4) -> Result<Self, Failure> {
        let transport = serde_transport::new(frames(place.connect(at)?), Bincode::default());
        Ok(Self(EchoesClient::new(tarpc::client::Config::default(), transport).spawn()))
    }

    async fn echo(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
        Ok(self.0.echo(within_limit(), bytes).await?)
    }

    async fn hang(&self) -> Result<(), Failure> {
        Ok(self.0.hang(within_limit()).await?)
    }

    /// tarpc has no streams: one call after the other.
    async fn stream(&self, mut heard: impl FnMut(usize) + Send) -> Result<(), Failure> {
        loop {
            heard(self.echo(vec![7; 1000]).await?.len());
        }
    }
}
