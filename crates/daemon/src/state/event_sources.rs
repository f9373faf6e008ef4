//! The sources of events: the poll with its tokens, the timers, and the order of service.

use super::connection::Connection;
use super::reserve_descriptor::ReserveDescriptor;
use super::scheduling_round::SchedulingRound;
use super::timers::{Timer, Timers};
use crate::token::Token;
use m3ipc_sys::{Errno, Interest, Poll, Ready};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};

/// A source of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The socket at which newcomers connect.
    Listener,
    /// The pipe of the death watcher.
    DeathWatcher,
    /// SIGTERM and SIGINT.
    Signals,
    /// A control connection.
    Connection,
    /// The pidfd of this process.
    Process(i32),
    /// The pidfd of this thread of a process.
    Thread(i32, i32),
}

/// All sources of events.
#[derive(Debug)]
pub(crate) struct EventSources {
    poll: Poll,
    by_token: HashMap<Token, Source>,
    /// The token of the listener, also while it is not polled.
    listener: Option<Token>,
    last_number: u64,
    timers: Timers,
    round: SchedulingRound,
    reserve_descriptor: ReserveDescriptor,
}

impl EventSources {
    /// A poll without sources and without the reserve descriptor.
    ///
    /// # Errors
    /// Those of [`Poll::new`].
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self {
            poll: Poll::new()?,
            by_token: HashMap::new(),
            listener: None,
            last_number: 0,
            timers: Timers::default(),
            round: SchedulingRound::default(),
            reserve_descriptor: ReserveDescriptor::none(),
        })
    }

    /// Takes the reserve descriptor, after all that the daemon must have.
    pub(crate) fn take_reserve(&mut self) {
        self.reserve_descriptor = ReserveDescriptor::new();
    }

    /// A number that no token and no ticket has had.
    pub(crate) fn new_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Polls this descriptor, and returns the token of its events.
    ///
    /// # Errors
    /// Those of [`Poll::add`].
    pub(crate) fn add(&mut self, fd: impl AsFd, source: Source) -> Result<Token, Errno> {
        let token = Token::of(self.new_number());
        self.poll.add(fd, token.number())?;
        self.by_token.insert(token, source);
        if source == Source::Listener {
            self.listener = Some(token);
        }
        Ok(token)
    }

    /// Ends the events of this descriptor.
    pub(crate) fn remove(&mut self, fd: impl AsFd, token: Token) {
        // The close of the descriptor removes it from the poll in any case.
        let _ = self.poll.remove(fd);
        self.by_token.remove(&token);
    }

    /// The source of an event.
    pub(crate) fn of(&self, token: Token) -> Option<Source> {
        self.by_token.get(&token).copied()
    }

    /// Chooses the events of a connection.
    pub(crate) fn set_interest(&self, socket: impl AsFd, token: Token, interest: Interest) {
        // A failure leaves the frames in the queue until the next send or flush.
        let _ = self.poll.set_interest(socket, token.number(), interest);
    }

    /// Accepts no newcomers for a while.
    pub(crate) fn pause_listener(&self, listener: &OwnedFd) {
        let _ = self.poll.remove(listener);
    }

    /// Accepts newcomers again.
    pub(crate) fn resume_listener(&self, listener: &OwnedFd) {
        if let Some(token) = self.listener {
            // A failure leaves the newcomers in the kernel's queue, as before.
            let _ = self.poll.add(listener, token.number());
        }
    }

    /// Refuses a newcomer that no descriptor is left for; `false` if that is impossible.
    pub(crate) fn refuse_newcomer(&mut self, listener: &OwnedFd) -> bool {
        self.reserve_descriptor.refuse_newcomer(listener)
    }

    /// Waits for events, at most until the next timer.
    ///
    /// # Errors
    /// Those of [`Poll::wait`].
    pub(crate) fn wait(&self, ready: &mut Vec<Ready>) -> Result<(), Errno> {
        let next_ns = self.timers.next_ns();
        let limit = next_ns.map(|at_ns| at_ns.saturating_sub(m3ipc_sys::monotonic_ns()));
        self.poll.wait(ready, limit)
    }

    /// Begins a scheduling round with these events. `served_in`: the last round of a connection.
    pub(crate) fn begin_round(&mut self, ready: &mut [Ready], served_in: impl Fn(Token) -> u64) {
        let by_token = &self.by_token;
        self.round.begin(ready, |token| match by_token.get(&token) {
            Some(Source::Connection) => Some(served_in(token)),
            _ => None,
        });
    }

    /// Counts a frame of this connection; `false` if it has no frames left in this round.
    pub(crate) fn admit_connection(&mut self, token: Token) -> bool {
        self.round.admit_connection(token)
    }

    /// Counts a frame of this connection's user; `false` if the user has no frames left.
    pub(crate) fn admit_user(&mut self, connection: &mut Connection) -> bool {
        self.round.admit_user(connection)
    }

    /// Sets a timer.
    pub(crate) fn set_timer(&mut self, in_ns: u64, timer: Timer) {
        self.timers.set(m3ipc_sys::monotonic_ns().saturating_add(in_ns), timer);
    }

    /// Cancels all timers of this purpose.
    pub(crate) fn cancel_timer(&mut self, timer: Timer) {
        self.timers.cancel(timer);
    }

    /// Whether a timer of this purpose is set.
    pub(crate) fn is_timer_set(&self, timer: Timer) -> bool {
        self.timers.is_set(timer)
    }

    /// Removes and returns a timer whose time has come.
    pub(crate) fn take_due_timer(&mut self, now_ns: u64) -> Option<Timer> {
        self.timers.take_due(now_ns)
    }
}
