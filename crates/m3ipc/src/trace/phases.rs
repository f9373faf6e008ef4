//! The phases of the M3K and Fiasco study, from the stamps of both sides.
//!
//! ```text
//! sender    begun ─T1─ ready ─T2─ published ┐
//!                                           T5 ── wake ── ran ── read
//! receiver                                     looked ─T3─ found ─T4 (copy, sender)─ done
//! ```
//!
//! Each phase ends where the next begins, so they add up to the whole. The receiver does not wait
//! for the work of a sender after the publication (except the wake-up), so that work is in no
//! phase.

use super::transfer::Transfer;
use core::ops::Add;

/// The phases of one message, in ticks.
///
/// ```
/// # use m3ipc::Address;
/// # use m3ipc::trace::{MessageKind, Phases, TraceWhat, Transfer};
/// # let transfer = Transfer {
/// #     from: Address(1),
/// #     to: Address(2),
/// #     what: TraceWhat::Message(MessageKind::Send),
/// #     sequence: 1,
/// #     answers: 0,
/// #     m_type: 7,
/// #     bytes: 0,
/// #     begun: 10,
/// #     ready: 20,
/// #     published: 30,
/// #     wake: None,
/// #     ran: None,
/// #     looked: 35,
/// #     found: 40,
/// #     taken: 50,
/// #     done: 60,
/// # };
/// // A transfer that began at tick 10, was published at 30, found at 40 and over at 60:
/// let phases = Phases::of(&transfer);
/// assert_eq!((phases.prepare, phases.deliver, phases.find), (10, 10, 5));
/// assert_eq!((phases.switch(), phases.handle(), phases.total()), (5, 20, 50));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// T1: enter the call, find the link, check the rights.
    pub prepare: u64,
    /// T2: write and publish the message.
    pub deliver: u64,
    /// T5 of a sleeping receiver: until the sender begins to wake it.
    pub to_wake: u64,
    /// T5 of a sleeping receiver: until its thread runs.
    pub to_run: u64,
    /// T5: until the poll that finds the message begins. For an awake receiver all of T5.
    pub to_read: u64,
    /// T3: until the receiver knows the message.
    pub find: u64,
    /// T4: copy and take.
    pub copy: u64,
    /// T4: sender, rights, counters; until the return.
    pub sender: u64,
}

impl Phases {
    /// The phases of a message. The example is at [`Phases`].
    #[must_use]
    pub fn of(transfer: &Transfer) -> Self {
        let Transfer { begun, ready, published, wake, ran, looked, found, taken, done, .. } =
            *transfer;
        // A sender that loses its CPU before its stamp stamps late: a found message was published.
        let published = published.min(found).max(ready);
        // A poll may begin before the publication.
        let looked = looked.max(published);
        let found = found.max(looked);
        let (mut from, mut to_wake, mut to_run) = (published, 0, 0);
        // A receiver that ran before the publication, or found the message in the last poll before
        // its sleep, was not woken for it.
        if let (Some((waking, _)), Some(ran)) = (wake, ran)
            && published <= waking
            && waking <= ran
            && ran <= looked
        {
            (to_wake, to_run) = (waking - published, ran - waking);
            from = ran;
        }
        Self {
            prepare: ready.saturating_sub(begun),
            deliver: published.saturating_sub(ready),
            to_wake,
            to_run,
            to_read: looked.saturating_sub(from),
            find: found.saturating_sub(looked),
            copy: taken.saturating_sub(found),
            sender: done.saturating_sub(taken.max(found)),
        }
    }

    /// T4: copy and sender. The example is at [`Phases`].
    #[must_use]
    pub fn handle(&self) -> u64 {
        self.copy + self.sender
    }

    /// T5: from the publication to the poll that finds the message. The example is at [`Phases`].
    #[must_use]
    pub fn switch(&self) -> u64 {
        self.to_wake + self.to_run + self.to_read
    }

    /// All phases. The example is at [`Phases`].
    #[must_use]
    pub fn total(&self) -> u64 {
        self.prepare + self.deliver + self.switch() + self.find + self.handle()
    }
}

impl Add for Phases {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            prepare: self.prepare + other.prepare,
            deliver: self.deliver + other.deliver,
            to_wake: self.to_wake + other.to_wake,
            to_run: self.to_run + other.to_run,
            to_read: self.to_read + other.to_read,
            find: self.find + other.find,
            copy: self.copy + other.copy,
            sender: self.sender + other.sender,
        }
    }
}

/// The phases of a call, in ticks. The example is at [`Call`](super::Call).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallPhases {
    /// The phases of the request.
    pub request: Phases,
    /// From the server's receive to its answer: the server's own work.
    pub server: u64,
    /// The phases of the answer.
    pub answer: Phases,
}

impl CallPhases {
    /// Request and answer together, as in the study. The example is at [`Call`](super::Call).
    #[must_use]
    pub fn both(&self) -> Phases {
        self.request + self.answer
    }

    /// All phases. The example is at [`Call`](super::Call).
    #[must_use]
    pub fn total(&self) -> u64 {
        self.both().total() + self.server
    }
}

#[cfg(test)]
mod tests;
