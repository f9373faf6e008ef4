//! Frames over TLS 1.3 by rustls: each side shows a certificate of the cluster's CA.
//!
//! The only DNS name in a certificate is the name of its node. The side that connects expects a
//! name. The side that accepts learns it, and the layers above decide whether that node may talk.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, Connection as Session, ServerConfig,
    ServerConnection,
};

use super::connection::{Guarded, Layer, Wire, accept_from, connect_to, write};
use super::frames::Decoder;
use super::{Connection, End, Limits, Listener, Transport};
use crate::NodeName;
use crate::keys::NodeKeys;

/// TLS over TCP.
#[derive(Clone, Debug)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    limits: Limits,
}

impl Tls {
    /// A transport with these keys.
    ///
    /// # Errors
    /// The keys do not belong together.
    pub fn new(keys: NodeKeys, limits: Limits) -> Result<Self, rustls::Error> {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        // AES-128 costs less than AES-256, and its strength is enough here.
        let is_second = |suite: CipherSuite| suite != CipherSuite::TLS13_AES_128_GCM_SHA256;
        provider.cipher_suites.sort_by_key(|suite| is_second(suite.suite()));
        let provider = Arc::new(provider);
        let versions = [&rustls::version::TLS13];
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)?
            .with_root_certificates(keys.roots.clone())
            .with_client_auth_cert(keys.chain.clone(), keys.key.clone_key())?;
        // Each connection is a new proof: a resumed one would outlive a withdrawn certificate.
        client.resumption = rustls::client::Resumption::disabled();
        let roots = Arc::new(keys.roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
        let verifier =
            verifier.build().map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(keys.chain, keys.key)?;
        server.send_tls13_tickets = 0;
        Ok(Self { client: Arc::new(client), server: Arc::new(server), limits })
    }

    fn wire(
        &self,
        socket: TcpStream,
        session: Session,
        expected: Option<NodeName>,
        now: Instant,
    ) -> Box<dyn Connection> {
        let layer = Sealed { session };
        Box::new(Guarded::new(Wire::new(socket, layer, self.limits, expected, now)))
    }
}

impl Transport for Tls {
    fn connect(
        &self,
        node: &NodeName,
        at: SocketAddr,
        now: Instant,
    ) -> io::Result<Box<dyn Connection>> {
        let name = ServerName::try_from(node.as_str().to_owned()).map_err(io::Error::other)?;
        let session = ClientConnection::new(self.client.clone(), name).map_err(io::Error::other)?;
        Ok(self.wire(connect_to(at)?, session.into(), Some(node.clone()), now))
    }

    fn listen(&self, at: SocketAddr) -> io::Result<Box<dyn Listener>> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        Ok(Box::new(TlsListener { tls: self.clone(), listener }))
    }
}

struct TlsListener {
    tls: Tls,
    listener: TcpListener,
}

impl AsFd for TlsListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Listener for TlsListener {
    fn accept(&mut self, now: Instant) -> io::Result<Option<Box<dyn Connection>>> {
        let Some(socket) = accept_from(&self.listener)? else { return Ok(None) };
        let session = ServerConnection::new(self.tls.server.clone()).map_err(io::Error::other)?;
        Ok(Some(self.tls.wire(socket, session.into(), None, now)))
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A TLS session. Its own buffers are bounded by rustls: 64 KB of output, a record of input.
struct Sealed {
    session: Session,
}

impl Layer for Sealed {
    fn open(&mut self, bytes: &mut &[u8], output: &mut Decoder) -> Result<(), End> {
        let mut plain = [0; 16 << 10];
        while !bytes.is_empty() {
            let read = self.session.read_tls(bytes).map_err(|error| End::Lost(error.kind()))?;
            if read == 0 {
                // rustls consumes nothing after the peer's close_notify.
                return Err(End::Lost(io::ErrorKind::UnexpectedEof));
            }
            let state = self.session.process_new_packets();
            state.map_err(|error| End::Tls(error.to_string()))?;
            loop {
                match self.session.reader().read(&mut plain) {
                    // An end without a reason; the socket tells it too.
                    Ok(0) => break,
                    Ok(read) => output.take(&plain[..read]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(End::Lost(error.kind())),
                }
            }
        }
        Ok(())
    }

    fn seal(&mut self, bytes: &[u8], socket: &mut TcpStream) -> io::Result<usize> {
        // Plain bytes enter the session only after the handshake, so that its buffer stays small.
        let taken = if self.session.is_handshaking() || bytes.is_empty() {
            0
        } else {
            self.session.writer().write(bytes)?
        };
        while self.session.wants_write() {
            match self.session.write_tls(&mut Connecting(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    fn holds_output(&self) -> bool {
        self.session.wants_write()
    }

    fn proven(&mut self) -> Result<Option<NodeName>, End> {
        if self.session.is_handshaking() {
            return Ok(None);
        }
        let certificate = self.session.peer_certificates().and_then(<[_]>::first);
        let certificate = certificate.ok_or(End::NoName)?;
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
}

/// A socket that may still be connecting.
struct Connecting<'a>(&'a mut TcpStream);

impl Write for Connecting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(self.0, bytes)
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match self.0.write_vectored(parts) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            done => done,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    fn output_of(session: &mut Session) -> Vec<u8> {
        let mut bytes = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut bytes).expect("a vector takes all bytes");
        }
        bytes
    }

    #[test]
    fn bytes_after_the_end_of_a_session_end_the_connection() {
        let directory =
            std::env::temp_dir().join(format!("m3-proxy-{}-after-end", std::process::id()));
        let node = |name: &str| NodeName::new(name).expect("a test uses valid names");
        keys::make(&directory, &[node("a"), node("b")]).expect("keys can be made");
        let tls = |name: &str| {
            let keys = NodeKeys::read(&directory, &node(name)).expect("the keys exist");
            Tls::new(keys, Limits::default()).expect("the keys belong together")
        };
        let (a, b) = (tls("a"), tls("b"));
        let _ = std::fs::remove_dir_all(&directory);
        let name = ServerName::try_from("b").expect("it is a DNS name");
        let client = ClientConnection::new(a.client, name).expect("the configuration is valid");
        let mut client = Session::from(client);
        let server = ServerConnection::new(b.server).expect("the configuration is valid");
        let mut server = Sealed { session: server.into() };
        let mut decoder = Decoder::new(1 << 10);
        while client.is_handshaking() || server.session.is_handshaking() {
            let bytes = output_of(&mut client);
            assert_eq!(server.open(&mut &bytes[..], &mut decoder), Ok(()));
            let bytes = output_of(&mut server.session);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                client.read_tls(&mut rest).expect("the session is open");
                client.process_new_packets().expect("the server is honest");
            }
        }
        client.send_close_notify();
        let bytes = output_of(&mut client);
        assert_eq!(server.open(&mut &bytes[..], &mut decoder), Ok(()));
        let end = server.open(&mut &b"more"[..], &mut decoder);
        assert_eq!(end, Err(End::Lost(io::ErrorKind::UnexpectedEof)));
    }
}
