//! Receives past the rings, and bytes that arrive there.

use super::Socket;
use crate::buffers::Buffers;
use crate::connection::pairs::PairEnd;
use crate::connection::receive::ReceiveOptions;
use crate::connection::rest;
use crate::connection::ring_half::{Direction, RingHalf};
use crate::connection::socket_state::half_of;
use crate::kernel::{process, ready};
use crate::memory::layout::half;
use crate::outcome::Outcome;
use crate::pin::PinReason;
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

    /// Looks at the outcome of a receive for the end of the stream.
    fn note_end(&self, outcome: Outcome, reason: u64, end: PairEnd) -> Outcome {
        let mut outcome = outcome;
        if outcome == Outcome::Done(0)
            && reason != PinReason::Ended as u64
            && half_of(end, Direction::Send).has_unsignalled()
            && !self.kernel_knows_reset()
            && self.state.receives.tells_reset()
        {
            // The peer ended without reading bytes that the kernel does not know: no orderly end.
            outcome = Outcome::Failed(libc::ECONNRESET);
        }
        match outcome {
            Outcome::Done(bytes) => self.state.note_received(Ok(bytes)),
            Outcome::Failed(errno) => self.state.note_received(Err(errno)),
            Outcome::Kernel | Outcome::Counted(_) => {}
        }
        outcome
    }

    /// Whether the kernel itself reports that the peer ended without reading all bytes. A Unix
    /// socket hangs up in any case.
    fn kernel_knows_reset(&self) -> bool {
        !self.is_unix() && ready::poll_now(self.fd, 0) & (libc::POLLHUP | libc::POLLERR) != 0
    }

    /// Whether this end left the ring that it receives on for good, with nothing in it: the
    /// program's own call obeys the options of the socket.
    pub(super) fn has_left_ring(&self, end: PairEnd, half: &RingHalf) -> bool {
        half.load(half::ATTACHED) > 1
            && !half.in_ring()
            && pass::is_drained(half)
            && !self.state.receives.has_error()
            // Otherwise the end of the stream may be a reset.
            && !half_of(end, Direction::Send).has_unsignalled()
    }

    /// The runs of a receive that a ring serves: those with addresses. TCP needs none where it
    /// discards the bytes.
    pub(super) fn served<'a>(
        &self,
        buffers: Option<Buffers<'a>>,
        flags: i32,
    ) -> Option<Buffers<'a>> {
        if flags & libc::MSG_TRUNC != 0 && !self.state.is_unix() {
            return buffers.filter(|buffers| buffers.total() > 0);
        }
        buffers.and_then(Buffers::addressed)
    }

    /// The outcome of a receive without memory for a byte: at once where bytes lie in the ring.
    #[cold]
    pub(super) fn receive_none(&self, buffers: Option<Buffers<'_>>) -> Outcome {
        match buffers.filter(|_buffers| self.has_bytes()) {
            Some(buffers) if buffers.total() == 0 => Outcome::Done(0),
            Some(_) => Outcome::Failed(libc::EFAULT),
            None => Outcome::Kernel,
        }
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
