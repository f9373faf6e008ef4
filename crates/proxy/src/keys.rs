//! The keys of a node: made by `m3-proxy keys`, read by a proxy.
//!
//! ```text
//! ca.pem         the CA's certificate: every node has it
//! ca.key         the CA's key: whoever has it can be any node, so keep it off the nodes
//! NODE.pem       the certificate of the node: its only DNS name is the name of the node
//! NODE.key       the key of the node, mode 0600
//! ```
//! Limits: `make` adds nodes to a CA of its own making only. No list of withdrawn certificates is
//! read; a withdrawn node is one that the registry no longer lists.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::NodeName;
use crate::status::CertificateEnd;

mod validity;

const CA: &str = "ca";

/// Keys cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file holds no key or certificate.
    #[error("{path} holds no usable PEM: {cause}; move it away, and make keys again")]
    Content {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: String,
    },
    /// A file that would be replaced.
    #[error("{0} is there already; move it away, or name another directory with --dir")]
    Exists(PathBuf),
    /// Two nodes with one name.
    #[error("the node {0} is named twice; give each node a name of its own")]
    Twice(NodeName),
    /// One of the two files of the CA.
    #[error(
        "{is} is there, and {lacks} is not; bring it here, or name another directory with --dir"
    )]
    HalfCa {
        /// The file that is there.
        is: PathBuf,
        /// The file that is missing.
        lacks: PathBuf,
    },
    /// Every user of the machine can read or replace the key.
    #[error(
        "{path} has mode {mode:03o}, so every user of this machine has the key; run `chmod 600` on \
         it, and make new keys if others may have read it"
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A name that files of the CA have.
    #[error("no node can be called {CA}: the files of the CA have that name")]
    Taken,
    /// The making failed.
    #[error("cannot make keys: {0}")]
    Make(#[from] rcgen::Error),
}

/// The keys of one node.
#[derive(Debug)]
pub struct NodeKeys {
    /// The CA that every peer must have.
    pub roots: RootCertStore,
    /// The certificate of this node.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
    /// The certificate that ends first, of this node or of the CA.
    pub end: Option<CertificateEnd>,
}

/// The files of the keys of one node, as they were read.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct PemFiles {
    ca: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl PemFiles {
    /// Reads the files of a node from a directory.
    ///
    /// # Errors
    /// A file is missing, or every user can read the key.
    pub fn read(directory: &Path, node: &NodeName) -> Result<Self, KeyError> {
        let pem = |name: &str| {
            let path = directory.join(name);
            fs::read(&path).map_err(|source| file(&path, source))
        };
        let (ca, certificate) = (pem("ca.pem")?, pem(&format!("{node}.pem"))?);
        let path = directory.join(format!("{node}.key"));
        let mode = fs::metadata(&path).map_err(|source| file(&path, source))?.mode();
        if mode & 0o007 != 0 {
            return Err(KeyError::Open { path, mode: mode & 0o777 });
        }
        Ok(Self { ca, certificate, key: pem(&format!("{node}.key"))? })
    }
}

impl NodeKeys {
    /// Reads the keys of a node from a directory.
    ///
    /// # Errors
    /// A file is missing or holds something else.
    pub fn read(directory: &Path, node: &NodeName) -> Result<Self, KeyError> {
        Self::of(&PemFiles::read(directory, node)?, directory, node)
    }

    /// The keys in files that were read from this directory.
    ///
    /// # Errors
    /// A file holds something else.
    pub fn of(files: &PemFiles, directory: &Path, node: &NodeName) -> Result<Self, KeyError> {
        let certificate = |name: &str, bytes: &[u8]| {
            CertificateDer::from_pem_slice(bytes)
                .map_err(|cause| content(&directory.join(name), cause))
        };
        let ca = certificate("ca.pem", &files.ca)?;
        let own_name = format!("{node}.pem");
        let own = certificate(&own_name, &files.certificate)?;
        let end_of = |file: &str, certificate: &[u8]| {
            let at_s = validity::end_s(certificate)?;
            Some(CertificateEnd { file: file.to_owned(), at_s })
        };
        let ends = [end_of(&own_name, &own), end_of("ca.pem", &ca)];
        let end = ends.into_iter().flatten().min_by_key(|end| end.at_s);
        let mut roots = RootCertStore::empty();
        roots.add(ca).map_err(|cause| content(&directory.join("ca.pem"), cause))?;
        let key = PrivateKeyDer::from_pem_slice(&files.key)
            .map_err(|cause| content(&directory.join(format!("{node}.key")), cause))?;
        Ok(Self { roots, chain: vec![own], key, end })
    }
}

