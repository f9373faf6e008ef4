//! A TLS session between frames and the socket, on rustls' interface without buffers.
//!
//! Records are opened where the socket put them, and sealed where it takes them from. The interface
//! with buffers opens them at less than half of that rate.

use std::io::{self, ErrorKind};
use std::net::TcpStream;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CommonState, Error};

use super::End;
use super::connection::{Layer, READ_BYTES, is_later, write};
use super::frames::Decoder;
use crate::NodeName;

/// Room for bytes of the peer: one read, and the most that may wait for the rest of a record.
const INPUT_BYTES: usize = READ_BYTES + (32 << 10);
/// The most bytes of frames that are sealed at once.
const SEAL_BYTES: usize = 64 << 10;
/// Room for the records of so many bytes, and for messages of the session itself.
const RECORDS_BYTES: usize = SEAL_BYTES + (1 << 10);
/// The most records that a session writes of its own until the socket has taken some.
const OWN_RECORDS_BYTES: usize = 256 << 10;

/// The side of a session.
pub(super) enum Side {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

impl Side {
    fn state(&self) -> &CommonState {
        match self {
            Self::Client(client) => client,
            Self::Server(server) => server,
        }
    }
}

/// A session.
pub(super) struct Session {
    side: Side,
    /// Bytes of the peer that no record has used yet, from `opened` to `filled`.
    input: Vec<u8>,
    opened: usize,
    filled: usize,
    records: Records,
    /// The peer has ended the session. Nothing may follow.
    peer_has_closed: bool,
}

/// What a step of a session leads to.
enum Next {
    /// Another step.
    Step,
    /// The peer's bytes.
    Read,
    /// It has ended, by this error.
    Failed(Error),
    /// The other side ended it in order.
    Closed,
}

impl Session {
    /// A session, which writes its first records where it is the client.
    ///
    /// # Errors
    /// `End::Tls`: rustls could not make them.
    pub(super) fn new(side: Side) -> Result<Self, End> {
        let input = vec![0; INPUT_BYTES];
        let records = Records::default();
        let mut new = Self { side, input, opened: 0, filled: 0, records, peer_has_closed: false };
        new.advance(None, &[])?;
        Ok(new)
    }

    /// The certificate of the peer, once the handshake is over.
    pub(super) fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.side.state().peer_certificates().and_then(<[_]>::first)
    }

    fn is_handshaking(&self) -> bool {
        self.side.state().is_handshaking()
    }

    /// Opens records until more bytes of the peer are needed, and seals bytes of frames. The number
    /// of sealed bytes.
    fn advance(&mut self, mut output: Option<&mut Decoder>, frames: &[u8]) -> Result<usize, End> {
        let mut sealed = 0;
        loop {
            match self.step(output.as_deref_mut(), frames, &mut sealed) {
                Ok(Next::Step) if self.records.len() > OWN_RECORDS_BYTES => {
                    return Err(End::Tls("the peer makes this side answer too much".into()));
                }
                Ok(Next::Step) => {}
                Ok(Next::Read) => return Ok(sealed),
                Ok(Next::Closed) => {
                    self.peer_has_closed = true;
                    return Ok(sealed);
                }
                Ok(Next::Failed(error)) => {
                    // The session's last record tells the peer why.
                    let _ = self.step(None, &[], &mut 0);
                    return Err(End::Tls(reason(&error)));
                }
                Err(error) => return Err(End::Tls(error)),
            }
        }
    }

    /// One state of the session. The bytes of frames that it sealed are added to `sealed`.
    fn step(
        &mut self,
        output: Option<&mut Decoder>,
        frames: &[u8],
        sealed: &mut usize,
    ) -> Result<Next, String> {
        let input = self.input.get_mut(self.opened..self.filled).unwrap_or_default();
        let records = &mut self.records;
        let (discard, next) = match &mut self.side {
            Side::Client(client) => {
                carry_out(client.process_tls_records(input), records, output, frames, sealed)
            }
            Side::Server(server) => {
                carry_out(server.process_tls_records(input), records, output, frames, sealed)
            }
        };
        self.opened = (self.opened + discard).min(self.filled);
        next
    }

    fn push(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        while !self.records.waiting().is_empty() {
            let written = write(socket, self.records.waiting())?;
            self.records.written(written);
        }
        Ok(())
    }
}

/// Why a session failed, and what to do: an end of a certificate, and whose, has words of its own.
fn reason(error: &Error) -> String {
    use rustls::{AlertDescription, CertificateError};
    const RENEW: &str = "put a new one in its place there, and send SIGHUP to that proxy";
    match error {
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => format!("the certificate of the other node has ended ({error}); {RENEW}"),
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => {
            format!("the certificate of the other node is not valid yet ({error}); set the clocks")
        }
        Error::AlertReceived(AlertDescription::CertificateExpired) => {
            "the other node says that the certificate of this node has ended, or its clock is \
             wrong; put a new one in place here, and send SIGHUP to this proxy"
                .to_owned()
        }
        other => format!("{other}; check that both nodes have certificates of the same CA"),
    }
}

