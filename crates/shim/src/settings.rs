//! The settings of this process, which the constructor stores once.

use crate::memory::layout::{RING_BYTES_MAX, RING_BYTES_MIN};
use core::sync::atomic::{AtomicU32, Ordering};

/// The settings that policy and tests may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of each ring: a power of two, from 64 to 64 KiB.
    pub ring_bytes: u32,
    /// Data calls on a socket before it looks for its peer; 0 is at once.
    pub upgrade_after_calls: u32,
    /// Whether the sender sends a wakeup byte for each publish.
    pub always_wake: bool,
    /// The longest spin before a call sleeps, in nanoseconds; 0 is none.
    pub spin_ns: u32,
    /// Whether both ends may lie in one process (for tests).
    pub same_process: bool,
    /// Whether a stream that overflows its ring again and again stays in the kernel.
    pub pins_bulk: bool,
    /// Whether a direction whose small messages need wakeup bytes all the same rests in the kernel.
    pub rests: bool,
    /// Whether the kernel carries a small message that would need a wakeup byte.
    pub by_message: bool,
    /// Whether any connection is upgraded.
    pub on: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ring_bytes: 64 * 1024,
            upgrade_after_calls: 16,
            always_wake: false,
            spin_ns: 50_000,
            same_process: false,
            pins_bulk: true,
            rests: true,
            by_message: true,
            on: true,
        }
    }
}

static RING_BYTES: AtomicU32 = AtomicU32::new(0);
static UPGRADE_AFTER: AtomicU32 = AtomicU32::new(0);
static SPIN_NS: AtomicU32 = AtomicU32::new(0);
static SWITCHES: AtomicU32 = AtomicU32::new(0);

const ALWAYS_WAKE: u32 = 1;
const SAME_PROCESS: u32 = 2;
const ON: u32 = 4;
const PINS_BULK: u32 = 8;
const RESTS: u32 = 16;
const BY_MESSAGE: u32 = 32;

/// Stores the settings. Ring sizes outside of the limits become the nearest allowed size.
pub(crate) fn store(settings: Settings) {
    let limits = (RING_BYTES_MIN as u64, RING_BYTES_MAX as u64);
    let bytes = u64::from(settings.ring_bytes).clamp(limits.0, limits.1).next_power_of_two();
    RING_BYTES.store(u32::try_from(bytes).unwrap_or(64), Ordering::Relaxed);
    UPGRADE_AFTER.store(settings.upgrade_after_calls, Ordering::Relaxed);
    SPIN_NS.store(settings.spin_ns, Ordering::Relaxed);
    let switch = |on: bool, bit: u32| if on { bit } else { 0 };
    let switches = switch(settings.always_wake, ALWAYS_WAKE)
        | switch(settings.same_process, SAME_PROCESS)
        | switch(settings.on, ON)
        | switch(settings.pins_bulk, PINS_BULK)
        | switch(settings.rests, RESTS)
        | switch(settings.by_message, BY_MESSAGE);
    // Release: pairs with the load in `current`.
    SWITCHES.store(switches, Ordering::Release);
}

/// The settings of this process. Before they are stored, nothing is upgraded.
pub(crate) fn current() -> Settings {
    let switches = SWITCHES.load(Ordering::Acquire);
    Settings {
        ring_bytes: RING_BYTES.load(Ordering::Relaxed),
        upgrade_after_calls: UPGRADE_AFTER.load(Ordering::Relaxed),
        always_wake: switches & ALWAYS_WAKE != 0,
        spin_ns: SPIN_NS.load(Ordering::Relaxed),
        same_process: switches & SAME_PROCESS != 0,
        pins_bulk: switches & PINS_BULK != 0,
        rests: switches & RESTS != 0,
        by_message: switches & BY_MESSAGE != 0,
        on: switches & ON != 0,
    }
}