/// Makes the keys of these nodes, and the CA if the directory has none; the written files.
///
/// # Errors
/// A node has a file already, or two have one name: nothing is made. A file cannot be written.
pub fn make(directory: &Path, nodes: &[NodeName]) -> Result<Vec<PathBuf>, KeyError> {
    check(directory, nodes)?;
    fs::create_dir_all(directory).map_err(|source| file(directory, source))?;
    let mut written = vec![];
    let issuer = issuer(directory, &mut written)?;
    for node in nodes {
        let mut params = CertificateParams::new(vec![node.to_string()])?;
        params.distinguished_name.push(rcgen::DnType::CommonName, node.as_str());
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?;
        let path = |ending| directory.join(format!("{node}.{ending}"));
        written.push(write_new(path("key"), 0o600, &key.serialize_pem())?);
        written.push(write_new(path("pem"), 0o644, &certificate.pem())?);
    }
    Ok(written)
}

/// Whether the keys of these nodes can be made: nothing is replaced, and nothing is half made.
///
/// # Errors
/// As [`make`], before it writes.
pub fn check(directory: &Path, nodes: &[NodeName]) -> Result<(), KeyError> {
    for (at, node) in nodes.iter().enumerate() {
        if node.as_str() == CA {
            return Err(KeyError::Taken);
        }
        if nodes[..at].contains(node) {
            return Err(KeyError::Twice(node.clone()));
        }
        for ending in ["key", "pem"] {
            let path = directory.join(format!("{node}.{ending}"));
            if path.exists() {
                return Err(KeyError::Exists(path));
            }
        }
    }
    let (certificate, key) = (directory.join("ca.pem"), directory.join("ca.key"));
    match (certificate.exists(), key.exists()) {
        (true, false) => Err(KeyError::HalfCa { is: certificate, lacks: key }),
        (false, true) => Err(KeyError::HalfCa { is: key, lacks: certificate }),
        _ => Ok(()),
    }
}

/// The CA of a directory; a new one if it has none.
fn issuer(
    directory: &Path,
    written: &mut Vec<PathBuf>,
) -> Result<Issuer<'static, KeyPair>, KeyError> {
    let (certificate_path, key_path) = (directory.join("ca.pem"), directory.join("ca.key"));
    // Every CA of this program has these parameters, so its certificate need not be read.
    let mut params = CertificateParams::new(vec![])?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.distinguished_name.push(rcgen::DnType::CommonName, "m3ipc nodes");
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    if certificate_path.exists() {
        let read = |path: &Path| fs::read_to_string(path).map_err(|source| file(path, source));
        let key = KeyPair::from_pem(&read(&key_path)?);
        let key = key.map_err(|cause| content(&key_path, cause))?;
        return Ok(Issuer::new(params, key));
    }
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    written.push(write_new(key_path, 0o600, &key.serialize_pem())?);
    written.push(write_new(certificate_path, 0o644, &certificate.pem())?);
    Ok(Issuer::new(params, key))
}

/// Writes a file that must not exist yet.
fn write_new(path: PathBuf, mode: u32, text: &str) -> Result<PathBuf, KeyError> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
    match opened.and_then(|mut opened| opened.write_all(text.as_bytes())) {
        Ok(()) => Ok(path),
        Err(source) => Err(file(&path, source)),
    }
}

fn file(path: &Path, source: io::Error) -> KeyError {
    KeyError::File { path: path.into(), source }
}

fn content(path: &Path, cause: impl std::fmt::Display) -> KeyError {
    KeyError::Content { path: path.into(), cause: cause.to_string() }
}
