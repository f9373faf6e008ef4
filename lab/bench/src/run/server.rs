//! The server's loops: answers until the stop message, and a death with a request.

use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::clock::monotonic_ns;
use crate::dialogue::say;
use crate::ends::ServerEnd;
use crate::error::Error;
use crate::job::{Line, Report};
use crate::payload::Message;
use crate::raw;

/// The least time between the request and the death, so that the client surely waits.
const HOLD_NS: u64 = 25_000_000;
/// A random time beyond it. A client wakes by its own clock after some times of sleep, and not all
/// deaths should meet that moment.
const MORE_NS: u64 = 20_000_000;
/// The server is awake for the last part of it, so that the death is on time.
const AWAKE_NS: u64 = 200_000;

/// Checks and answers each request, the stop message included.
///
/// `has_idle`: other clients make trips before the active one. Its first request has the number 0;
/// the resources of earlier trips do not count.
pub fn serve(bytes: usize, has_idle: bool, mut end: impl ServerEnd) -> Result<Report, Error> {
    let mut before = raw::usage();
    let mut trips = 0;
    loop {
        let mut request = Message::default();
        end.receive(&mut request)?;
        request.check_request(bytes)?;
        if has_idle && request.number() == 0 && !request.is_stop() {
            (before, trips) = (raw::usage(), 0);
        }
        end.send(&request.answer())?;
        if request.is_stop() {
            return Ok(Report { trips, ..Report::since(before) });
        }
        trips += 1;
    }
}

/// Memory with every page touched; the kernel frees it before it closes descriptors.
pub fn own_memory(megabytes: u32) -> Vec<u8> {
    vec![1; megabytes as usize * 1_048_576]
}

/// Takes one request, announces the time of death, and kills itself with SIGKILL.
///
/// The announcement comes early: at the moment itself it would wake the supervisor while the
/// client's error is being timed.
pub fn die_with_request(mut end: impl ServerEnd, own: &[u8]) -> Result<Report, Error> {
    let mut request = Message::default();
    end.receive(&mut request)?;
    let hold_ns = HOLD_NS + fastrand::u64(..MORE_NS);
    let dies_at = monotonic_ns() + hold_ns;
    say(&Line::DiesAt(dies_at))?;
    std::thread::sleep(Duration::from_nanos(hold_ns - AWAKE_NS));
    while monotonic_ns() < dies_at {
        std::hint::spin_loop();
    }
    std::hint::black_box(own);
    kill_process(getpid(), Signal::KILL).map_err(Error::os("kill -9 of this process"))?;
    Err(Error::Usage("a process outlived its own kill -9".into()))
}
