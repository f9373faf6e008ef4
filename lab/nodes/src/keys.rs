//! A CA and one certificate of a run; every process of the run reads them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{CipherSuite, ClientConfig, RootCertStore, ServerConfig};

/// The name in the certificate.
pub const NAME: &str = "node";

/// The directory of the keys of this run.
#[derive(Clone, Debug)]
pub struct Keys(pub PathBuf);

impl Keys {
    /// Makes the CA and the certificate.
    pub fn make(directory: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let ca_key = rcgen::KeyPair::generate()?;
        let mut ca = rcgen::CertificateParams::new(vec![])?;
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_certificate = ca.self_signed(&ca_key)?;
        let issuer = rcgen::Issuer::new(ca, ca_key);
        let key = rcgen::KeyPair::generate()?;
        // NATS checks the address of its server.
        let names = [NAME, "10.91.1.1", "10.91.2.1", "127.0.0.1"].map(String::from);
        let node = rcgen::CertificateParams::new(names)?.signed_by(&key, &issuer)?;
        std::fs::create_dir_all(directory)?;
        let names = ["alpha", "beta", "gamma"].map(m3ipc_proxy::NodeName::new);
        let names: Vec<_> = names.into_iter().collect::<Result<_, _>>()?;
        m3ipc_proxy::keys::make(&directory.join("nodes"), &names)?;
        let keys = Self(directory.into());
        std::fs::write(keys.file("ca.pem"), ca_certificate.pem())?;
        std::fs::write(keys.file("node.pem"), node.pem())?;
        std::fs::write(keys.file("node.key"), key.serialize_pem())?;
        Ok(keys)
    }

    /// The path of a file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The name that a client expects.
    pub fn name() -> ServerName<'static> {
        ServerName::try_from(NAME).expect("a constant that is a DNS name")
    }

    /// The client's configuration: TLS 1.3 with a certificate of its own.
    pub fn client(&self, provider: CryptoProvider) -> io::Result<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(Arc::new(preferring_aes_128(provider)))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .with_root_certificates(self.roots()?);
        builder.with_client_auth_cert(self.chain()?, self.key()?).map_err(io::Error::other)
    }

    /// The server's configuration: TLS 1.3, and every client shows a certificate.
    pub fn server(&self, provider: CryptoProvider) -> io::Result<ServerConfig> {
        let provider = Arc::new(preferring_aes_128(provider));
        let roots = Arc::new(self.roots()?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .map_err(io::Error::other)?;
        ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain()?, self.key()?)
            .map_err(io::Error::other)
    }

    fn roots(&self) -> io::Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(self.file("ca.pem")).map_err(io::Error::other)?;
        roots.add(ca).map_err(io::Error::other)?;
        Ok(roots)
    }

    fn chain(&self) -> io::Result<Vec<CertificateDer<'static>>> {
        let node = CertificateDer::from_pem_file(self.file("node.pem"));
        Ok(vec![node.map_err(io::Error::other)?])
    }

    fn key(&self) -> io::Result<PrivateKeyDer<'static>> {
        PrivateKeyDer::from_pem_file(self.file("node.key")).map_err(io::Error::other)
    }
}

fn preferring_aes_128(mut provider: CryptoProvider) -> CryptoProvider {
    let is_second = |suite: CipherSuite| suite != CipherSuite::TLS13_AES_128_GCM_SHA256;
    provider.cipher_suites.sort_by_key(|suite| is_second(suite.suite()));
    provider
}
