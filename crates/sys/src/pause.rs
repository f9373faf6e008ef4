//! Pause points: named places at which a test stops a process, to kill it exactly there.
//!
//! They exist in debug builds with the feature `pause-points` only. A process with `M3_PAUSE=name`
//! in its environment sends itself SIGSTOP at `pause_point("name")`. With `M3_PAUSE=name:3` it
//! stops at the third pass.

#[cfg(all(feature = "pause-points", debug_assertions))]
pub use armed::pause_point;

/// Whether this build has pause points.
pub const HAS_PAUSE_POINTS: bool = cfg!(all(feature = "pause-points", debug_assertions));

/// Does nothing: this build has no pause points.
#[cfg(not(all(feature = "pause-points", debug_assertions)))]
#[inline(always)]
pub fn pause_point(_name: &str) {}

#[cfg(all(feature = "pause-points", debug_assertions))]
mod armed {
    use crate::PerProcess;
    use rustix::process::{Signal, getpid, kill_process};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The pause point, and the number of the pass.
    static WANTED: PerProcess<Option<(String, u32)>> = PerProcess::new();
    static PASSED: AtomicU32 = AtomicU32::new(0);

    fn wanted() -> Option<(String, u32)> {
        let text = crate::text_variable("M3_PAUSE")?;
        match text.split_once(':') {
            Some((name, nth)) => Some((name.to_owned(), nth.parse().ok()?)),
            None => Some((text, 1)),
        }
    }

    /// Stops the process if its environment asks for it.
    pub fn pause_point(name: &str) {
        let Some((wanted, nth)) = WANTED.get_or_make(wanted) else { return };
        if wanted == name && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *nth {
            let _ = kill_process(getpid(), Signal::STOP);
        }
    }
}
