//! The driver of `m3 bench --with`: IPC2 by other libraries.
//!
//! It is built apart, so that no default build compiles any of them. Each library has a file with
//! its two ends. The loops that keep time and check every payload are those of `m3-bench`.

mod library;

#[cfg(feature = "dbus")]
mod dbus;
#[cfg(feature = "grpc")]
mod grpc;
#[cfg(feature = "iceoryx2")]
mod iceoryx;
#[cfg(feature = "ipc-channel")]
mod ipc_channel;
#[cfg(feature = "nng")]
mod nng;
#[cfg(feature = "shmem-ipc")]
mod shmem_ipc;
#[cfg(feature = "tachyon")]
mod tachyon;
#[cfg(feature = "zenoh")]
mod zenoh;
#[cfg(feature = "zeromq")]
mod zeromq;

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use m3ipc_bench::Error;
use m3ipc_bench::outside::{LIST_ARGUMENT, TIDY_ARGUMENT};
use m3ipc_bench::payload::{MESSAGE_BYTES, Message};

fn main() -> ExitCode {
    if let Some(code) = m3ipc_bench::peer::if_asked_of(&library::subjects()) {
        return code;
    }
    match std::env::args().nth(1).as_deref() {
        Some(LIST_ARGUMENT) => match serde_json::to_string(&library::offers()) {
            Ok(text) => println!("{text}"),
            Err(error) => {
                eprintln!("m3-peers: {error}");
                return ExitCode::from(4);
            }
        },
        Some(TIDY_ARGUMENT) => library::tidy(),
        _ => {
            eprintln!("m3-peers: m3 bench --with starts it; {LIST_ARGUMENT} lists its libraries");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Converts an error of a library and names the operation.
fn failed<E: Display>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::Usage(format!("{what}: {error}"))
}

/// Fills a message with received bytes.
fn fill(message: &mut Message, bytes: &[u8]) -> Result<(), Error> {
    if bytes.len() != MESSAGE_BYTES {
        let length = bytes.len();
        return Err(Error::Usage(format!("{length} bytes came instead of {MESSAGE_BYTES}")));
    }
    message.bytes_mut().copy_from_slice(bytes);
    Ok(())
}

/// The path of a socket or file of a pair.
fn path(name: &str, ending: &str) -> PathBuf {
    std::env::temp_dir().join(format!("{name}.{ending}"))
}

/// A file that the server removes at its end.
struct ServerFile(PathBuf);

impl Drop for ServerFile {
    fn drop(&mut self) {
        // Some libraries remove it themselves.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A runtime of one thread.
#[cfg(any(feature = "dbus", feature = "grpc"))]
fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().map_err(failed("a runtime"))
}

/// Waits until a file exists; the supervisor's watchdog limits the wait.
#[cfg(any(
    feature = "dbus",
    feature = "grpc",
    feature = "ipc-channel",
    feature = "shmem-ipc",
    feature = "tachyon",
    feature = "zenoh"
))]
fn await_file(path: &std::path::Path) {
    while !path.exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
