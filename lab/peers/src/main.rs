//! The driver of `m3 bench --with`: IPC2 by libraries of others.
//!
//! It is built apart, so that no default build compiles any of them. Each library has a file with two ends; the loops
//! that keep time and check every payload are those of `m3-bench`, the same as for all other mechanisms.

mod offer;

#[cfg(feature = "iceoryx2")]
mod iceoryx;
#[cfg(feature = "ipc-channel")]
mod ipc_channel;
#[cfg(feature = "nng")]
mod nng;
#[cfg(feature = "zenoh")]
mod zenoh;
#[cfg(feature = "zeromq")]
mod zeromq;

use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

use m3ipc_bench::Error;
use m3ipc_bench::mechanism::Inherited;
use m3ipc_bench::mechanism::outside::{LIST_ARGUMENT, TIDY_ARGUMENT};

fn main() -> ExitCode {
    if let Some(code) = m3ipc_bench::peer::if_asked_of(&offer::mechanisms()) {
        return code;
    }
    match std::env::args().nth(1).as_deref() {
        Some(LIST_ARGUMENT) => match serde_json::to_string(&offer::offers()) {
            Ok(text) => {
                println!("{text}");
                return ExitCode::SUCCESS;
            }
            Err(error) => {
                eprintln!("m3-peers: {error}");
                return ExitCode::from(4);
            }
        },
        Some(TIDY_ARGUMENT) => {
            offer::tidy();
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    eprintln!(
        "m3-peers is started by `m3 bench --with LIBRARY`; {LIST_ARGUMENT} tells which libraries it has"
    );
    ExitCode::from(2)
}

/// Turns an error of a library into one of the benchmark, naming what was done.
fn failed<E: Display>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |error| Error::Usage(format!("{what}: {error}"))
}

/// What the two sides of a pair meet under.
fn meeting(inherited: &Inherited) -> Result<String, Error> {
    inherited.names.first().cloned().ok_or_else(|| Error::Usage("the supervisor passed no name".into()))
}

/// A file of this pair's, which goes when its server ends as it should.
struct Meeting(PathBuf);

impl Meeting {
    /// The file with this name and ending.
    fn of(name: &str, ending: &str) -> Self {
        Self(std::env::temp_dir().join(format!("{name}.{ending}")))
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        // Some libraries remove it themselves.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What no end of this driver does: the supervisor opens each pair.
fn not_here() -> Error {
    Error::Usage("the supervisor opens it".into())
}

/// Waits until a file is there; the supervisor's watchdog ends a wait in vain.
#[cfg(any(feature = "ipc-channel", feature = "zenoh"))]
fn await_file(path: &std::path::Path) {
    while !path.exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
