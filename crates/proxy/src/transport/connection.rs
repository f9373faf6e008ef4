//! The connection that all backends share: a socket, perhaps TLS, frames, and the time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use super::frames::{Decoder, Frame, FrameError, HEADER_BYTES, encode_data};
use super::{Connection, End, Limits, Reason, SendError, Sent};
use crate::NodeName;
use bytes::Bytes;

/// The bytes of one read from a socket.
pub(super) const READ_BYTES: usize = 64 << 10;
/// Frames of this many bytes are written without a call of `flush`.
const FLUSH_BYTES: usize = 64 << 10;
/// The most reads before the caller may turn to other connections.
const READS: u32 = 4;
/// Beats within the time that counts as silence.
const BEATS: u32 = 4;

/// What lies between frames and the socket.
pub(super) trait Layer: Send {
    /// Room for bytes of the socket: at least one, at most [`READ_BYTES`].
    fn room(&mut self) -> &mut [u8];

    /// Takes the bytes that the socket put into the room, and gives the decoder their meaning.
    fn open(&mut self, read: usize, output: &mut Decoder) -> Result<(), End>;

    /// Writes bytes as far as the socket takes them; the number that the layer took.
    fn seal(&mut self, bytes: &[u8], socket: &mut TcpStream) -> io::Result<usize>;

    /// The bytes that the layer seals at once, where more of them follow soon. Fewer make a record
    /// that is not full.
    fn unit(&self) -> usize;

    /// Whether bytes of the layer itself wait for the socket.
    fn holds_output(&self) -> bool;

    /// The peer's name, once the layer has proven it.
    fn proven(&mut self) -> Result<Option<NodeName>, End>;

    /// Whether frames may name the peer, since the layer does not.
    fn trusts_names(&self) -> bool;

    /// Gives back the memory of a connection that has ended. No other function follows.
    fn release(&mut self);
}

/// A connection over TCP.
pub(super) struct Wire<L> {
    socket: TcpStream,
    layer: L,
    limits: Limits,
    expected: Option<NodeName>,
    peer: Option<NodeName>,
    decoder: Decoder,
    /// Frames for the layer, from `written` on.
    output: Vec<u8>,
    written: usize,
    opened: Instant,
    heard: Instant,
    sent: Instant,
    /// Since when the first bytes of an unfinished frame wait.
    unfinished: Option<Instant>,
    /// Found while frames before it still waited for the caller.
    end: Option<End>,
    /// The socket takes no more bytes. What it has received is read first.
    write_end: Option<End>,
}

impl<L: Layer> Wire<L> {
    pub(super) fn new(
        socket: TcpStream,
        layer: L,
        limits: Limits,
        expected: Option<NodeName>,
        now: Instant,
    ) -> Self {
        Self {
            socket,
            layer,
            limits,
            expected,
            peer: None,
            decoder: Decoder::new(limits.frame_bytes),
            output: Vec::new(),
            written: 0,
            opened: now,
            heard: now,
            sent: now,
            unfinished: None,
            end: None,
            write_end: None,
        }
    }

    /// Puts a frame into the output even before the peer is known.
    pub(super) fn greet(&mut self, frame: &Frame<&[u8]>) {
        frame.encode(&mut self.output);
    }

    fn waiting_bytes(&self) -> usize {
        self.output.len() - self.written
    }

