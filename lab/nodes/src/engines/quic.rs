//! quinn: a QUIC connection to each peer, a stream for each line.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig, VarInt};
use tokio::sync::Mutex;

use crate::keys::{Keys, NAME};
use crate::line::{Engine, Line, Shape, serve_line, start};

/// The window of a stream: two copies.
const WINDOW: u32 = 8 << 20;

/// QUIC.
pub struct Quic {
    client: ClientConfig,
    server: ServerConfig,
    connections: Mutex<HashMap<SocketAddr, (Endpoint, Connection)>>,
}

impl Quic {
    /// With the keys of the run.
    pub fn new(keys: &Keys) -> io::Result<Self> {
        let provider = rustls::crypto::aws_lc_rs::default_provider;
        let client: QuicClientConfig =
            keys.client(provider())?.try_into().map_err(io::Error::other)?;
        let server: QuicServerConfig =
            keys.server(provider())?.try_into().map_err(io::Error::other)?;
        let mut transport = quinn::TransportConfig::default();
        transport.stream_receive_window(VarInt::from_u32(WINDOW));
        transport.send_window(u64::from(WINDOW) * 2);
        let transport = Arc::new(transport);
        let mut client = ClientConfig::new(Arc::new(client));
        client.transport_config(transport.clone());
        let mut server = ServerConfig::with_crypto(Arc::new(server));
        server.transport_config(transport);
        Ok(Self { client, server, connections: Mutex::default() })
    }
}

impl Engine for Quic {
    type Line = QuicLine;

    fn shape(&self) -> Shape {
        Shape::OneLoop
    }

    async fn connect(&'static self, to: SocketAddr) -> io::Result<QuicLine> {
        let mut all = self.connections.lock().await;
        if !all.contains_key(&to) {
            let mut endpoint = Endpoint::client(([0, 0, 0, 0], 0).into())?;
            endpoint.set_default_client_config(self.client.clone());
            let connection = endpoint.connect(to, NAME).map_err(io::Error::other)?.await?;
            all.insert(to, (endpoint, connection));
        }
        let (send, receive) = all[&to].1.open_bi().await?;
        Ok(QuicLine { send, receive })
    }

    async fn serve(&'static self, at: SocketAddr) -> io::Result<()> {
        let endpoint = Endpoint::server(self.server.clone(), at)?;
        while let Some(incoming) = endpoint.accept().await {
            start(self, async move |engine: &'static Self| {
                let Ok(connection) = incoming.await else { return };
                while let Ok((send, receive)) = connection.accept_bi().await {
                    start(engine, async |_| serve_line(QuicLine { send, receive }).await);
                }
            });
        }
        Ok(())
    }
}

/// A stream of a connection.
pub struct QuicLine {
    send: SendStream,
    receive: RecvStream,
}

impl Line for QuicLine {
    async fn send(&mut self, frame: &[u8], _: bool) -> io::Result<()> {
        let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
        if frame.len() <= 1 << 10 {
            let mut whole = Vec::with_capacity(4 + frame.len());
            whole.extend_from_slice(&length.to_le_bytes());
            whole.extend_from_slice(frame);
            return Ok(self.send.write_all(&whole).await?);
        }
        self.send.write_all(&length.to_le_bytes()).await?;
        Ok(self.send.write_all(frame).await?)
    }

    async fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<()> {
        let mut head = [0; 4];
        self.receive.read_exact(&mut head).await.map_err(io::Error::other)?;
        frame.resize(usize::try_from(u32::from_le_bytes(head)).map_err(io::Error::other)?, 0);
        self.receive.read_exact(frame).await.map_err(io::Error::other)
    }

    fn has_more(&self) -> bool {
        false
    }
}
