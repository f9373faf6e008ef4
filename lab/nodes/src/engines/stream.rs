//! Frames over a blocking byte stream: plain TCP, and TLS by rustls.

use std::io::{self, BufReader, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection, StreamOwned};

use crate::keys::Keys;
use crate::line::{Engine, Line, Shape, serve_line, start};

/// Larger frames are written without a copy.
const COPIED_BYTES: usize = 16 << 10;
const BUFFER_BYTES: usize = 256 << 10;

/// Plain TCP, or TLS over it.
pub struct Stream {
    tls: Option<(Arc<ClientConfig>, Arc<ServerConfig>)>,
}

impl Stream {
    /// With TLS by this provider, or plain.
    pub fn new(keys: &Keys, provider: Option<CryptoProvider>) -> io::Result<Self> {
        let tls = match provider {
            Some(it) => Some((Arc::new(keys.client(it.clone())?), Arc::new(keys.server(it)?))),
            None => None,
        };
        Ok(Self { tls })
    }

    fn accept(&self, stream: TcpStream) -> io::Result<StreamLine> {
        stream.set_nodelay(true)?;
        let Some((_, server)) = &self.tls else { return Ok(StreamLine::new(Box::new(stream))) };
        let mut connection = ServerConnection::new(server.clone()).map_err(io::Error::other)?;
        connection.set_buffer_limit(None);
        Ok(StreamLine::new(Box::new(StreamOwned::new(connection, Buffered::new(stream)))))
    }
}

impl Engine for Stream {
    type Line = StreamLine;

    fn shape(&self) -> Shape {
        Shape::Threads
    }

    async fn connect(&'static self, to: SocketAddr) -> io::Result<StreamLine> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        let Some((client, _)) = &self.tls else { return Ok(StreamLine::new(Box::new(stream))) };
        let connection = ClientConnection::new(client.clone(), Keys::name());
        let mut connection = connection.map_err(io::Error::other)?;
        connection.set_buffer_limit(None);
        Ok(StreamLine::new(Box::new(StreamOwned::new(connection, Buffered::new(stream)))))
    }

    async fn serve(&'static self, at: SocketAddr) -> io::Result<()> {
        for stream in TcpListener::bind(at)?.incoming() {
            let stream = stream?;
            start(self, async move |engine: &'static Self| {
                if let Ok(line) = engine.accept(stream) {
                    serve_line(line).await;
                }
            });
        }
        Ok(())
    }
}

/// A socket with a buffer for reading: rustls reads 4 KB at a time.
struct Buffered(BufReader<TcpStream>);

impl Buffered {
    fn new(stream: TcpStream) -> Self {
        Self(BufReader::with_capacity(BUFFER_BYTES, stream))
    }
}

impl Read for Buffered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Buffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.get_mut().write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

/// Frames, each behind its length.
pub struct StreamLine {
    stream: Box<dyn Duplex>,
    output: Vec<u8>,
    input: Vec<u8>,
    start: usize,
    end: usize,
}

impl StreamLine {
    fn new(stream: Box<dyn Duplex>) -> Self {
        let input = vec![0; BUFFER_BYTES];
        Self { stream, output: vec![], input, start: 0, end: 0 }
    }

    fn length(&self) -> Option<usize> {
        let head = self.input[self.start..self.end].first_chunk::<4>()?;
        usize::try_from(u32::from_le_bytes(*head)).ok()
    }
}

impl Line for StreamLine {
    async fn send(&mut self, frame: &[u8], flush: bool) -> io::Result<()> {
        let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
        self.output.extend_from_slice(&length.to_le_bytes());
        let is_large = frame.len() > COPIED_BYTES;
        if !is_large {
            self.output.extend_from_slice(frame);
        }
        if flush || is_large || self.output.len() > BUFFER_BYTES {
            self.stream.write_all(&self.output)?;
            self.output.clear();
        }
        if is_large { self.stream.write_all(frame) } else { Ok(()) }
    }

    async fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<()> {
        let length = loop {
            if let Some(length) = self.length() {
                break length;
            }
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            match self.stream.read(&mut self.input[self.end..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.end += read,
            }
        };
        self.start += 4;
        let here = length.min(self.end - self.start);
        frame.clear();
        frame.extend_from_slice(&self.input[self.start..self.start + here]);
        self.start += here;
        frame.resize(length, 0);
        self.stream.read_exact(&mut frame[here..])
    }

    fn has_more(&self) -> bool {
        self.length().is_some_and(|length| self.end - self.start >= length + 4)
    }
}