    /// Writes as much as the socket takes, while so many bytes wait at least.
    fn flush_units(&mut self, unit: usize) -> Result<(), End> {
        while self.waiting_bytes() >= unit || self.layer.holds_output() {
            match self.layer.seal(&self.output[self.written..], &mut self.socket) {
                Ok(0) => break,
                Ok(bytes) => self.written += bytes,
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(End::Lost(error.kind())),
            }
        }
        if self.waiting_bytes() == 0 {
            self.output.clear();
            self.written = 0;
        } else if self.written > READ_BYTES {
            self.output.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }

    /// Writes as much as the socket takes.
    fn flush(&mut self) -> Result<(), End> {
        self.flush_units(1)
    }

    /// The peer may have said why it ends: `step` reads all that the socket has before this end.
    fn flush_or_keep_end(&mut self, unit: usize) {
        if self.write_end.is_none() {
            self.write_end = self.flush_units(unit).err();
        }
    }

    /// One read; true if bytes came.
    fn read(&mut self, now: Instant) -> Result<bool, End> {
        let read = match self.socket.read(self.layer.room()) {
            Ok(0) => return Err(End::Lost(ErrorKind::UnexpectedEof)),
            Ok(read) => read,
            Err(error) if is_later(&error) => return Ok(false),
            Err(error) => return Err(End::Lost(error.kind())),
        };
        self.heard = now;
        let opened = self.layer.open(read, &mut self.decoder);
        if opened.is_err() {
            // The layer may hold an alert that tells the peer why.
            let _ = self.flush();
        }
        opened?;
        if self.peer.is_none()
            && let Some(name) = self.layer.proven()?
        {
            self.meet(name)?;
        }
        Ok(true)
    }

    fn meet(&mut self, found: NodeName) -> Result<(), End> {
        match self.expected.take() {
            Some(expected) if expected != found => Err(End::WrongName { expected, found }),
            _ => {
                self.peer = Some(found);
                Ok(())
            }
        }
    }

    /// Decodes until data comes.
    fn decode(&mut self) -> Result<Option<Bytes>, End> {
        loop {
            let name = match self.decoder.next_frame()? {
                None => return Ok(None),
                Some(Frame::Beat) => {
                    self.unfinished = None;
                    continue;
                }
                Some(Frame::Close(reason)) => return Err(End::Closed(reason)),
                Some(Frame::Name(_)) if !self.layer.trusts_names() || self.peer.is_some() => {
                    return Err(FrameError::Name.into());
                }
                Some(Frame::Name(name)) => std::str::from_utf8(&name).map(NodeName::new),
                Some(Frame::Data(_)) if self.peer.is_none() => return Err(FrameError::Early.into()),
                Some(Frame::Data(data)) => {
                    // The next frame has its own time.
                    self.unfinished = None;
                    return Ok(Some(data));
                }
            };
            let Ok(Ok(name)) = name else { return Err(End::NoName) };
            self.meet(name)?;
        }
    }

    /// The limit that has passed, if one has; sends a beat if one is due.
    fn check_time(&mut self, now: Instant) -> Result<(), End> {
        let Limits { handshake, frame, silence, .. } = self.limits;
        self.unfinished = match (self.decoder.pending_bytes(), self.unfinished) {
            (0, _) => None,
            (_, since) => since.or(Some(now)),
        };
        let has_passed = |since: Instant, limit| now.saturating_duration_since(since) >= limit;
        if self.peer.is_none() {
            let what = "handshake";
            let is_late = has_passed(self.opened, handshake);
            return if is_late { Err(End::TooSlow { what, limit: handshake }) } else { Ok(()) };
        }
        if has_passed(self.heard, silence) {
            return Err(End::Silent(silence));
        }
        if self.unfinished.is_some_and(|since| has_passed(since, frame)) {
            return Err(End::TooSlow { what: "frame", limit: frame });
        }
        if has_passed(self.sent, silence / BEATS) {
            self.sent = now;
            // A peer that reads nothing needs no second beat.
            if self.waiting_bytes() == 0 {
                Frame::<&[u8]>::Beat.encode(&mut self.output);
            }
        }
        Ok(())
    }

    fn deadline(&self) -> Instant {
        let Limits { handshake, frame, silence, .. } = self.limits;
        if self.peer.is_none() {
            return self.opened + handshake;
        }
        let next = (self.heard + silence).min(self.sent + silence / BEATS);
        self.unfinished.map_or(next, |since| next.min(since + frame))
    }

    /// Gives back the memory of a connection that has ended.
    fn release(&mut self) {
        (self.output, self.written) = (Vec::new(), 0);
        self.layer.release();
        self.decoder = Decoder::new(self.limits.frame_bytes);
    }

    fn step(&mut self, now: Instant) -> Result<Option<Bytes>, End> {
        // A peer that floods this side with beats must not hold up other peers.
        for _ in 0..READS {
            if let Some(frame) = self.decode()? {
                return Ok(Some(frame));
            }
            if let Some(end) = self.end.take() {
                return Err(end);
            }
            match self.read(now) {
                Ok(true) => {}
                Ok(false) => match self.write_end.take() {
                    Some(end) => return Err(end),
                    None => break,
                },
                // Frames that came before the end go first.
                Err(end) => self.end = Some(end),
            }
        }
        if let Some(frame) = self.decode()? {
            return Ok(Some(frame));
        }
        if let Some(end) = self.end.take() {
            return Err(end);
        }
        self.check_time(now)?;
        if self.write_end.is_some() {
            return Ok(None);
        }
        self.flush_or_keep_end(1);
        match self.write_end {
            Some(_) => self.step(now),
            None => Ok(None),
        }
    }
}

/// A connection that keeps its first end.
///
/// The socket stays until the drop, so that `poll` never sees another file under its number.
pub(super) struct Guarded<L> {
    wire: Wire<L>,
    ended: Option<End>,
}

impl<L: Layer> Guarded<L> {
    pub(super) fn new(wire: Wire<L>) -> Self {
        Self { wire, ended: None }
    }

