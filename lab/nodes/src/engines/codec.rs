//! tokio-rustls with tokio-util's length-delimited codec, or the codec on plain TCP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use rustls::crypto::CryptoProvider;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use crate::keys::Keys;
use crate::line::{Engine, Line, Shape, serve_line, start};

/// The codec over TLS, or plain.
pub struct Codec {
    tls: Option<(TlsConnector, TlsAcceptor)>,
    shape: Shape,
}

impl Codec {
    /// With TLS by this provider, or plain; in these threads.
    pub fn new(keys: &Keys, provider: Option<CryptoProvider>, shape: Shape) -> io::Result<Self> {
        let tls = match provider {
            Some(it) => {
                let (client, server) = (keys.client(it.clone())?, keys.server(it)?);
                Some((Arc::new(client).into(), Arc::new(server).into()))
            }
            None => None,
        };
        Ok(Self { tls, shape })
    }
}

impl Engine for Codec {
    type Line = CodecLine;

    fn shape(&self) -> Shape {
        self.shape
    }

    async fn connect(&'static self, to: SocketAddr) -> io::Result<CodecLine> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let Some((client, _)) = &self.tls else { return Ok(CodecLine::new(Box::new(stream))) };
        let stream = BufReader::with_capacity(256 << 10, stream);
        let stream = client.connect(Keys::name(), stream).await?;
        Ok(CodecLine::new(Box::new(stream)))
    }

    async fn serve(&'static self, at: SocketAddr) -> io::Result<()> {
        let listener = TcpListener::bind(at).await?;
        loop {
            let stream = listener.accept().await?.0.into_std()?;
            start(self, async move |engine: &'static Self| {
                if let Ok(line) = engine.accept(stream).await {
                    serve_line(line).await;
                }
            });
        }
    }
}

impl Codec {
    async fn accept(&self, stream: std::net::TcpStream) -> io::Result<CodecLine> {
        let stream = TcpStream::from_std(stream)?;
        stream.set_nodelay(true)?;
        let Some((_, server)) = &self.tls else { return Ok(CodecLine::new(Box::new(stream))) };
        let stream = BufReader::with_capacity(256 << 10, stream);
        Ok(CodecLine::new(Box::new(server.accept(stream).await?)))
    }
}

trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// Frames by the codec.
pub struct CodecLine(Framed<Box<dyn Duplex>, LengthDelimitedCodec>);

impl CodecLine {
    fn new(stream: Box<dyn Duplex>) -> Self {
        let mut framed = Framed::with_capacity(stream, LengthDelimitedCodec::new(), 64 << 10);
        framed.set_backpressure_boundary(64 << 10);
        Self(framed)
    }
}

impl Line for CodecLine {
    async fn send(&mut self, frame: &[u8], flush: bool) -> io::Result<()> {
        self.0.feed(Bytes::copy_from_slice(frame)).await?;
        if flush { SinkExt::<Bytes>::flush(&mut self.0).await } else { Ok(()) }
    }

    async fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<()> {
        let next = self.0.next().await.ok_or(io::ErrorKind::UnexpectedEof)??;
        frame.clear();
        frame.extend_from_slice(&next);
        Ok(())
    }

    fn has_more(&self) -> bool {
        let buffer = self.0.read_buffer();
        let length = buffer.first_chunk::<4>().map(|head| u32::from_be_bytes(*head));
        length.is_some_and(|length| buffer.len() as u64 >= u64::from(length) + 4)
    }
}
