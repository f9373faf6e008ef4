//! Which sockets an epoll set watches: only to look at their rings before the real wait sleeps.
//!
//! Whether something is ready, only the kernel says. What stands here may be wrong (a set that was passed on, registered through a
//! bare system call, closed unseen): then a look is in vain, or missing, and nothing else.

use crate::policy;
use crate::table::{self, Entry};
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use libc::c_int;
use m3_preload::count::{self, Count};

const SETS: usize = 128;
/// A set that watches more is not looked at: the look would cost more than it saves.
pub const WATCHED: usize = 64;
/// A look that is in vain so often in a row is left out, but for one now and then: at doubling distances,
const TIRED: u32 = 4;
/// and at least once in so many waits.
const RETRY: u32 = 1024;

struct Set {
    /// Descriptors that refer to it; 0 is a free place.
    users: AtomicU32,
    /// Descriptors watched, plus one; 0 is a free place.
    fds: [AtomicI32; WATCHED],
    full: AtomicU32,
    mood: Mood,
}

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

static ALL: [Set; SETS] = [const {
    Set {
        users: AtomicU32::new(0),
        fds: [const { AtomicI32::new(0) }; WATCHED],
        full: AtomicU32::new(0),
        mood: Mood::new(),
    }
}; SETS];

/// A place for a new epoll set.
pub fn open() -> Entry {
    let free = ALL
        .iter()
        .position(|set| set.users.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok());
    free.map_or(Entry::Plain, |index| {
        for fd in &ALL[index].fds {
            fd.store(0, Ordering::Relaxed);
        }
        ALL[index].full.store(0, Ordering::Relaxed);
        Entry::Set(index)
    })
}

/// One more descriptor refers to a set.
pub fn keep(index: usize) {
    if let Some(set) = ALL.get(index) {
        set.users.fetch_add(1, Ordering::AcqRel);
    }
}

/// One fewer.
pub fn close(index: usize) {
    if let Some(set) = ALL.get(index) {
        let _ = set.users.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |users| users.checked_sub(1));
    }
}

/// A set watches a descriptor for bytes, or no longer.
pub fn watch(index: usize, fd: c_int, wanted: bool) {
    let Some(set) = ALL.get(index) else { return };
    let place = set.fds.iter().find(|cell| cell.load(Ordering::Relaxed) == fd + 1);
    match (place, wanted) {
        (Some(cell), false) => cell.store(0, Ordering::Relaxed),
        (None, true) => {
            let free = set
                .fds
                .iter()
                .find(|cell| cell.compare_exchange(0, fd + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok());
            if free.is_none() {
                set.full.store(1, Ordering::Relaxed);
            }
        }
        _ => {}
    }
}

/// What looks before a wait on this set: the mood, and the look; `None` where it should sleep at once.
pub fn of_set(fd: c_int) -> Option<(&'static Mood, impl Fn() -> bool)> {
    let Entry::Set(index) = table::get(fd) else { return None };
    let set = ALL.get(index)?;
    if policy::spin_ns() == 0 || set.full.load(Ordering::Relaxed) != 0 {
        return None;
    }
    let talks = || set.fds.iter().filter_map(|cell| crate::look::known(cell.load(Ordering::Relaxed) - 1));
    talks().next()?;
    // Asked last: waits that have nothing to look at say nothing about looking.
    if !set.mood.wants() {
        return None;
    }
    Some((&set.mood, move || talks().any(|talk| talk.has_bytes())))
}

/// Looks again and again, for as long as the policy allows; whether there is something.
pub fn spin(mood: &Mood, look: impl Fn() -> bool) -> bool {
    let start = now_ns();
    let limit = policy::spin_ns();
    let mut hit;
    let mut took;
    loop {
        hit = (0..64).any(|_turn| {
            core::hint::spin_loop();
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
