//! HTTP/1.1 by hyper. Each call has a connection of its own.

use crate::{Calls, Failure, Place};
use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use m3ipc_sockets::AsyncListener;
use std::convert::Infallible;
use std::net::SocketAddrV4;
use std::sync::Arc;

type Body = BoxBody<Bytes, Infallible>;

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
    Ok(Response::new(match request.uri().path() {
        "/hang" => std::future::pending().await,
        "/stream" => {
            let pieces = stream::repeat_with(|| Ok(Frame::data(Bytes::from_static(&[7; 1000]))));
            BodyExt::boxed(StreamBody::new(pieces))
        }
        _ => Full::new(request.into_body().collect().await?.to_bytes()).boxed(),
    }))
}

/// Serves for ever.
pub async fn serve(place: Arc<Place>, listener: AsyncListener) -> Result<(), Failure> {
    loop {
        let stream = TokioIo::new(place.accept(&listener).await?);
        let server = hyper::server::conn::http1::Builder::new();
        tokio::spawn(server.serve_connection(stream, service_fn(answer)));
    }
}

/// A client.
#[derive(Clone)]
pub struct Client(Arc<Place>, SocketAddrV4);

impl Client {
    async fn call(&self, path: &str, bytes: Vec<u8>) -> Result<Incoming, Failure> {
        let stream = TokioIo::new(self.0.connect(self.1)?);
        let (mut send, connection) = hyper::client::conn::http1::handshake(stream).await?;
        tokio::spawn(connection);
        let request =
            Request::post(path)
                .header(http::header::HOST, "localhost")
                .body(Full::<Bytes>::new(bytes.into()))?;
        Ok(send.send_request(request).await?.into_body())
    }
}

impl Calls for Client {
    async fn connect(place: Arc<Place>, at: SocketAddrV4) -> Result<Self, Failure> {
        Ok(Self(place, at))
    }

    async fn echo(&self, bytes: Vec<u8>) -> Result<Vec<u8>, Failure> {
        Ok(self.call("/echo", bytes).await?.collect().await?.to_bytes().into())
    }

    async fn hang(&self) -> Result<(), Failure> {
        self.call("/hang", vec![]).await.map(drop)
    }

    async fn stream(&self, mut heard: impl FnMut(usize) + Send) -> Result<(), Failure> {
        let mut body = self.call("/stream", vec![]).await?;
        while let Some(frame) = body.frame().await {
            heard(frame?.data_ref().map_or(0, Bytes::len));
        }
        Ok(())
    }
}
