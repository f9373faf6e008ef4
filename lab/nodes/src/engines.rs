//! The engines by name.

pub mod codec;
pub mod grpc;
pub mod ipc2;
pub mod nats;
pub mod proxy;
pub mod quic;
pub mod stream;
#[cfg(feature = "zeromq")]
pub mod zeromq;

use std::io;
use std::net::SocketAddr;

use rustls::crypto::{aws_lc_rs, ring};

use crate::keys::Keys;
use crate::line::{Engine, Shape};

/// The names, in the order of the table. The first is the floor of all others.
pub const NAMES: &[&str] = &[
    "tcp",
    "rustls-ring",
    "rustls-aws-lc",
    "proxy-plain",
    "proxy-tls",
    "ipc2",
    "ipc2-tls",
    "codec",
    "codec-tls",
    "codec-tls-threads",
    "quinn-tls",
    "tonic",
    "tonic-tls",
    "tonic-call-tls",
    "nats",
    "nats-tls",
    "zeromq",
];

/// Whether this host, and this build, have what an engine needs.
pub fn is_installed(engine: &str) -> bool {
    match engine {
        "nats" | "nats-tls" => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|it| it.join("nats-server").is_file())
        }
        "zeromq" => cfg!(feature = "zeromq"),
        _ => true,
    }
}

/// Work that is generic over the engine.
pub trait Work {
    /// Runs with this engine.
    async fn run<E: Engine>(self, engine: &'static E) -> io::Result<()>;
}

/// Runs work with the engine of this name; `broker` is the server of engines that need one.
pub async fn with(name: &str, keys: &Keys, broker: SocketAddr, work: impl Work) -> io::Result<()> {
    let has_tls = name.contains("tls");
    let aws = || Some(aws_lc_rs::default_provider());
    match name {
        "tcp" => work.run(forever(stream::Stream::new(keys, None)?)).await,
        "rustls-ring" => {
            let engine = stream::Stream::new(keys, Some(ring::default_provider()))?;
            work.run(forever(engine)).await
        }
        "rustls-aws-lc" => work.run(forever(stream::Stream::new(keys, aws())?)).await,
        "proxy-plain" | "proxy-tls" => work.run(forever(proxy::Proxy::new(keys, has_tls)?)).await,
        "ipc2" | "ipc2-tls" => work.run(forever(ipc2::Ipc2::new(keys, has_tls, broker))).await,
        "codec" => work.run(forever(codec::Codec::new(keys, None, Shape::OneLoop)?)).await,
        "codec-tls" => work.run(forever(codec::Codec::new(keys, aws(), Shape::OneLoop)?)).await,
        "codec-tls-threads" => {
            work.run(forever(codec::Codec::new(keys, aws(), Shape::Threads)?)).await
        }
        "quinn-tls" => work.run(forever(quic::Quic::new(keys)?)).await,
        "tonic" | "tonic-tls" => work.run(forever(grpc::Grpc::new(keys, has_tls, false)?)).await,
        "tonic-call-tls" => work.run(forever(grpc::Grpc::new(keys, has_tls, true)?)).await,
        "nats" | "nats-tls" => work.run(forever(nats::Nats::new(keys, has_tls, broker))).await,
        "zeromq" => with_zeromq(work).await,
        _ => Err(io::Error::other(format!("no engine {name}; there are {}", NAMES.join(", ")))),
    }
}

#[cfg(feature = "zeromq")]
async fn with_zeromq(work: impl Work) -> io::Result<()> {
    work.run(forever(zeromq::ZeroMq)).await
}

#[cfg(not(feature = "zeromq"))]
async fn with_zeromq(_: impl Work) -> io::Result<()> {
    Err(io::Error::other("built without the feature zeromq"))
}

/// An engine lives as long as its process.
fn forever<T>(engine: T) -> &'static T {
    Box::leak(Box::new(engine))
}
