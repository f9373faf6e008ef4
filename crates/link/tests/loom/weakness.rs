//! Weakenings: the parts of the protocol that a run leaves out, to see whether a model notices.
//!
//! Fences, exchanges, wake words and orders are weakened one by one, at their line of m3ipc-link. A
//! first run finds these lines. Steps of the callers are weakened by name.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::panic::Location;

/// A change of one line of m3ipc-link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// The line has no fence.
    Fence,
    /// The compare-and-swap becomes a load and a store.
    Exchange,
    /// The wake-up does not change the wake word.
    Bump,
    /// The access becomes relaxed.
    Order,
}

/// One line of m3ipc-link, weakened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    pub cut: Cut,
    pub file: &'static str,
    pub line: u32,
    pub column: u32,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}:{}", self.cut, self.file, self.line)
    }
}

/// A step of a caller in the wrong place, or left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twist {
    /// The waiter polls before it publishes its mode.
    PollBeforeMode,
    /// The waiter reads its wake word after the poll.
    PollBeforeWakeWord,
    /// The sender reads the receiver's mode before the post.
    ModeBeforePost,
    /// The receiver takes a message and does not wake its sender.
    TakeWithoutWakeUp,
    /// A message after a withdrawal has the number of the withdrawn one.
    SameNumber,
    /// The requester polls for the answer before it cancels, and not afterwards.
    PollBeforeCancel,
    /// The server does not check the request again after its answer.
    AnswerBlindly,
    /// An answer to any request counts.
    AnyAnswer,
    /// The waiter sleeps on its wake word, but not on the event word.
    NoEventWord,
    /// After a death, the requester forgets that its request may have been taken.
    DeathIsNotTaken,
    /// The sender sets the ready bit before the post.
    ReadyBitBeforePost,
    /// The receiver does not poll the link that leaves the hot set.
    NoPollOfFormer,
    /// The receiver polls that link before the change of the hot set.
    PollBeforeHotSet,
    /// No party of a crossing withdraws.
    NoPartyYields,
    /// Both parties of a crossing withdraw.
    BothYield,
    /// The requester takes an answer and does not wake a server that awaits its slot.
    AnswerTakenWithoutWakeUp,
    /// The waiter reads the flags before the event word that announces them.
    FlagsBeforeEvents,
    /// A receiver that waited takes all notifications as one.
    MergeInWait,
    /// The party leaves its gate without a check for a copy.
    UnparkBlindly,
    /// The requester copies without the gate.
    CopyWithoutGate,
    /// The requester ends a copy and does not wake the party.
    EndWithoutWakeUp,
    /// The proxy writes its code into the cell of the sender.
    CodeInCell,
    /// The proxy decides and does not wake the sender.
    DecideWithoutWakeUp,
    /// The sender asks for its message and does not wake the proxy.
    AskWithoutWakeUp,
    /// The sender leaves its message behind without a look at what the proxy did.
    LeaveBlindly,
}

/// One weakening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakness {
    Site(Site),
    Twist(Twist),
}

thread_local! {
    static CHOSEN: Cell<Option<Weakness>> = const { Cell::new(None) };
    static ENDS: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    static SEEN: RefCell<Option<BTreeSet<Site>>> = const { RefCell::new(None) };
}

/// Chooses the weakening of this thread. Loom runs all threads of a model on one thread.
pub fn choose(weakness: Option<Weakness>) {
    CHOSEN.set(weakness);
}

/// Begins to note the lines that run.
pub fn note_sites() {
    SEEN.set(Some(BTreeSet::new()));
}

/// The noted lines.
pub fn noted_sites() -> BTreeSet<Site> {
    SEEN.take().unwrap_or_default()
}

/// Notes the end of one run.
pub fn note_end(end: impl std::fmt::Debug) {
    ENDS.with_borrow_mut(|ends| ends.insert(format!("{end:?}")));
}

/// The noted ends of all runs.
pub fn noted_ends() -> BTreeSet<String> {
    ENDS.take()
}

/// Whether this twist is chosen.
pub fn twisted(twist: Twist) -> bool {
    CHOSEN.get() == Some(Weakness::Twist(twist))
}

/// Whether this cut is chosen for the line of the caller.
pub fn is_cut(cut: Cut, at: &'static Location<'static>) -> bool {
    if !at.file().contains("src/") {
        return false;
    }
    let site = Site { cut, file: at.file(), line: at.line(), column: at.column() };
    SEEN.with_borrow_mut(|seen| seen.as_mut().is_some_and(|seen| seen.insert(site)));
    CHOSEN.get() == Some(Weakness::Site(site))
}
