//! Weakenings: what is left out of the protocol to see whether a model notices.
//!
//! Fences, exchanges and orders are weakened one by one at the line of m3ipc-link
//! that has them; a first run finds these lines. The order of whole steps,
//! which callers owe, is weakened by name.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::panic::Location;

/// What can be done to one line of m3ipc-link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cut {
    /// The fence is left out.
    Fence,
    /// The compare-and-swap becomes a load and a store.
    Exchange,
    /// The knock wakes, but leaves its word as it is.
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

/// Steps of a caller in the wrong order, or left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Twist {
    /// The sleeper looks, and then says that it sleeps.
    LookBeforeMode,
    /// The sleeper reads its knock after the last look.
    LookBeforeKnockIsRead,
    /// The sender looks whether the receiver sleeps, and then posts.
    ModeBeforePost,
    /// The receiver takes and wakes nobody.
    TakeInSilence,
    /// A message posted after a withdrawal has the number of the old one.
    SameNumber,
    /// Who gives up looks for an answer before that, and not again.
    LookBeforeGivingUp,
    /// The server takes its answer for posted without looking at the request again.
    AnswerBlindly,
    /// Any answer counts, to whatever request.
    AnyAnswer,
    /// The waiter sleeps on its knock alone, not on the news.
    DeafToNews,
    /// A waiter that hears of a death forgets that its request may have been taken.
    DeathIsNotTaken,
    /// The hint comes before the message.
    HintBeforePost,
    /// The receiver drops the link that loses its watch without a last look.
    NoLookAtFormer,
    /// That look comes before the watch list is changed.
    LookBeforeWatch,
    /// Of two who cross, nobody goes back.
    NobodyYields,
    /// Of two who cross, everybody goes back.
    BothYield,
    /// Who takes an answer does not wake a server that waits for its cell.
    AnswerTakenInSilence,
    /// The flags are looked at before the news that announce them.
    FlagsBeforeNews,
    /// The party of a copy gets up without looking whether somebody copies.
    GetUpBlindly,
    /// The requester copies without asking whether the party lies still.
    CopyUnasked,
    /// A copy ends and the party that sleeps until then is not woken.
    EndInSilence,
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

/// Chooses the weakening of this thread; loom runs all threads of a model on one.
pub fn choose(weakness: Option<Weakness>) {
    CHOSEN.set(weakness);
}

/// Begins to note the lines that are run.
pub fn note_sites() {
    SEEN.set(Some(BTreeSet::new()));
}

/// The lines that were run since.
pub fn noted_sites() -> BTreeSet<Site> {
    SEEN.take().unwrap_or_default()
}

/// Notes how one run has ended: a model that always ends alike shows little.
pub fn note_end(end: impl std::fmt::Debug) {
    ENDS.with_borrow_mut(|ends| ends.insert(format!("{end:?}")));
}

/// The ends of all runs.
pub fn noted_ends() -> BTreeSet<String> {
    ENDS.take()
}

/// Whether steps are twisted so.
pub fn twisted(twist: Twist) -> bool {
    CHOSEN.get() == Some(Weakness::Twist(twist))
}

/// Whether the caller's line is weakened so.
pub fn is_cut(cut: Cut, at: &'static Location<'static>) -> bool {
    if !at.file().contains("src/") {
        return false;
    }
    let site = Site { cut, file: at.file(), line: at.line(), column: at.column() };
    SEEN.with_borrow_mut(|seen| seen.as_mut().is_some_and(|seen| seen.insert(site)));
    CHOSEN.get() == Some(Weakness::Site(site))
}
