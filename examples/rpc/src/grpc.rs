//! gRPC by tonic: unary calls and streams on one HTTP/2 connection.
//!
//! The messages and the service are written out, so that the build needs no protoc. They are what
//! tonic-prost-build makes of
//!
//! ```text
//! message Echo { bytes bytes = 1; }
//! service Echoes {
//!     rpc Echo(Echo) returns (Echo);
//!     rpc Hang(Echo) returns (Echo);
//!     rpc Stream(Echo) returns (stream Echo);
//! }
//! ```

use crate::{Calls, Failure, Place};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use m3ipc_sockets::{AsyncListener, AsyncStream};
use std::convert::Infallible;
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::body::Body;
use tonic::server::{NamedService, ServerStreamingService, UnaryService};
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

/// A message.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Echo {
    /// Its bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub bytes: Bytes,
}

type Ready<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Codec = ProstCodec<Echo, Echo>;

/// The service.
#[derive(Clone)]
struct Echoes;

struct Unary {
    hangs: bool,
}

impl UnaryService<Echo> for Unary {
    type Response = Echo;
    type Future = Ready<Result<Response<Echo>, Status>>;

    fn call(&mut self, request: Request<Echo>) -> Self::Future {
        let hangs = self.hangs;
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            Ok(Response::new(request.into_inner()))
        })
    }
}

impl ServerStreamingService<Echo> for Echoes {
    type Response = Echo;
    type ResponseStream = BoxStream<'static, Result<Echo, Status>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Echo>) -> Self::Future {
        Box::pin(async {
            let echo = request.into_inner();
            let pieces = stream::repeat_with(move || Ok(echo.clone())).boxed();
            Ok(Response::new(pieces))
        })
    }
}

impl NamedService for Echoes {
    const NAME: &'static str = "m3.Echoes";
}

impl Service<http::Request<Body>> for Echoes {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut grpc = tonic::server::Grpc::new(Codec::default());
        Box::pin(async move {
            let hangs = request.uri().path() == "/m3.Echoes/Hang";
            Ok(if request.uri().path() == "/m3.Echoes/Stream" {
                grpc.server_streaming(Self, request).await
            } else {
                grpc.unary(Unary { hangs }, request).await
            })
        })
    }
}

/// Serves for ever.
pub async fn serve(place: Arc<Place>, listener: AsyncListener) -> Result<(), Failure> {
    let streams = stream::unfold((place, listener), |(place, listener)| async {
        Some((place.accept(&listener).await, (place, listener)))
    });
    Ok(Server::builder().add_service(Echoes).serve_with_incoming(streams).await?)
}

/// Connects, and connects again after the end of a connection.
struct Connector(Arc<Place>, SocketAddrV4);

impl Service<http::Uri> for Connector {
    type Response = TokioIo<AsyncStream>;
    type Error = std::io::Error;
    type Future = std::future::Ready<std::io::Result<TokioIo<AsyncStream>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        std::future::ready(self.0.connect(self.1).map(TokioIo::new))
    }
}

/// A client.
#[derive(Clone)]
pub struct Client(Channel);

impl Client {
    async fn unary(&self, path: &'static str, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let mut grpc = tonic::client::Grpc::new(self.0.clone());
        grpc.ready().await?;
        let echo = Request::new(Echo { bytes: bytes.into() });
        let answer: Response<Echo> =
            grpc.unary(echo, PathAndQuery::from_static(path), Codec::default()).await?;
        Ok(answer.into_inner().bytes.into())
    }
}

impl Calls for Client {
    async fn connect(place: Arc<Place>, at: SocketAddrV4) -> Result<Self, Failure> {
        let endpoint = Endpoint::from_static("http://localhost");
        Ok(Self(endpoint.connect_with_connector(Connector(place, at)).await?))
    }

    async fn echo(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
        self.unary("/m3.Echoes/Echo", bytes).await
    }

    async fn hang(&self) -> Result<(), Failure> {
        self.unary("/m3.Echoes/Hang", vec![]).await.map(drop)
    }

    async fn stream(&self, mut heard: impl FnMut(usize) + Send) -> Result<(), Failure> {
        let mut grpc = tonic::client::Grpc::new(self.0.clone());
        grpc.ready().await?;
        let path = PathAndQuery::from_static("/m3.Echoes/Stream");
        let echo = Request::new(Echo { bytes: vec![7; 1000].into() });
        let answer: Response<tonic::Streaming<Echo>> =
            grpc.server_streaming(echo, path, Codec::default()).await?;
        let mut pieces = answer.into_inner();
        while let Some(piece) = pieces.message().await? {
            heard(piece.bytes.len());
        }
        Ok(())
    }
}
