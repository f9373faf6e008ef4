//! Ports of the servers of a run.
//!
//! The kernel gives ports of one range to connections of all programs. A port of that range that is
//! free now may belong to a connection when its server begins to listen. Servers therefore get
//! ports below the range.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

/// The first candidate: known services have lower ports.
const FIRST: u16 = 10_000;
/// The least candidate of connections, where the kernel does not tell.
const DEFAULT_LIMIT: u16 = 32_768;

/// Two free ports.
pub fn free_ports() -> io::Result<[u16; 2]> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let candidates = candidates(&range.unwrap_or_default());
    // Both listeners stay open until both ports are known, so the ports differ.
    let listeners = [listener(&candidates)?, listener(&candidates)?];
    Ok([listeners[0].local_addr()?.port(), listeners[1].local_addr()?.port()])
}

/// The ports below those of connections; none if connections have nearly all.
fn candidates(range: &str) -> Range<u16> {
    let first = range.split_whitespace().next().and_then(|word| word.parse().ok());
    FIRST..first.unwrap_or(DEFAULT_LIMIT)
}

/// A listener on the next free candidate. Without one the kernel chooses.
fn listener(candidates: &Range<u16>) -> io::Result<TcpListener> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Two programs at once begin at different ports.
    let begin = std::process::id().wrapping_mul(61) % u32::from(u16::MAX);
    let count = u32::try_from(candidates.len()).unwrap_or(0);
    for _ in 0..count {
        let next = begin + u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u32::from(candidates.start) + next % count;
        let port = u16::try_from(port).unwrap_or(candidates.start);
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return Ok(listener);
        }
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_listen_below_the_ports_of_connections() {
        assert_eq!(candidates("32768\t60999\n"), 10_000..32_768);
        assert_eq!(candidates(""), 10_000..32_768);
        assert!(candidates("1024\t65535\n").is_empty());
        let [one, other] = free_ports().unwrap();
        assert_ne!(one, other);
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
        let candidates = candidates(&range);
        assert!(candidates.is_empty() || [one, other].iter().all(|it| candidates.contains(it)));
        let none = listener(&(FIRST..FIRST)).unwrap();
        assert_ne!(none.local_addr().unwrap().port(), 0);
    }
}
