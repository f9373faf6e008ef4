//! Between nodes: connections that carry frames, with mutual TLS, and the keys for them.
//!
//! ```text
//! transport          the traits Transport, Listener, Connection; errors and limits
//! transport::tls     the backend of real use: TLS 1.3 over TCP, each side shows its certificate
//! transport::plain   the same frames over bare TCP, behind an explicit flag
//! run                the proxy itself: the daemon's side, the network's side, one loop
//! status             what a running proxy tells the user of its node
//! program            the command line of m3-proxy
//! keys               a CA and certificates that carry node names
//! ```
//! A proxy waits with `poll` for all its connections; nothing here blocks, has a thread or reads a
//! clock. So no peer can delay the connection to another, and the tests choose the time.
//!
//! Limits: a connection carries bytes. Resumption after a break, acknowledgements and incarnations
//! belong to the link protocol above.

pub mod keys;
mod log;
mod node_name;
pub mod program;
pub mod run;
pub mod status;
pub mod transport;

pub use node_name::{NodeName, NotANodeName};
