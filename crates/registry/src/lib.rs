//! The registry of a cluster, from a file, an LDAP directory or etcd.
//!
//! ```text
//!   m3-proxy ── starts, reads ──> m3-registry serve ──> File    a static TOML file
//!   m3 ldap  ── executes ───────> m3-registry ldap      Ldap    entries of an LDAP directory
//!                                                       Etcd    one of these, and claims in etcd
//! ```
//!
//! A process of its own holds the clients: the proxy has no LDAP, no HTTP, no password, and closes
//! its sandbox after it has started this program. [`Backend`] is the seam between the three.
//!
//! The loss of a directory or of etcd stops claims and nothing else: `serve` says so once, and
//! the proxy goes on with what it has read.
#![forbid(unsafe_code)]

mod backend;
mod cache;
mod cli;
mod etcd;
mod file;
mod ldap;
mod output;
mod serve;
mod source;

pub use backend::{Backend, BackendError, Wanted};
pub use cli::{CommandLine, execute};
pub use etcd::{Address, Etcd};
pub use file::File;
