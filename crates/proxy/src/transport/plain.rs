//! Frames over bare TCP: each side claims its name, and nothing proves it.
//!
//! For tests, and for networks that somebody else protects. A user must ask for it by name.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use super::connection::{Guarded, Layer, READ_BYTES, Wire, accept_from, connect_to, write};
use super::frames::{Decoder, Frame};
use super::{Connection, End, Limits, Listener, Transport};
use crate::NodeName;

/// Bare TCP.
#[derive(Clone, Debug)]
pub struct Plain {
    own: NodeName,
    limits: Limits,
}

impl Plain {
    /// A transport whose peers are believed whatever name they claim.
    #[must_use]
    pub fn without_security(own: NodeName, limits: Limits) -> Self {
        Self { own, limits }
    }

    fn wire(
        &self,
        socket: TcpStream,
        expected: Option<NodeName>,
        now: Instant,
    ) -> Box<dyn Connection> {
        let mut wire = Wire::new(socket, Bare(vec![0; READ_BYTES]), self.limits, expected, now);
        wire.greet(&Frame::Name(self.own.as_str().as_bytes()));
        Box::new(Guarded::new(wire))
    }
}

impl Transport for Plain {
    fn connect(
        &self,
        node: &NodeName,
        at: SocketAddr,
        now: Instant,
    ) -> io::Result<Box<dyn Connection>> {
        Ok(self.wire(connect_to(at)?, Some(node.clone()), now))
    }

    fn listen(&self, at: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        Ok(Box::new(PlainListener { plain: self.clone(), listener }))
    }
}

struct PlainListener {
    plain: Plain,
    listener: TcpListener,
}

impl AsFd for PlainListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Listener for PlainListener {
    fn accept(&mut self, now: Instant) -> io::Result<Option<Box<dyn Connection>>> {
        Ok(accept_from(&self.listener)?.map(|socket| self.plain.wire(socket, None, now)))
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// No layer at all. The bytes of one read lie here.
struct Bare(Vec<u8>);

impl Layer for Bare {
    fn room(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn open(&mut self, read: usize, output: &mut Decoder) -> Result<(), End> {
        output.take(self.0.get(..read).unwrap_or(&self.0));
        Ok(())
    }

    fn seal(&mut self, bytes: &[u8], socket: &mut TcpStream) -> io::Result<usize> {
        write(socket, bytes)
    }

    fn unit(&self) -> usize {
        1
    }

    fn holds_output(&self) -> bool {
        false
    }

    fn proven(&mut self) -> Result<Option<NodeName>, End> {
        Ok(None)
    }

    fn trusts_names(&self) -> bool {
        true
    }

    fn release(&mut self) {
        self.0 = Vec::new();
    }
}
