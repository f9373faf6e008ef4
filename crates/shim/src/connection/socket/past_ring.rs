//! Receives past the rings, and bytes that arrive there.

use super::Socket;
use crate::connection::pairs::PairEnd;
use crate::connection::receive::ReceiveOptions;
use crate::connection::rest;
use crate::connection::ring_half::{Direction, RingHalf};
use crate::connection::socket_state::half_of;
use crate::kernel::process;
use crate::memory::layout::half;
use crate::outcome::Outcome;
use crate::protocol::{HalfView, pass};
use crate::settings;
use core::sync::atomic::Ordering;

impl Socket {
    /// Begins a receive past the rings, where the program's own call is right.
    pub(super) fn begin_receive(&self, end: PairEnd, options: ReceiveOptions) -> bool {
        let receives = &self.state.receives;
        let is_probe = receives.is_probe();
        if is_probe && receives.past_ring.has_ended(process::thread_runs) {
            pass::end(&half_of(end, Direction::Receive));
        }
        let by_message = options.by_message && !options.spins && !is_probe;
        let begins = rest::begin_receive(self.state, end, by_message);
        if begins {
            receives.past_ring.begin();
        }
        begins
    }

    /// Whether the state is still that of this socket: another thread may have closed it.
    pub(super) fn is_own(&self) -> bool {
        self.state.generation() == self.generation
    }

    /// The outcome of a receive, which the state notes while it is still that of this socket.
    pub(super) fn after_receive(&self, outcome: Outcome, half: &RingHalf, end: PairEnd) -> Outcome {
        if !self.is_own() {
            return outcome;
        }
        self.set_low_mark(half);
        self.note_end(outcome, half.load(half::REASON), end)
    }

    /// How a call with these flags receives.
    pub(super) fn receive_options(&self, flags: i32) -> ReceiveOptions {
        let now = settings::current();
        let spin_ns = u64::from(now.spin_ns);
        let spins = self.state.receives.will_spin(spin_ns, flags);
        let by_message = now.by_message && !now.always_wake;
        ReceiveOptions { flags, spin_ns, spins, by_message }
    }

    /// Whether bytes lie in the ring, or in the kernel where no receive has taken them: a reason to
    /// poll, as [`has_bytes`](Self::has_bytes).
    #[must_use]
    pub fn has_arrivals(&self) -> bool {
        self.receive_half().is_some_and(|half| {
            half.ring().is_ok_and(|ring| ring.filled > 0)
                || !half.in_ring()
                    // Otherwise receives are not counted.
                    && half.load(half::ATTACHED) == 1
                    && matches!(half.load(half::PINNED), 0 | half::AT_REST)
                    && half.load(half::KERNEL) != half.load(half::KERNEL_TAKEN)
        })
    }

    /// Bytes that the peer put into the ring, ever.
    #[must_use]
    pub fn tail(&self) -> u64 {
        self.receive_half().map_or(0, |half| half.load(half::TAIL))
    }

    /// Whether no byte lies in the ring, as one look at its two positions shows. A sender that
    /// publishes later reads the sleepers of the event loop later.
    #[inline]
    #[must_use]
    pub fn has_empty_ring(&self) -> bool {
        self.state.joined_end().is_none_or(|end| {
            let half = half_of(end, Direction::Receive);
            // SeqCst: pairs with `m3ipc_link::notification::publish_tail`.
            half.word(half::TAIL).load(Ordering::SeqCst) == half.load(half::HEAD)
        })
    }
}
