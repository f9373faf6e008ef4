//! The phases of the M3K and Fiasco study, cut from the stamps of both sides.
//!
//! ```text
//! giver  begun ─T1─ ready ─T2─ published ┐
//!                                        T5 ── wake ── ran ── read
//! taker                                               └ looked ─T3─ found ─T4 (copy, sender)─ done
//! ```
//! Each ends where the next begins, so they add up to the whole. What a giver does after it has published
//! (waking apart) the taker does not wait for: it is in none of them.

use super::join::Transfer;
use core::ops::Add;

/// Where the time of one message went, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// T1: the call is entered, the link found, rights checked.
    pub prepare: u64,
    /// T2: the message is written and published.
    pub deliver: u64,
    /// T5, of a taker that sleeps: until the giver begins to wake it.
    pub to_wake: u64,
    /// T5, of a taker that sleeps: until its thread runs.
    pub to_run: u64,
    /// T5: until it looks at what it then finds; of a taker that is awake all of T5.
    pub to_read: u64,
    /// T3: until it knows which message that is.
    pub find: u64,
    /// T4: the copy, up to the taking.
    pub copy: u64,
    /// T4: who sent it, what it may, what is counted; up to the return.
    pub sender: u64,
}

impl Phases {
    /// The phases of a message.
    #[must_use]
    pub fn of(transfer: &Transfer) -> Self {
        let Transfer { begun, ready, published, wake, ran, looked, found, taken, done, .. } =
            *transfer;
        // Who publishes and loses its CPU before its stamp stamps late: what was found was published.
        let published = published.min(found).max(ready);
        // A look may have begun before there was anything to find.
        let looked = looked.max(published);
        let found = found.max(looked);
        let (mut from, mut to_wake, mut to_run) = (published, 0, 0);
        // Who ran before the message was there, or found it in the last look before sleeping, was not woken for it.
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

    /// T4: copy and sender.
    #[must_use]
    pub fn handle(&self) -> u64 {
        self.copy + self.sender
    }

    /// T5: from publishing to the look that finds.
    #[must_use]
    pub fn switch(&self) -> u64 {
        self.to_wake + self.to_run + self.to_read
    }

    /// All of it.
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

/// Where the time of a call went, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallPhases {
    /// The request's.
    pub request: Phases,
    /// Between the server's receive and its answer: the server's own work.
    pub server: u64,
    /// The answer's.
    pub answer: Phases,
}

impl CallPhases {
    /// Request and answer together, as the study has them.
    #[must_use]
    pub fn both(&self) -> Phases {
        self.request + self.answer
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.both().total() + self.server
    }
}

#[cfg(test)]
mod tests;
