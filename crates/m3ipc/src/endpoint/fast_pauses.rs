//! The first part of a wait on the fast path: pauses without a reading of the clock.
//!
//! ```text
//! the peer on another CPU: 64 polls                on this CPU: 8 yields (one if it blocks)
//! ```
//!
//! As such a wait reads no clock, a wait with a limit gives the CPU to nobody. A wait that does
//! records itself: others run meanwhile, and ask whether this endpoint waits.

use super::Endpoint;
use crate::timeout::Timeout;
use core::ops::ControlFlow;
use m3ipc_abi::Address;
use m3ipc_link::{AdaptiveSpin, ControlPage, FastSpin, WaitCall};

/// The end of a look: what it found, or `None` if the slow wait must look.
pub(super) type Look<T> = ControlFlow<Option<T>>;

/// The look of a wait. It is no closure, so that it is inline in both places of its loop.
pub(super) trait Looker {
    /// What it finds.
    type Found;
    /// Looks once. It breaks without a find if the slow wait must look.
    fn look(&self) -> Look<Self::Found>;
}

/// The first part of one wait.
pub(super) struct Pauses<'a> {
    pub(super) spin: &'a mut AdaptiveSpin,
    pub(super) page: &'a ControlPage,
    /// Whether the likeliest sender is on this CPU.
    pub(super) shares_cpu: bool,
    pub(super) limit: Timeout,
    /// What the waiting record says.
    pub(super) call: WaitCall,
    pub(super) peer: Address,
}

impl Pauses<'_> {
    /// Looks, and pauses between looks, until a look breaks. `None` if the slow wait must go on;
    /// beside it, whether a look found nothing.
    ///
    /// One loop has the first look too, so that a program has its code once.
    #[inline(always)]
    pub(super) fn until<L: Looker>(mut self, looker: L) -> (Option<L::Found>, bool) {
        let mut spin = None;
        let found = loop {
            if let ControlFlow::Break(found) = looker.look() {
                break found;
            }
            if spin.is_none() {
                spin = self.begin();
            }
            let Some(spin) = &mut spin else { break None };
            if !spin.pause() {
                break None;
            }
        };
        let Some(spin) = spin else { return (found, false) };
        if self.shares_cpu {
            self.page.set_running();
        }
        self.spin.learn_fast(&spin, found.is_some());
        (found, true)
    }

    #[inline(always)]
    fn begin(&mut self) -> Option<FastSpin> {
        if self.limit == Timeout::NoWait || self.shares_cpu && self.limit != Timeout::Never {
            return None;
        }
        let spin = self.spin.begin_fast(self.shares_cpu)?;
        if self.shares_cpu {
            self.page.set_blocked(self.call, self.peer);
        }
        Some(spin)
    }
}

impl Endpoint {
    /// Whether the peer of this link was last seen on the CPU of this endpoint.
    #[inline(always)]
    pub(super) fn seems_to_share_cpu(&mut self, index: u32) -> bool {
        match self.fast.shares_cpu_with(index) {
            Some(shares_cpu) => shares_cpu,
            None => self.look_for_cpu(index),
        }
    }

    /// Looks whether the peer of this link is on the CPU of this endpoint. Waits look now and then
    /// only: after a move the slow wait looks again.
    #[cold]
    fn look_for_cpu(&mut self, index: u32) -> bool {
        let shares_cpu = self.shares_cpu(Some(index));
        self.fast.note_cpu(index, shares_cpu);
        shares_cpu
    }
}
