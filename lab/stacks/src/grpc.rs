//! tonic: unary calls with protobuf messages on one HTTP/2 connection.
//!
//! The message and the service are written out, so that no build needs protoc. They are what
//! tonic-prost-build makes of `message Echo { bytes bytes = 1; }` and one unary method.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Uri;
use hyper_util::rt::TokioIo;
use tonic::body::Body;
use tonic::server::{NamedService, UnaryService};
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::Failure;
use crate::figures::{check, measure_tasks};
use crate::stack::{CALL_BYTES, Place, Role, tell_address};
use crate::wire::Wire;

#[derive(Clone, PartialEq, prost::Message)]
struct Echo {
    #[prost(bytes = "bytes", tag = "1")]
    bytes: Bytes,
}

type Ready<T> = Pin<Box<dyn Future<Output = T> + Send>>;

#[derive(Clone)]
struct Echoes;

impl UnaryService<Echo> for Echoes {
    type Response = Echo;
    type Future = Ready<Result<Response<Echo>, Status>>;

    fn call(&mut self, request: Request<Echo>) -> Self::Future {
        Box::pin(async { Ok(Response::new(request.into_inner())) })
    }
}

impl NamedService for Echoes {
    const NAME: &'static str = "m3.Echoes";
}

impl tower_service::Service<http::Request<Body>> for Echoes {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let codec = ProstCodec::<Echo, Echo>::default();
        Box::pin(async { Ok(tonic::server::Grpc::new(codec).unary(Self, request).await) })
    }
}

/// Hands one connection to tonic.
struct Connector<L>(Option<L>);

impl<L: Send + 'static> tower_service::Service<Uri> for Connector<L> {
    type Response = TokioIo<L>;
    type Error = io::Error;
    type Future = Ready<io::Result<TokioIo<L>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let line = self.0.take().ok_or(io::Error::from(io::ErrorKind::NotConnected));
        Box::pin(async { line.map(TokioIo::new) })
    }
}

pub async fn play<W: Wire>(place: &Place, role: Role) -> Result<(), Failure> {
    let wire = W::open(place)?;
    match role {
        Role::Serve => {
            let (listener, at) = wire.listen().await?;
            tell_address(&at);
            let lines = futures_util::stream::unfold(listener, |listener| async {
                Some((W::accept(&listener).await, listener))
            });
            Ok(Server::builder().add_service(Echoes).serve_with_incoming(lines).await?)
        }
        Role::Call(work) => {
            let connector = Connector(Some(wire.connect(&work.at).await?));
            let channel =
                Endpoint::from_static("http://localhost").connect_with_connector(connector).await?;
            let call = || {
                let mut grpc = tonic::client::Grpc::new(channel.clone());
                let echo = Echo { bytes: Bytes::from_static(&[7; CALL_BYTES]) };
                async move {
                    grpc.ready().await?;
                    let path = http::uri::PathAndQuery::from_static("/m3.Echoes/Echo");
                    let codec = ProstCodec::<Echo, Echo>::default();
                    let answer = grpc.unary(Request::new(echo.clone()), path, codec).await?;
                    check(&answer.into_inner().bytes, &echo.bytes)
                }
            };
            measure_tasks(&work, call).await?.print();
            Ok(())
        }
    }
}
