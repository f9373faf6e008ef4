//! The order of the steps of a publication and of a sleep, which keeps a waiter from sleeping
//! through a message. Endpoints and models run these two functions; the fast path of an endpoint
//! publishes by itself and then runs the halves of the first one.
//!
//! ```text
//! sender: publish_then_wake               receiver: sleep_unless_found
//! S1. publish the message                 R1. read the wake words
//! S2. mark the ready bitmap               R2. publish the wait mode
//! S3. read the receiver's wait mode       R3. poll
//! S4. if it sleeps: change its wake       R4. sleep unless a wake word changed
//!     word, wake it                       R5. publish `Awake`
//! ```
//!
//! A full fence separates S1 from S3, and another one R2 from R3. So the receiver finds the
//! message, or the sender sees the wait mode. In the second case the sender changes the wake word,
//! whose value the receiver read first; the kernel then refuses to sleep on it. S2 follows S1: a
//! mark that the receiver clears must lead it to the message.
//!
//! The take of a message is a publication too: a sender may sleep until then.

use crate::wait_mode::{WaitMode, WakeAction};
use m3ipc_abi::Address;

/// The wait of the peer that a publication ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndsWait {
    /// None: nothing was published, or no peer waits for it.
    None,
    /// A receive from this endpoint or from ANY, which finds links by the ready bitmap.
    Receive,
    /// A wait for this endpoint or for ANY that polls this link in any case.
    OnThisLink,
    /// A wait for exactly this endpoint, or for every take.
    ForThisEndpoint,
}

/// The peer of a publication.
pub trait PublicationPeer {
    /// Marks the link in the peer's ready bitmap, unless the link is in the peer's hot set.
    fn mark_ready(&self);

    /// The peer's wait mode, by [`PeerStatus::mode`](crate::PeerStatus::mode).
    fn peer_mode(&self) -> WaitMode;

    /// Whether the peer surely needs no wake-up: its wait mode is `Awake`.
    fn is_peer_awake(&self) -> bool {
        self.peer_mode() == WaitMode::Awake
    }
}

/// An endpoint that publishes something for one peer.
pub trait Publisher: PublicationPeer {
    /// The address of this endpoint.
    fn address(&self) -> Address;

    /// Wakes the peer. The action is not [`WakeAction::None`].
    fn wake(&mut self, action: WakeAction);
}

/// Publishes, and wakes the peer if it sleeps in a wait that the publication ends.
///
/// # Errors
/// Those of `publish`. Nothing was published then.
#[inline]
pub fn publish_then_wake<P: Publisher, T, E>(
    publisher: &mut P,
    publish: impl FnOnce(&mut P) -> Result<(T, EndsWait), E>,
) -> Result<T, E> {
    let (published, ends) = publish(publisher)?;
    if may_sleep_after_publication(publisher, ends) {
        wake_if_ended(publisher, ends);
    }
    Ok(published)
}

/// The steps S2 and S3 after a publication: see [`publish_then_wake`]. If it returns `true`, step
/// S4 follows: [`wake_if_ended`]. For the fast path, whose publication is no closure.
#[must_use]
#[inline(always)]
pub fn may_sleep_after_publication(peer: &impl PublicationPeer, ends: EndsWait) -> bool {
    if ends == EndsWait::Receive {
        peer.mark_ready();
    }
    ends != EndsWait::None && !peer.is_peer_awake()
}

/// Wakes a peer that seems to sleep, if the publication ends its wait: step S4.
#[cold]
pub fn wake_if_ended<P: Publisher>(publisher: &mut P, ends: EndsWait) {
    let mode = publisher.peer_mode();
    let action = match ends {
        EndsWait::None => WakeAction::None,
        EndsWait::Receive | EndsWait::OnThisLink => mode.wake_action(publisher.address()),
        EndsWait::ForThisEndpoint => mode.exact_wake_action(publisher.address()),
    };
    if action != WakeAction::None {
        publisher.wake(action);
    }
}

/// An endpoint that can sleep.
pub trait Sleeper {
    /// The wake words of the sleep, with their values.
    type Words;
    /// The reason for the failure of a sleep or a poll.
    type Error;

    /// Reads the values of the wake words.
    fn read_wake_words(&mut self) -> Self::Words;

    /// Publishes the wait mode, by [`OwnStatus::set_mode`](crate::OwnStatus::set_mode).
    fn set_mode(&mut self, mode: WaitMode);

    /// Sleeps until a wake word has another value than in `words`. Spurious ends are allowed.
    ///
    /// # Errors
    /// The reason, if the wait must end.
    fn sleep(&mut self, words: Self::Words) -> Result<(), Self::Error>;
}

/// Sleeps once, unless `poll` finds something after the wait mode is public. Returns the find, or
/// `None` after a sleep.
///
/// # Errors
/// Those of `poll` and of [`Sleeper::sleep`]. The mode is `Awake` then, too.
pub fn sleep_unless_found<S: Sleeper, T>(
    sleeper: &mut S,
    mode: WaitMode,
    poll: impl FnOnce(&mut S) -> Result<Option<T>, S::Error>,
) -> Result<Option<T>, S::Error> {
    let words = sleeper.read_wake_words();
    sleeper.set_mode(mode);
    let found = poll(sleeper);
    if !matches!(found, Ok(None)) {
        sleeper.set_mode(WaitMode::Awake);
        return found;
    }
    let slept = sleeper.sleep(words);
    sleeper.set_mode(WaitMode::Awake);
    slept.map(|()| None)
}
