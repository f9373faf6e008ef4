//! The protocol of sd_notify(3): lines in a datagram, to the socket in `NOTIFY_SOCKET`.
//!
//! The protocol is a stable interface of a few lines, so no crate is needed. Without the variable
//! nothing is sent. A lost message changes nothing here.

use crate::policy::Ns;
use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Variables of the protocol, which no service inherits.
pub const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// The service manager above the supervisor, if there is one.
#[derive(Debug)]
pub struct Manager {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// Half of the watchdog's limit.
    watchdog_ns: Option<Ns>,
    next_ns: Ns,
    status: String,
}

impl Manager {
    /// The manager that the variables name.
    #[must_use]
    pub fn from_variables() -> Self {
        let [socket, limit, pid] = VARIABLES.map(std::env::var_os);
        let to = socket
            .and_then(address)
            .and_then(|address| Some((UnixDatagram::unbound().ok()?, address)));
        let is_other = pid.is_some_and(|pid| pid.to_str() != Some(&std::process::id().to_string()));
        let limit_us = limit.and_then(|limit| limit.to_str()?.parse::<Ns>().ok());
        let watchdog_ns = limit_us.filter(|us| *us > 0 && !is_other).map(|us| us * 500);
        Self { to, watchdog_ns, next_ns: 0, status: String::new() }
    }

    /// Sends lines.
    fn send(&self, lines: &str) {
        if let Some((socket, address)) = &self.to {
            // A manager that does not listen any more needs no message.
            let _ = socket.send_to_addr(lines.as_bytes(), address);
        }
    }

    /// All services have come up.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// The file is read again.
    pub fn reloading(&self, now_ns: Ns) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", now_ns / 1_000));
    }

    /// The services end.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Shows a line as the state, if it is new.
    pub fn status(&mut self, line: String) {
        if self.status != line {
            self.send(&format!("STATUS={line}"));
            self.status = line;
        }
    }

    /// Tells the watchdog that the event loop runs, and returns when it wants to hear again.
    pub fn feed_watchdog(&mut self, now_ns: Ns) -> Option<Ns> {
        let every_ns = self.watchdog_ns?;
        if now_ns >= self.next_ns {
            self.send("WATCHDOG=1");
            self.next_ns = now_ns.saturating_add(every_ns);
        }
        Some(self.next_ns)
    }
}

fn address(path: OsString) -> Option<SocketAddr> {
    match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
        [b'/', ..] => SocketAddr::from_pathname(&path).ok(),
        _ => None,
    }
}
