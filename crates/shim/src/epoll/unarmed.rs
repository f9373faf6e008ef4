//! Sockets of a set without an armed poller: a wait polls them before it sleeps.

use super::set::Set;
use crate::connection::socket::Socket;

/// Sockets without an armed poller that a wait polls before it sleeps: more would cost too much.
const POLLED_MAX: usize = 64;

impl Set {
    /// Sockets of the set that are not armed, where there are few enough to poll them.
    fn unarmed(&self) -> impl Iterator<Item = Socket> {
        let top = self.top();
        let polled = if top <= POLLED_MAX { top } else { 0 };
        (0..polled).filter_map(|slot| self.socket(slot)).filter(|socket| !socket.is_armed())
    }

    /// Whether a socket that is not armed has bytes: its wakeup byte is on its way.
    pub(super) fn unarmed_have_bytes(&self) -> bool {
        self.unarmed().any(|socket| socket.has_arrivals())
    }

    /// Whether there are sockets that are not armed.
    pub(super) fn has_unarmed(&self) -> bool {
        self.unarmed().next().is_some()
    }
}