/// Carries a state of the session out. The number of bytes of input that it has used.
fn carry_out<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    records: &mut Records,
    output: Option<&mut Decoder>,
    frames: &[u8],
    sealed: &mut usize,
) -> (usize, Result<Next, String>) {
    let mut discard = status.discard;
    let state = match status.state {
        Ok(state) => state,
        Err(error) => return (discard, Ok(Next::Failed(error))),
    };
    let next = match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            // Only `open` gives the session bytes that make a record whole.
            let Some(output) = output else { return (discard, Err("a record came early".into())) };
            loop {
                match traffic.next_record() {
                    None => break Ok(Next::Step),
                    Some(Ok(record)) => {
                        output.take(record.payload);
                        discard += record.discard;
                    }
                    Some(Err(error)) => break Ok(Next::Failed(error)),
                }
            }
        }
        ConnectionState::EncodeTlsData(mut data) => records.add(|room| match data.encode(room) {
            Ok(bytes) => Ok(bytes),
            Err(EncodeError::InsufficientSize(size)) => Err(Some(size.required_size)),
            Err(EncodeError::AlreadyEncoded) => Err(None),
        }),
        // The records go to the socket in their order.
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Ok(Next::Step)
        }
        ConnectionState::WriteTraffic(mut traffic) if *sealed < frames.len() => {
            let rest = frames.get(*sealed..).unwrap_or_default();
            *sealed = frames.len();
            records.add(|room| match traffic.encrypt(rest, room) {
                Ok(bytes) => Ok(bytes),
                Err(EncryptError::InsufficientSize(size)) => Err(Some(size.required_size)),
                Err(EncryptError::EncryptExhausted) => Err(None),
            })
        }
        ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake => Ok(Next::Read),
        ConnectionState::PeerClosed | ConnectionState::Closed => Ok(Next::Closed),
        other => Err(format!("rustls is in the unknown state {other:?}")),
    };
    (discard, next)
}

impl Layer for Session {
    fn room(&mut self) -> &mut [u8] {
        if self.opened > 0 {
            self.input.copy_within(self.opened..self.filled, 0);
            self.filled -= self.opened;
            self.opened = 0;
        }
        let end = self.input.len().min(self.filled + READ_BYTES);
        self.input.get_mut(self.filled..end).unwrap_or_default()
    }

    fn open(&mut self, read: usize, output: &mut Decoder) -> Result<(), End> {
        if self.peer_has_closed {
            return Err(End::Lost(ErrorKind::UnexpectedEof));
        }
        self.filled = (self.filled + read).min(self.input.len());
        self.advance(Some(output), &[])?;
        if self.filled - self.opened == self.input.len() {
            return Err(End::Tls(format!("the peer's message exceeds {INPUT_BYTES} bytes")));
        }
        Ok(())
    }

    fn seal(&mut self, bytes: &[u8], socket: &mut TcpStream) -> io::Result<usize> {
        self.push(socket)?;
        // Nobody reads frames before the peer is proven.
        if bytes.is_empty() || self.is_handshaking() {
            return Ok(0);
        }
        let bytes = bytes.get(..SEAL_BYTES).unwrap_or(bytes);
        let sealed = self.advance(None, bytes).map_err(|end| io::Error::other(end.to_string()))?;
        match self.push(socket) {
            Err(error) if !is_later(&error) => Err(error),
            _ => Ok(sealed),
        }
    }

    fn unit(&self) -> usize {
        SEAL_BYTES
    }

    fn holds_output(&self) -> bool {
        !self.records.waiting().is_empty()
    }

    fn proven(&mut self) -> Result<Option<NodeName>, End> {
        if self.is_handshaking() {
            return Ok(None);
        }
        let certificate = self.peer_certificate().ok_or(End::NoName)?;
        let parsed = webpki::EndEntityCert::try_from(certificate).map_err(|_| End::NoName)?;
        let mut names = parsed.valid_dns_names();
        match (names.next(), names.next()) {
            (Some(name), None) => NodeName::new(name).map(Some).map_err(|_| End::NoName),
            _ => Err(End::NoName),
        }
    }

    fn trusts_names(&self) -> bool {
        false
    }

    fn release(&mut self) {
        (self.input, self.opened, self.filled) = (Vec::new(), 0, 0);
        self.records = Records::default();
    }
}

/// Records that wait for the socket, from `start` to `end`. The bytes behind them are room.
#[derive(Default)]
struct Records {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Records {
    fn len(&self) -> usize {
        self.end - self.start
    }

    fn waiting(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    fn written(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Has records written into room behind the others. The writer tells their bytes, or how much
    /// room it needs; nothing if it can write none.
    fn add(
        &mut self,
        mut writer: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
    ) -> Result<Next, String> {
        let mut needed = 0;
        for _ in 0..2 {
            if self.bytes.len() < self.end + needed {
                self.bytes.resize(self.end + needed, 0);
            }
            match writer(self.bytes.get_mut(self.end..).unwrap_or_default()) {
                Ok(bytes) => {
                    self.end = (self.end + bytes).min(self.bytes.len());
                    return Ok(Next::Step);
                }
                Err(Some(required)) => needed = required.max(RECORDS_BYTES),
                Err(None) => break,
            }
        }
        Err("the session can seal no more records".into())
    }
}

#[cfg(test)]
mod tests;
