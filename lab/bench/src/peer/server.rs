//! The server's loops: answering until told to stop, and dying with a request.

use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use super::say;
use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::{Line, Report};
use crate::mechanism::ServerEnd;
use crate::payload::Message;
use crate::raw;

/// How long a doomed server holds the request, so that its client surely waits.
const HOLD_NS: u64 = 20_000_000;
/// The last part of it is spent awake, so that the time of death is kept to.
const AWAKE_NS: u64 = 200_000;

/// Checks and answers each request until the stop message, which is answered too.
pub fn serve(bytes: usize, mut end: impl ServerEnd) -> Result<Report, Error> {
    let before = raw::usage();
    let mut trips = 0;
    loop {
        let mut request = Message::default();
        end.receive(&mut request)?;
        request.check_request(bytes)?;
        end.send(&request.answer())?;
        if request.is_stop() {
            break;
        }
        trips += 1;
    }
    let after = raw::usage();
    Ok(Report {
        trips,
        cpu_ns: after.cpu_ns - before.cpu_ns,
        switches: after.voluntary_switches - before.voluntary_switches,
        ..Report::default()
    })
}

/// Memory of the server's own, each page touched: the kernel gives it back before it closes descriptors.
pub fn own_memory(megabytes: u32) -> Vec<u8> {
    vec![1; megabytes as usize * 1_048_576]
}

/// Takes one request, says when it will die, and does so by kill -9.
///
/// The time is told beforehand: telling it at the moment itself would wake the
/// supervisor just when the client's error is being timed.
pub fn die_with_request(mut end: impl ServerEnd, own: &[u8]) -> Result<Report, Error> {
    let mut request = Message::default();
    end.receive(&mut request)?;
    let dies_at = monotonic_ns() + HOLD_NS;
    say(&Line::DiesAt(dies_at))?;
    std::thread::sleep(Duration::from_nanos(HOLD_NS - AWAKE_NS));
    while monotonic_ns() < dies_at {
        std::hint::spin_loop();
    }
    std::hint::black_box(own);
    kill_process(getpid(), Signal::KILL).map_err(Error::os("kill -9 of myself"))?;
    Err(Error::Usage("a process outlived its own kill -9".into()))
}
