//! tonic: one gRPC stream in both directions for each line, all on one HTTP/2 connection a peer.
//!
//! The messages are bare bytes, so that no protobuf is in the figures.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use tokio::sync::{Mutex, mpsc};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{NamedService, StreamingService, UnaryService};
use tonic::transport::ServerTlsConfig;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Server};
use tonic::{Request, Response, Status, Streaming};

use crate::keys::{Keys, NAME};
use crate::line::{Engine, Line, Shape, serve_line, start};

const WINDOW: u32 = 8 << 20;
const CAPACITY: usize = 64;
const LIMIT: usize = 16 << 20;

/// gRPC over TLS, or plain.
pub struct Grpc {
    tls: Option<(ClientTlsConfig, ServerTlsConfig)>,
    /// Whether each trip is a call of its own.
    has_calls: bool,
    channels: Mutex<HashMap<SocketAddr, Channel>>,
}

impl Grpc {
    /// With the keys of the run, or plain; a call for each trip, or a stream.
    pub fn new(keys: &Keys, has_tls: bool, has_calls: bool) -> io::Result<Self> {
        let tls = if has_tls {
            let ca = Certificate::from_pem(std::fs::read(keys.file("ca.pem"))?);
            let chain = std::fs::read(keys.file("node.pem"))?;
            let own = Identity::from_pem(chain, std::fs::read(keys.file("node.key"))?);
            let client = ClientTlsConfig::new().ca_certificate(ca.clone()).identity(own.clone());
            let server = ServerTlsConfig::new().client_ca_root(ca).identity(own);
            Some((client.domain_name(NAME), server))
        } else {
            None
        };
        Ok(Self { tls, has_calls, channels: Mutex::default() })
    }

    async fn channel(&self, to: SocketAddr) -> io::Result<Channel> {
        let mut channels = self.channels.lock().await;
        if let Some(channel) = channels.get(&to) {
            return Ok(channel.clone());
        }
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{to}"))
            .map_err(io::Error::other)?
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(2 * WINDOW)
            .tcp_nodelay(true);
        if let Some((client, _)) = &self.tls {
            endpoint = endpoint.tls_config(client.clone()).map_err(io::Error::other)?;
        }
        let channel = endpoint.connect().await.map_err(io::Error::other)?;
        channels.insert(to, channel.clone());
        Ok(channel)
    }
}

impl Engine for Grpc {
    type Line = GrpcLine;

    fn shape(&self) -> Shape {
        Shape::OneLoop
    }

    async fn connect(&'static self, to: SocketAddr) -> io::Result<GrpcLine> {
        let mut client =
            tonic::client::Grpc::new(self.channel(to).await?).max_decoding_message_size(LIMIT);
        client.ready().await.map_err(io::Error::other)?;
        if self.has_calls {
            return Ok(GrpcLine { send: Sender::Caller(client, Bytes::new()), receive: None });
        }
        let (send, frames) = mpsc::channel(CAPACITY);
        let path = http::uri::PathAndQuery::from_static("/m3.Nodes/Line");
        let request = Request::new(ReceiverStream::new(frames));
        let answer = client.streaming(request, path, Raw).await.map_err(io::Error::other)?;
        Ok(GrpcLine { send: Sender::Client(send), receive: Some(answer.into_inner()) })
    }

    async fn serve(&'static self, at: SocketAddr) -> io::Result<()> {
        let (lines, mut came) = mpsc::unbounded_channel();
        let mut server = Server::builder()
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(2 * WINDOW)
            .tcp_nodelay(true);
        if let Some((_, tls)) = &self.tls {
            server = server.tls_config(tls.clone()).map_err(io::Error::other)?;
        }
        start(self, async move |engine: &'static Self| {
            while let Some(line) = came.recv().await {
                start(engine, async |_| serve_line(line).await);
            }
        });
        server.add_service(Lines(lines)).serve(at).await.map_err(io::Error::other)
    }
}

/// Frames as they are.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, target: &mut EncodeBuf<'_>) -> Result<(), Status> {
        target.put(item);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(64 << 10, 256 << 10)
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(source.copy_to_bytes(source.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(64 << 10, 256 << 10)
    }
}

type Answers = ReceiverStream<Result<Bytes, Status>>;
type Ready<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The service: each request becomes a line.
#[derive(Clone)]
struct Lines(mpsc::UnboundedSender<GrpcLine>);

impl StreamingService<Bytes> for Lines {
    type Response = Bytes;
    type ResponseStream = Answers;
    type Future = Ready<Result<Response<Answers>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let (send, answers) = mpsc::channel(CAPACITY);
        let line = GrpcLine { send: Sender::Server(send), receive: Some(request.into_inner()) };
        let _ = self.0.send(line);
        Box::pin(async { Ok(Response::new(ReceiverStream::new(answers))) })
    }
}

impl UnaryService<Bytes> for Lines {
    type Response = Bytes;
    type Future = std::future::Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        std::future::ready(Ok(Response::new(request.into_inner())))
    }
}

impl NamedService for Lines {
    const NAME: &'static str = "m3.Nodes";
}

impl tower_service::Service<http::Request<Body>> for Lines {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(Raw).max_decoding_message_size(LIMIT);
            if request.uri().path().ends_with("/Call") {
                return Ok(grpc.unary(service, request).await);
            }
            Ok(grpc.streaming(service, request).await)
        })
    }
}

enum Sender {
    Client(mpsc::Sender<Bytes>),
    Server(mpsc::Sender<Result<Bytes, Status>>),
    /// The next request, which `receive` sends.
    Caller(tonic::client::Grpc<Channel>, Bytes),
}

/// Both directions of one call.
pub struct GrpcLine {
    send: Sender,
    /// None of a caller.
    receive: Option<Streaming<Bytes>>,
}

impl Line for GrpcLine {
    async fn send(&mut self, frame: &[u8], _: bool) -> io::Result<()> {
        let frame = Bytes::copy_from_slice(frame);
        let sent = match &mut self.send {
            Sender::Client(send) => send.send(frame).await.is_ok(),
            Sender::Server(send) => send.send(Ok(frame)).await.is_ok(),
            Sender::Caller(_, request) => {
                *request = frame;
                true
            }
        };
        if sent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    async fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<()> {
        frame.clear();
        if let Sender::Caller(client, request) = &mut self.send {
            client.ready().await.map_err(io::Error::other)?;
            let path = http::uri::PathAndQuery::from_static("/m3.Nodes/Call");
            let answer = client.unary(Request::new(request.clone()), path, Raw).await;
            frame.extend_from_slice(&answer.map_err(io::Error::other)?.into_inner());
            return Ok(());
        }
        let stream = self.receive.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let next = stream.next().await.ok_or(io::ErrorKind::UnexpectedEof)?;
        frame.extend_from_slice(&next.map_err(io::Error::other)?);
        Ok(())
    }

    fn has_more(&self) -> bool {
        false
    }
}
