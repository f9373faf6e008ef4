//! Many requests in flight over one m3ipc endpoint, typed by serde, on tokio.
//!
//! ```
//! # let node = m3ipc::test::node();
//! # let (one, two) = node.pair();
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! # runtime.block_on(async move {
//! use m3ipc::asynchronous::AsyncEndpoint;
//! use m3ipc_calls::{Client, Config, Server, typed};
//!
//! let to = one.address();
//! let add = typed(|(a, b): (u32, u32), _request| async move { Ok(a + b) });
//! let server = Server::new(AsyncEndpoint::open(one).await?, Config::default(), add);
//!
//! let client = Client::new(AsyncEndpoint::open(two).await?, Config::default());
//! let mut sums = tokio::task::JoinSet::new();
//! for number in 0..100_u32 {
//!     let client = client.clone();
//!     sums.spawn(async move { client.call(to, &(number, 1_u32)).await });
//! }
//! while let Some(sum) = sums.join_next().await {
//!     let sum: u32 = sum??;
//!     assert!((1..=100).contains(&sum));
//! }
//! server.shutdown(std::time::Duration::from_secs(1)).await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How a request travels
//!
//! Requests and answers are frames with a number. An endpoint packs the frames for one peer into a
//! *train*, and sends the train by `send`: the rendezvous of the link is the back-pressure. While a
//! train waits for its take, later frames collect for the next one. A server grants each client a
//! window of requests; requests beyond the window stay with the client and are not taken.
//!
//! | end of a request | meaning | a repeat is safe |
//! |---|---|---|
//! | [`CallError::NotTaken`] | the server never began it | yes |
//! | [`CallError::Taken`] | the server took it and gave no answer | only the program knows |
//! | an answer, or [`CallError::Answered`] | the server's own result | - |
//!
//! A drop of a call's future cancels the request: it is withdrawn, or the server drops its handler.
//! A time limit travels to the server, which drops the handler too. The clocks of both sides must
//! be the same `CLOCK_MONOTONIC`: no time namespace lies between them.
//!
//! # Limits
//!
//! Bodies are at most [`Config::max_body_bytes`]. A train above 1,792 bytes travels in a block: its
//! first one waits for the daemon in the thread of the runtime, 0.1 s at most for each step. A peer
//! that breaks the format ends its own calls and no others.
#![forbid(unsafe_code)]

mod client;
mod codec;
mod config;
mod deadline;
mod driver;
mod error;
mod frame;
mod room;
mod serve;
mod server;
mod state;
mod stream;
mod stream_user;

pub use client::{Client, OpenCall, Retry};
#[cfg(feature = "json")]
pub use codec::Json;
pub use codec::{Codec, Postcard};
pub use config::Config;
pub use error::{CallError, Fault, Reason};
pub use serve::{Handler, Request, typed, typed_with};
pub use server::Server;
