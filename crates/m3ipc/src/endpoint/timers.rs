//! Timers: pulses that an endpoint gets from itself.
//!
//! A timer needs no thread and no descriptor. A wait for any endpoint sleeps at the longest until
//! the next timer ends; the poll after it delivers the pulse. An endpoint without timers pays
//! nothing: with one, the calls take the slow path.

use super::Endpoint;
use super::received::{Pulse, Received, ReceivedKind};
use super::timer_list::TIMERS_MAX;
use crate::error::TimerError;
use crate::info::Identity;
use m3ipc_abi::Message;
use std::time::Duration;

/// The name of a timer of an endpoint. The example is at [`Endpoint::set_timer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerId(u32);

impl TimerId {
    /// The number of the timer, for C.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }

    /// The timer of a [number](Self::number).
    #[must_use]
    pub fn of_number(number: u32) -> Self {
        Self(number)
    }
}

impl Endpoint {
    /// Sets a timer: after `first`, and then after each `period`, the endpoint gets a pulse of
    /// itself. A timer without a period ends with its pulse.
    ///
    /// A receive from ANY and a [`rcvrqst`](Self::rcvrqst) take the pulse, with the own address as
    /// its source. Word 1 of the message is the number of times that the timer ran out since the
    /// last take: a slow receiver loses none, and gets one pulse for all. The clock goes on during
    /// all calls of the program and not while the machine sleeps.
    ///
    /// The [descriptor](Self::fd) does not report timers: an event loop has timers of its own.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, _client) = node.pair();
    /// use m3ipc::{Pulse, ReceivedKind, Source};
    /// use std::time::Duration;
    ///
    /// let tick = Pulse { code: 1, value: 2 };
    /// let millisecond = Duration::from_millis(1);
    /// let timer = server.set_timer(tick, millisecond, Some(millisecond))?;
    /// let message = server.receive(Source::Any)?;
    /// assert_eq!(server.latest_kind(), Some(ReceivedKind::Pulse(tick)));
    /// assert_eq!((message.source, message.word(1) >= 1), (server.address(), true));
    /// assert!(server.cancel_timer(timer));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`TimerError`].
    pub fn set_timer(
        &mut self,
        pulse: Pulse,
        first: Duration,
        period: Option<Duration>,
    ) -> Result<TimerId, TimerError> {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let ends_ns = m3ipc_sys::monotonic_ns().saturating_add(ns(first));
        // The fast path sleeps without a look at the clock.
        self.fast.close();
        let timers = self.inbox.timers_mut();
        let id = timers.add(pulse, ends_ns, period.map_or(0, ns));
        id.map(TimerId).ok_or(TimerError::TooMany(TIMERS_MAX))
    }

    /// Ends a timer, and takes its pulse back if no receive has taken that. `false` if the timer
    /// has ended already. The example is at [`set_timer`](Self::set_timer).
    pub fn cancel_timer(&mut self, timer: TimerId) -> bool {
        self.inbox.timers_mut().remove(timer.0)
    }

    /// Looks at the clock for the timers, if there are any.
    #[inline]
    pub(super) fn run_timers(&mut self) {
        if self.inbox.timers().is_armed() {
            self.inbox.run_timers(m3ipc_sys::monotonic_ns());
        }
    }

    /// The limit of a sleep that lasts until the next timer ends.
    #[inline]
    pub(super) fn limit_by_timers(&self, limit_ns: u64, now_ns: u64) -> u64 {
        if !self.inbox.timers().is_armed() {
            return limit_ns;
        }
        limit_ns.min(self.inbox.timers().next_end_ns().saturating_sub(now_ns))
    }

    /// Takes the pulse of the timer that ran out first, if one did.
    pub(super) fn take_timer(&mut self) -> Option<Received> {
        let (pulse, ends) = self.inbox.timers_mut().take()?;
        let address = self.membership.address();
        let own = Identity {
            address,
            pid: std::process::id().cast_signed(),
            uid: m3ipc_sys::user_id(),
            gid: m3ipc_sys::group_id(),
        };
        self.inbox.note_taken(own, ReceivedKind::Pulse(pulse));
        Some(Received::pulse(Message::pulse(address, pulse.code, pulse.value, ends)))
    }
}
