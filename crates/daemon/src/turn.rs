//! One turn of the loop: who is served in which order, and how much.
//!
//! Deaths come first: whoever waits for a dead one waits no longer than he must.
//! Then connections, those that have waited longest first. One that is ready
//! alone gets a few frames; where many are ready each gets one, and all of one
//! user together no more than [`USER_FRAMES`]: what is left waits for the next
//! turn, behind whoever was not served in this one.

use crate::connection::Connection;
use crate::server::{Server, Source};
use m3ipc_sys::Ready;
use std::collections::HashMap;

/// Frames that one connection may have served in a turn, where it is ready alone.
const FRAMES: usize = 16;
/// Frames that all connections of one user may have served in a turn.
const USER_FRAMES: usize = 64;

/// What has been served in this turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    number: u64,
    /// Frames that a connection may still have served.
    share: usize,
    left: (u64, usize),
    users: HashMap<u32, usize>,
}

impl Turn {
    /// Whether this connection may have another frame served.
    pub(crate) fn takes_another(&mut self, token: u64) -> bool {
        if self.left.0 != token {
            self.left = (token, self.share);
        }
        let (_, left) = &mut self.left;
        let takes = *left > 0;
        *left = left.saturating_sub(1);
        takes
    }

    /// Whether its user may, and counts it.
    pub(crate) fn takes_of(&mut self, connection: &mut Connection) -> bool {
        let served = self.users.entry(connection.cred.uid).or_default();
        if *served == USER_FRAMES {
            return false;
        }
        *served += 1;
        connection.served_in = self.number;
        true
    }
}

impl Server {
    /// Begins a turn with what is ready.
    pub(crate) fn begin_turn(&mut self, ready: &mut [Ready]) {
        let mut connections = 0;
        let mut served_in = HashMap::new();
        for event in ready.iter() {
            if let Some(Source::Connection) = self.sources.get(&event.token) {
                connections += 1;
                let connection = self.connections.get(&event.token);
                served_in
                    .insert(event.token, connection.map_or(0, |connection| connection.served_in));
            }
        }
        if ready.len() > 1 {
            // Whatever is no connection has no entry, and `None` comes first.
            ready.sort_by_key(|event| served_in.get(&event.token).copied());
        }
        self.turn.number += 1;
        self.turn.share = (FRAMES / connections.max(1)).max(1);
        self.turn.left = (0, 0);
        self.turn.users.clear();
    }
}
