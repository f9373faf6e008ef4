//! The options that name a registry.

use crate::backend::{Backend, BackendError};
use crate::etcd::{self, Etcd};
use crate::file::File;
use crate::ldap::{Address, Ldap, Who};
use clap::Args;
use std::path::{Path, PathBuf};

/// Where a directory is, and who asks it.
#[derive(Args, Clone, Debug)]
pub struct Directory {
    /// Turn the connection to TLS after it is made
    #[arg(long)]
    starttls: bool,
    /// Allow a connection to another machine without TLS
    #[arg(long)]
    plain: bool,
    /// Show the user of this process to the directory (ldapi)
    #[arg(long, conflicts_with = "bind_dn")]
    external: bool,
    /// The name to bind with
    #[arg(long, value_name = "DN", requires = "password_file")]
    bind_dn: Option<String>,
    /// The file with the password of that name
    #[arg(long, value_name = "FILE", requires = "bind_dn")]
    password_file: Option<PathBuf>,
}

impl Directory {
    /// The cluster at a URL.
    pub fn open(&self, url: &str) -> Result<Ldap, BackendError> {
        let who = match (self.bind_dn.clone(), self.password_file.clone()) {
            (Some(dn), Some(password)) => Who::Name { dn, password },
            _ if self.external => Who::Process,
            _ => Who::Anonymous,
        };
        Ok(Ldap::new(Address::parse(url, self.starttls, self.plain, who)?))
    }
}

/// A registry: what people wrote, and claims.
#[derive(Args, Clone, Debug)]
pub struct Source {
    /// A file, or the entry of the cluster: ldapi://SOCKET/DN, ldaps://HOST/DN
    #[arg(long, value_name = "FILE|URL")]
    source: String,
    #[command(flatten)]
    directory: Directory,
    /// A member of the etcd cluster that keeps claims; may be repeated
    #[arg(long, value_name = "URL")]
    etcd: Vec<String>,
    /// The certificates of the CA of etcd
    #[arg(long, value_name = "FILE", requires = "etcd")]
    ca: Option<PathBuf>,
    /// The certificate to show to etcd
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl Source {
    /// The registry that these options name.
    pub fn open(&self) -> Result<Box<dyn Backend>, BackendError> {
        let written: Box<dyn Backend> = if self.source.contains("://") {
            Box::new(self.directory.open(&self.source)?)
        } else {
            Box::new(File::new(Path::new(&self.source)))
        };
        if self.etcd.is_empty() {
            return Ok(written);
        }
        let own = self.cert.clone().zip(self.key.clone());
        let members = self.etcd.clone();
        let address = etcd::Address { members, ca: self.ca.clone(), own };
        Ok(Box::new(Etcd::new(written, &address)?))
    }
}