    fn open(&mut self) -> Result<&mut Wire<L>, End> {
        self.ended.clone().map_or(Ok(&mut self.wire), Err)
    }

    /// Keeps the end and gives the memory back.
    fn finish(&mut self, end: End) -> End {
        self.wire.release();
        self.ended = Some(end.clone());
        end
    }
}

impl<L> AsFd for Guarded<L> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.socket.as_fd()
    }
}

impl<L: Layer> Connection for Guarded<L> {
    fn peer(&self) -> Option<&NodeName> {
        self.wire.peer.as_ref()
    }

    fn send(&mut self, head: &[u8], body: &[u8], now: Instant) -> Result<Sent, SendError> {
        let wire = self.open()?;
        let (bytes, limit) = (head.len() + body.len(), wire.limits.frame_bytes);
        if bytes > limit {
            return Err(SendError::TooLarge { bytes, limit });
        }
        let waiting = wire.waiting_bytes();
        let fits = waiting + HEADER_BYTES + bytes <= wire.limits.output_bytes || waiting == 0;
        if wire.peer.is_none() || !fits {
            return Ok(Sent::Full);
        }
        encode_data(head, body, &mut wire.output);
        wire.sent = now;
        if wire.waiting_bytes() >= FLUSH_BYTES {
            // `flush` follows in this turn, and takes the rest.
            wire.flush_or_keep_end(wire.layer.unit());
        }
        Ok(Sent::Taken)
    }

    fn flush(&mut self) {
        if self.ended.is_none() {
            self.wire.flush_or_keep_end(1);
        }
    }

    fn receive(&mut self, now: Instant) -> Result<Option<Bytes>, End> {
        match self.open()?.step(now) {
            Ok(frame) => Ok(frame),
            Err(end) => {
                // The peer learns at once, also while the caller keeps this connection.
                let _ = self.wire.socket.shutdown(Shutdown::Both);
                Err(self.finish(end))
            }
        }
    }

    fn wants_write(&self) -> bool {
        self.ended.is_none() && (self.wire.waiting_bytes() > 0 || self.wire.layer.holds_output())
    }

    fn deadline(&self) -> Option<Instant> {
        self.ended.is_none().then(|| self.wire.deadline())
    }

    fn close(&mut self, reason: Reason) {
        if self.ended.is_some() {
            return;
        }
        Frame::<&[u8]>::Close(reason).encode(&mut self.wire.output);
        // A peer that reads nothing hears of the end by the closed socket.
        let _ = self.wire.flush();
        // Not both directions: unread bytes of the peer would turn the reason into a reset.
        let _ = self.wire.socket.shutdown(Shutdown::Write);
        self.finish(End::ClosedHere(reason));
    }
}

/// Whether the operation is to be repeated after an event.
pub(super) fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// Writes to a socket that may still be connecting.
pub(super) fn write(socket: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match socket.write(bytes) {
        // A socket that connects has no peer yet.
        Err(error) if error.kind() == ErrorKind::NotConnected => Err(ErrorKind::WouldBlock.into()),
        done => done,
    }
}

/// A socket that begins to connect.
pub(crate) fn connect_to(at: SocketAddr) -> io::Result<TcpStream> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match connect(&socket, &at) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket.into()),
        Err(error) => Err(error.into()),
    }
}

/// The next connection of a listening socket.
pub(super) fn accept_from(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((socket, _)) => {
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            Ok(Some(socket))
        }
        Err(error) if is_later(&error) || error.kind() == ErrorKind::ConnectionAborted => Ok(None),
        Err(error) => Err(error),
    }
}
