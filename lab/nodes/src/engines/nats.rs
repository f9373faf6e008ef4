//! async-nats: a subject for each direction of a line, through the server `nats-server`.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use async_nats::{Client, ConnectOptions, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;

use crate::keys::Keys;
use crate::line::{Engine, Line, Shape, serve_line, start};

/// The port of the server.
pub const PORT: u16 = 4222;

/// NATS.
pub struct Nats {
    keys: Keys,
    has_tls: bool,
    server: SocketAddr,
    lines: AtomicU32,
    client: tokio::sync::OnceCell<Client>,
}

impl Nats {
    /// With the keys of the run, or plain; through this server.
    pub fn new(keys: &Keys, has_tls: bool, server: SocketAddr) -> Self {
        let (keys, client) = (keys.clone(), tokio::sync::OnceCell::new());
        Self { keys, has_tls, server, lines: AtomicU32::new(0), client }
    }

    async fn client(&self) -> io::Result<&Client> {
        let connect = async || {
            let mut options = ConnectOptions::new().subscription_capacity(4 << 10);
            if self.has_tls {
                options = options
                    .require_tls(true)
                    .add_root_certificates(self.keys.file("ca.pem"))
                    .add_client_certificate(self.keys.file("node.pem"), self.keys.file("node.key"));
            }
            let scheme = if self.has_tls { "tls" } else { "nats" };
            let address = format!("{scheme}://{}", self.server);
            options.connect(address).await.map_err(io::Error::other)
        };
        self.client.get_or_try_init(connect).await
    }

    /// The subject of a server.
    fn subject(at: SocketAddr) -> String {
        format!("node.{}", at.to_string().replace(['.', ':'], "-"))
    }
}

impl Engine for Nats {
    type Line = NatsLine;

    fn shape(&self) -> Shape {
        Shape::OneLoop
    }

    async fn connect(&'static self, to: SocketAddr) -> io::Result<NatsLine> {
        let client = self.client().await?.clone();
        let number = self.lines.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        let back = format!("back.{name}");
        let receive = client.subscribe(back).await.map_err(io::Error::other)?;
        let opened = client.request(Self::subject(to), name.clone().into());
        opened.await.map_err(io::Error::other)?;
        Ok(NatsLine { client, receive, to: format!("forth.{name}") })
    }

    async fn serve(&'static self, at: SocketAddr) -> io::Result<()> {
        let client = self.client().await?;
        let mut lines = client.subscribe(Self::subject(at)).await.map_err(io::Error::other)?;
        while let Some(open) = lines.next().await {
            let name = String::from_utf8_lossy(&open.payload).into_owned();
            let receive = client.subscribe(format!("forth.{name}")).await;
            let receive = receive.map_err(io::Error::other)?;
            client.flush().await.map_err(io::Error::other)?;
            let line = NatsLine { client: client.clone(), receive, to: format!("back.{name}") };
            start(self, async |_| serve_line(line).await);
            if let Some(reply) = open.reply {
                client.publish(reply, Bytes::new()).await.map_err(io::Error::other)?;
            }
        }
        Ok(())
    }
}

/// A line of two subjects.
pub struct NatsLine {
    client: Client,
    receive: Subscriber,
    to: String,
}

impl Line for NatsLine {
    async fn send(&mut self, frame: &[u8], _: bool) -> io::Result<()> {
        let frame = Bytes::copy_from_slice(frame);
        self.client.publish(self.to.clone(), frame).await.map_err(io::Error::other)
    }

    async fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<()> {
        let next = self.receive.next().await.ok_or(io::ErrorKind::UnexpectedEof)?;
        frame.clear();
        frame.extend_from_slice(&next.payload);
        Ok(())
    }

    fn has_more(&self) -> bool {
        false
    }
}
