//! One scheduling round of the event loop: the order and the number of served frames.
//!
//! Deaths come first, so that no caller waits longer than necessary for a dead endpoint. Then come
//! the connections, first those that were served longest ago. A connection that is ready alone has
//! a few frames served. If many connections are ready, each has one frame served, and all
//! connections of one user together at most [`USER_FRAMES`]. Other frames wait for the next round,
//! behind the connections that this round did not serve.

use super::connection::Connection;
use crate::token::Token;
use m3ipc_sys::Ready;
use std::collections::HashMap;

/// Frames that a connection may have served in one round if it is ready alone.
const FRAMES: usize = 16;
/// Frames that all connections of one user may have served in one round.
const USER_FRAMES: usize = 64;

/// The frames served in this round.
#[derive(Debug, Default)]
pub(crate) struct SchedulingRound {
    number: u64,
    /// Frames that each connection may have served.
    frames_each: usize,
    /// The current connection, and the frames that it may still have served.
    current: Option<(Token, usize)>,
    users: HashMap<u32, usize>,
}

impl SchedulingRound {
    /// Begins a round, and sorts the ready sources by their last round. A source without one (it
    /// is no connection) comes first.
    pub(crate) fn begin(&mut self, ready: &mut [Ready], last_round: impl Fn(Token) -> Option<u64>) {
        let last: HashMap<u64, u64> = ready
            .iter()
            .filter_map(|event| Some((event.token, last_round(Token::of(event.token))?)))
            .collect();
        if ready.len() > 1 {
            ready.sort_by_key(|event| last.get(&event.token).copied());
        }
        self.number += 1;
        self.frames_each = (FRAMES / last.len().max(1)).max(1);
        self.current = None;
        self.users.clear();
    }

    /// Counts a frame of this connection; `false` if it has no frames left in this round.
    pub(crate) fn admit_connection(&mut self, token: Token) -> bool {
        let current = self.current.get_or_insert((token, self.frames_each));
        if current.0 != token {
            *current = (token, self.frames_each);
        }
        let left = &mut current.1;
        let admitted = *left > 0;
        *left = left.saturating_sub(1);
        admitted
    }

    /// Counts a frame of this connection's user; `false` if the user has no frames left.
    pub(crate) fn admit_user(&mut self, connection: &mut Connection) -> bool {
        let served = self.users.entry(connection.cred.uid).or_default();
        if *served == USER_FRAMES {
            return false;
        }
        *served += 1;
        connection.served_in = self.number;
        true
    }
}
