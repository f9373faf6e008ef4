//! Frames over TLS 1.3 by rustls: each side shows a certificate of the cluster's CA.
//!
//! The only DNS name in a certificate is the name of its node. The side that connects expects a
//! name. The side that accepts learns it, and the layers above decide whether that node may talk.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::{UnbufferedServerConnection, WebPkiClientVerifier};
use rustls::{CipherSuite, ClientConfig, ServerConfig};

use super::connection::{Guarded, Wire, accept_from, connect_to};
use super::session::{Session, Side};
use super::{Connection, Limits, Listener, Transport};
use crate::NodeName;
use crate::keys::NodeKeys;

/// TLS over TCP.
#[derive(Clone, Debug)]
pub struct Tls {
    /// All clones have the same keys, which may be replaced.
    sides: Arc<RwLock<Sides>>,
    limits: Limits,
}

/// The keys in force, as each side of a session takes them.
#[derive(Clone, Debug)]
pub(super) struct Sides {
    pub(super) client: Arc<ClientConfig>,
    pub(super) server: Arc<ServerConfig>,
}

impl Tls {
    /// A transport with these keys.
    ///
    /// # Errors
    /// The keys do not belong together.
    pub fn new(keys: NodeKeys, limits: Limits) -> Result<Self, rustls::Error> {
        Ok(Self { sides: Arc::new(RwLock::new(Sides::new(keys)?)), limits })
    }

    /// Puts other keys in force, for later connections of this transport and of its clones.
    ///
    /// # Errors
    /// The keys do not belong together; the former ones stay.
    pub fn replace(&self, keys: NodeKeys) -> Result<(), rustls::Error> {
        let sides = Sides::new(keys)?;
        *self.sides.write().unwrap_or_else(PoisonError::into_inner) = sides;
        Ok(())
    }

    pub(super) fn sides(&self) -> Sides {
        self.sides.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn wire(
        &self,
        socket: TcpStream,
        side: Side,
        expected: Option<NodeName>,
        now: Instant,
    ) -> io::Result<Box<dyn Connection>> {
        let session = Session::new(side).map_err(io::Error::other)?;
        Ok(Box::new(Guarded::new(Wire::new(socket, session, self.limits, expected, now))))
    }
}

impl Sides {
    fn new(keys: NodeKeys) -> Result<Self, rustls::Error> {
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
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
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
        let client = UnbufferedClientConnection::new(self.sides().client, name);
        let side = Side::Client(client.map_err(io::Error::other)?);
        self.wire(connect_to(at)?, side, Some(node.clone()), now)
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
        let server = UnbufferedServerConnection::new(self.tls.sides().server);
        let side = Side::Server(server.map_err(io::Error::other)?);
        self.tls.wire(socket, side, None, now).map(Some)
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
