//! The transports of `m3ipc-proxy`, each line a connection with a thread that polls.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;

use bytes::Bytes;
use m3ipc_proxy::NodeName;
use m3ipc_proxy::keys::NodeKeys;
use m3ipc_proxy::transport::plain::Plain;
use m3ipc_proxy::transport::tls::Tls;
use m3ipc_proxy::transport::{Connection, Limits, Sent, Transport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::keys::{Keys, NAME};
use crate::line::{Engine, Line, Shape, serve_line, start};

/// Either transport of the proxy.
pub struct Proxy {
    transport: Box<dyn Transport>,
    name: NodeName,
}

impl Proxy {
    /// With the keys of the run, or plain.
    pub fn new(keys: &Keys, has_tls: bool) -> io::Result<Self> {
        let name = NodeName::new(NAME).map_err(io::Error::other)?;
        let transport: Box<dyn Transport> = if has_tls {
            let keys = NodeKeys::read(&keys.0, &name).map_err(io::Error::other)?;
            Box::new(Tls::new(keys, Limits::default()).map_err(io::Error::other)?)
        } else {
            Box::new(Plain::without_security(name.clone(), Limits::default()))
        };
        Ok(Self { transport, name })
    }
}

impl Engine for Proxy {
    type Line = ProxyLine;

    fn shape(&self) -> Shape {
        Shape::Threads
    }

    async fn connect(&'static self, to: SocketAddr) -> io::Result<ProxyLine> {
        let connection = self.transport.connect(&self.name, to, Instant::now())?;
        ProxyLine::met(connection)
    }

    async fn serve(&'static self, at: SocketAddr) -> io::Result<()> {
        let mut listener = self.transport.listen(at)?;
        loop {
            let Some(connection) = listener.accept(Instant::now())? else {
                let mut events = [PollFd::new(&listener, PollFlags::IN)];
                poll(&mut events, None)?;
                continue;
            };
            start(self, async move |_| {
                if let Ok(line) = ProxyLine::met(connection) {
                    serve_line(line).await;
                }
            });
        }
    }
}

/// A connection, and the frames that came while it sent.
pub struct ProxyLine {
    connection: Box<dyn Connection>,
    came: VecDeque<Bytes>,
}

impl ProxyLine {
    /// Ends the handshake.
    fn met(connection: Box<dyn Connection>) -> io::Result<Self> {
        let mut line = Self { connection, came: VecDeque::new() };
        while line.connection.peer().is_none() {
            line.turn()?;
        }
        Ok(line)
    }

    /// Reads what has come; waits if nothing has.
    fn turn(&mut self) -> io::Result<()> {
        if self.pump()? { Ok(()) } else { self.wait() }
    }

    /// Writes and reads as much as the socket gives. Whether any frame came.
    fn pump(&mut self) -> io::Result<bool> {
        let before = self.came.len();
        while let Some(frame) = self.connection.receive(Instant::now()).map_err(io::Error::other)? {
            self.came.push_back(frame);
        }
        Ok(self.came.len() > before)
    }

    /// Waits for the socket, or for the next deadline.
    fn wait(&self) -> io::Result<()> {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, self.connection.wants_write());
        let limit =
            self.connection.deadline().map(|at| at.saturating_duration_since(Instant::now()));
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let socket = self.connection.as_fd();
        poll(&mut [PollFd::from_borrowed_fd(socket, flags)], limit.as_ref())?;
        Ok(())
    }

    fn takes(&mut self, frame: &[u8]) -> io::Result<bool> {
        let sent = self.connection.send(frame, &[], Instant::now()).map_err(io::Error::other)?;
        Ok(sent == Sent::Taken)
    }
}

impl Line for ProxyLine {
    async fn send(&mut self, frame: &[u8], flush: bool) -> io::Result<()> {
        while !self.takes(frame)? {
            // A write may have made room. A wait now would be for an event that never comes.
            self.pump()?;
            if self.takes(frame)? {
                break;
            }
            self.wait()?;
        }
        if flush {
            self.connection.flush();
        }
        Ok(())
    }

    async fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<()> {
        loop {
            if let Some(came) = self.came.pop_front() {
                frame.clear();
                frame.extend_from_slice(&came);
                return Ok(());
            }
            self.turn()?;
        }
    }

    fn has_more(&self) -> bool {
        !self.came.is_empty()
    }
}
