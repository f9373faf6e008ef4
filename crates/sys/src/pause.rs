//! Pause points: named places where a test has a process stop itself, to kill
//! it exactly there.
//!
//! With the feature `pause-points`, and in debug builds only, the process whose
//! environment says `M3_PAUSE=name` (or `name:3`, for the third time) stops at
//! `pause_point("name")` as if by SIGSTOP. Elsewhere there is nothing.

#[cfg(all(feature = "pause-points", debug_assertions))]
pub use armed::pause_point;

/// Whether this build has pause points.
pub const HAS_PAUSE_POINTS: bool = cfg!(all(feature = "pause-points", debug_assertions));

/// Nothing: this build has no pause points.
#[cfg(not(all(feature = "pause-points", debug_assertions)))]
#[inline(always)]
pub fn pause_point(_name: &str) {}

#[cfg(all(feature = "pause-points", debug_assertions))]
mod armed {
    use rustix::process::{Signal, getpid, kill_process};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Where to stop, and the how manieth time.
    static WANTED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static PASSED: AtomicU32 = AtomicU32::new(0);

    fn wanted() -> Option<(String, u32)> {
        let text = std::env::var("M3_PAUSE").ok()?;
        match text.split_once(':') {
            Some((name, nth)) => Some((name.to_owned(), nth.parse().ok()?)),
            None => Some((text, 1)),
        }
    }

    /// Stops the process where its environment asks for that.
    pub fn pause_point(name: &str) {
        let Some((wanted, nth)) = WANTED.get_or_init(wanted) else { return };
        if wanted == name && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *nth {
            let _ = kill_process(getpid(), Signal::STOP);
        }
    }
}
