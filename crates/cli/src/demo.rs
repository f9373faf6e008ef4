//! The demonstration: a private node, a server and a client, in processes of their own.
//!
//! ```text
//! command/demo ── steps ── session ── daemon: ends with this process, clears up
//!   └ printer                │   ├── server: answers, or keeps a request until it is killed
//!                            │   └── client: calls, measures ── baseline: pipe, socket
//!                            └── leaks: search for anything that the processes left
//! protocol: commands to the client and its replies      role: how each process starts
//! ```
//! Every process ends with the process that started it. All files lie in one directory of the
//! demonstration, so it touches no other node.

pub mod baseline;
mod client;
pub mod leaks;
pub mod printer;
pub mod process;
pub mod protocol;
mod role;
mod server;
pub mod session;
pub mod steps;
