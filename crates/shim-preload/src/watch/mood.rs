//! Looking before sleeping: again and again for a while, where it was worth it lately.

use crate::policy;
use core::sync::atomic::{AtomicU32, Ordering};
use m3ipc_shim::count::{self, Count};

/// Nanoseconds in which an answer comes that is on its way: looked for without rest.
const SOON_NS: u64 = 2_000;
/// Pauses of the CPU between two looks after that.
const RESTS: u32 = 8;
/// A look that is in vain so often in a row is left out, but for one now and then: at doubling distances,
const TIRED: u32 = 4;
/// and at least once in so many waits.
const RETRY: u32 = 1024;

/// Whether looking was worth it lately.
pub struct Mood {
    vain: AtomicU32,
}

impl Mood {
    pub const fn new() -> Self {
        Self { vain: AtomicU32::new(0) }
    }

    /// Whether to look now.
    pub fn wants(&self) -> bool {
        let vain = self.vain.load(Ordering::Relaxed);
        if vain < TIRED {
            return true;
        }
        self.vain.store(vain.wrapping_add(1).max(TIRED), Ordering::Relaxed);
        vain.is_power_of_two() || vain.is_multiple_of(RETRY)
    }

    fn learn(&self, hit: bool) {
        if hit {
            self.vain.store(0, Ordering::Relaxed);
        } else {
            self.vain.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Looks again and again, for as long as the policy allows; whether there is something.
pub fn spin(mood: &Mood, look: impl Fn() -> bool) -> bool {
    let start = now_ns();
    let limit = policy::spin_ns();
    let mut hit;
    let mut took = 0;
    loop {
        // The other CPU may be a thread of the same core: who looks leaves it most of that.
        let rests = if took < SOON_NS { 1 } else { RESTS };
        hit = (0..64 / rests).any(|_turn| {
            (0..rests).for_each(|_rest| core::hint::spin_loop());
            look()
        });
        took = now_ns().saturating_sub(start);
        if hit || took >= limit {
            break;
        }
        // Whom we look for may wait for this very CPU: it costs little where nobody does.
        let _ = unsafe { crate::raw(libc::SYS_sched_yield, [0; 6]) };
    }
    mood.learn(hit);
    count::add(Count::SpinNs, took);
    count::add(if hit { Count::SpinHits } else { Count::SpinMisses }, 1);
    hit
}

/// The monotonic clock.
pub fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Through the vDSO: no system call, and none of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
