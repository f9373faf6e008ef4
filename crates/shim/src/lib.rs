//! `libm3sock.so`: sockets of unmodified programs over shared memory.
//!
//! Loaded in front of the C library (`m3 sock run -- program`), it sees the calls that a program makes on its
//! sockets. Where both ends of a stream are such programs of one user, bytes pass through shared rings; in all
//! else, and whenever in doubt, the kernel does what it always did. The descriptor is the kernel's own socket throughout.
//!
//! ```text
//!   hook ── table ── policy      the exported functions; which descriptor is what; what is allowed
//!    │        │
//!    └────────┴── engine         one `Talk` for each socket: rings, tokens, locks, the way back
//!          real ──┘    └ count   the kernel's calls; what `m3 sock stat` reads
//! ```

pub mod count;
pub mod engine;
pub mod policy;
pub mod real;
