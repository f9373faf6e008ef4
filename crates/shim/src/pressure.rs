//! Whether other tasks want the CPUs, by [`Demand`]; read outside of the program's table of
//! descriptors.

use crate::kernel::file::{self, File};
use crate::kernel::{apart, process};
use core::ffi::CStr;
use m3ipc_link::demand::{Demand, System};

static OWN: Demand = Demand::new();

/// The system, read without a descriptor of the program.
struct Apart;

impl System for Apart {
    fn running_tasks() -> Option<u32> {
        text::<64>(c"/proc/loadavg", m3ipc_sys::running_in)
    }

    fn usable_cpus() -> Option<u32> {
        Some(process::cpus())
    }

    fn online_cpus() -> Option<u32> {
        text::<256>(c"/sys/devices/system/cpu/online", m3ipc_sys::cpus_in)
    }

    fn has_quota() -> bool {
        // The close of a descriptor of the standard library is a cancellation point.
        let read = |path: &CStr, room: &mut [u8]| File::open(path).map_or(0, |it| it.read(room));
        apart::run(|| m3ipc_sys::has_cpu_quota_by(&read)).unwrap_or(false)
    }
}

fn text<const N: usize>(path: &CStr, read: fn(&str) -> Option<u32>) -> Option<u32> {
    let mut room = [0_u8; N];
    let length = file::read_whole(path, &mut room);
    read(core::str::from_utf8(room.get(..length)?).ok()?)
}

/// Whether other tasks want the CPUs, or the process has a limit of CPU time.
#[inline]
#[must_use]
pub fn is_on() -> bool {
    OWN.is_on::<Apart>()
}

/// Notes the time that one step of a spin took; whether the spin must end.
#[inline]
pub fn note_step(took_ns: u64) -> bool {
    OWN.note_step::<Apart>(took_ns)
}

/// Before a spin that begins now: asks the system if that is due. Whether the spin must not begin.
#[inline]
pub fn sample(now_ns: u64) -> bool {
    OWN.sample::<Apart>(now_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_read_apart_as_by_the_thread_itself() {
        assert_eq!(Apart::online_cpus(), m3ipc_sys::online_cpus());
        assert_eq!(Apart::usable_cpus(), m3ipc_sys::usable_cpus());
        assert_eq!(Apart::has_quota(), m3ipc_sys::has_cpu_quota());
        assert!(Apart::running_tasks().is_some_and(|running| running > 0));
    }
}
