//! What the loop remembers of its looks at stand-ins: see [`super::polling`].

use std::time::{Duration, Instant};

/// The pauses between two looks for what nobody rings about.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// What the loop knows at the begin of a pass.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Whether the loop looks again soon, without a sleep.
    pub is_silent: bool,
    /// Whether the daemon may have sent something.
    pub daemon: bool,
}

/// How a stand-in is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Attention {
    /// Whether its descriptor has reported something, or nobody has looked yet.
    pub has_rung: bool,
    /// Whether no peer rings.
    pub is_silent: bool,
    /// Whether it must be loud.
    pub needs_rings: bool,
}

impl Default for Attention {
    fn default() -> Self {
        Self { has_rung: true, is_silent: false, needs_rings: false }
    }
}

/// The looks for what nobody rings about: a take of a request, and a requester that gives up a
/// request that was taken.
#[derive(Debug)]
pub struct Looks {
    next: Option<Instant>,
    pause: Duration,
    /// The last look at all links of all silent stand-ins.
    whole: Instant,
}

impl Default for Looks {
    fn default() -> Self {
        Self { next: None, pause: PAUSES[0], whole: Instant::now() }
    }
}

impl Looks {
    /// When the next look is due.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Something new may need a look.
    pub fn look_soon(&mut self, now: Instant) {
        self.pause = PAUSES[0];
        let soon = now + self.pause;
        self.next = Some(self.next.map_or(soon, |at| at.min(soon)));
    }

    /// Whether a look is due.
    pub fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|at| at <= now)
    }

    /// Whether all links are looked at in this pass: a peer may have cleared the marks of others.
    pub fn begin_whole(&mut self, now: Instant) -> bool {
        let is_due = now.saturating_duration_since(self.whole) >= PAUSES[1];
        if is_due {
            self.whole = now;
        }
        is_due
    }

    /// A look has taken place.
    pub fn looked(&mut self, now: Instant, needed: bool) {
        self.pause = PAUSES[1].min(self.pause * 2);
        self.next = needed.then(|| now + self.pause);
    }
}
