//! What every engine offers to the loops: frames in order, to one peer and back.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::client::{Figures, Task};

/// The bytes of a small frame.
pub const SMALL_BYTES: usize = 64;
/// The bytes of one copy.
pub const COPY_BYTES: usize = 4 << 20;
/// The first byte of a frame that the server sends back.
pub const ECHO: u8 = b'e';
/// The first byte of a frame of a copy; the server answers the last frame alone.
pub const COPY: u8 = b'c';

/// Both directions between a client and its server, like the stream of a pair of nodes.
pub trait Line {
    /// Sends a frame. Without `flush` the line may keep it until a later frame is sent.
    async fn send(&mut self, frame: &[u8], flush: bool) -> io::Result<()>;
    /// Waits for the next frame. An end of the line is an error.
    async fn receive(&mut self, frame: &mut Vec<u8>) -> io::Result<()>;
    /// Whether a whole frame has come already.
    fn has_more(&self) -> bool;
    /// A row that m3ipc alone has.
    fn special(&mut self, _: Task, _: &Path, _: Duration) -> io::Result<Figures> {
        Err(io::Error::other("a row of ipc2 and ipc2-tls alone"))
    }
    /// One copy of [`COPY_BYTES`], if the engine has copies of its own; else they are frames.
    fn copy(&mut self) -> Option<io::Result<()>> {
        None
    }
    /// Round trips a second of 64 clients, if each client is a caller of its own.
    fn callers(self, _length: Duration) -> Result<io::Result<f64>, Self>
    where
        Self: Sized,
    {
        Err(self)
    }
}

/// The threads of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// All lines in one thread.
    OneLoop,
    /// A thread for each line.
    Threads,
}

/// A way to carry frames between nodes.
pub trait Engine: Sync {
    /// Its connection with a peer, or a stream of it.
    type Line: Line + 'static;
    /// Its threads.
    fn shape(&self) -> Shape;
    /// Opens a line to a server.
    async fn connect(&'static self, to: SocketAddr) -> io::Result<Self::Line>;
    /// Serves every line that comes; returns on an error only.
    async fn serve(&'static self, at: SocketAddr) -> io::Result<()>;
}

/// Starts work beside that of the caller: in the same thread, or in one of its own.
pub fn start<E: Engine, W>(engine: &'static E, work: W)
where
    W: AsyncFnOnce(&'static E) + Send + 'static,
{
    match engine.shape() {
        Shape::OneLoop => drop(tokio::task::spawn_local(async move { work(engine).await })),
        Shape::Threads => drop(std::thread::spawn(move || {
            if let Err(error) = in_a_loop(async move || work(engine).await) {
                eprintln!("m3-nodes: {error}");
            }
        })),
    }
}

/// Runs work in an event loop of this thread.
pub fn in_a_loop<T>(work: impl AsyncFnOnce() -> T) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(tokio::task::LocalSet::new().block_on(&runtime, work()))
}

/// The server's end of a line: echoes small frames, answers the end of each copy.
pub async fn serve_line(mut line: impl Line) {
    let (mut frame, mut target) = (vec![], vec![0; COPY_BYTES]);
    let mut filled = 0;
    loop {
        if line.receive(&mut frame).await.is_err() || frame.is_empty() {
            return;
        }
        if frame[0] == ECHO {
            let flush = !line.has_more();
            if line.send(&frame, flush).await.is_err() {
                return;
            }
            continue;
        }
        let end = (filled + frame.len()).min(COPY_BYTES);
        target[filled..end].copy_from_slice(&frame[..end - filled]);
        filled = end;
        if filled == COPY_BYTES {
            filled = 0;
            frame.truncate(SMALL_BYTES);
            if line.send(&frame, true).await.is_err() {
                return;
            }
        }
    }
}
