//! Connections, one after the other: the time of the call, and until the first byte has been answered.

use super::Shape;
use super::line::Port;
use super::way::Way;
use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::Report;
use crate::mechanism::Inherited;
use crate::peer::Run;
use crate::raw;

/// What is asked on a connection: another will come, or this is the last.
const MORE: u8 = 1;
const LAST: u8 = 2;
/// Connections that are not timed.
const WARM: u64 = 8;

/// Connects, asks a byte, and closes, until time or number are over.
///
/// # Errors
/// Where a connection fails.
pub fn connect(run: &Run, way: Way, inherited: &Inherited, shape: &Shape) -> Result<Report, Error> {
    let port = Port::client(way, inherited)?;
    run.at_the_start()?;
    let (clock, mut report) = (run.job().clock, Report::default());
    let cost_ns = clock.cost_ns();
    let (mut start_ns, mut before) = (monotonic_ns(), raw::usage());
    for number in 0.. {
        if number == WARM {
            (start_ns, before) = (monotonic_ns(), raw::usage());
        }
        let is_last = number >= WARM + shape.most || monotonic_ns() - start_ns >= shape.span_ns;
        let began = clock.now();
        let line = port.next()?;
        let connected = clock.now();
        line.put(&[if is_last { LAST } else { MORE }])?;
        if !line.get(&mut [0])? {
            return Err(Error::PeerGone);
        }
        let answered = clock.now();
        if is_last {
            break;
        }
        if number >= WARM {
            report.samples.record(clock.ns(connected - began).saturating_sub(cost_ns));
            report.binds.record(clock.ns(answered - began).saturating_sub(cost_ns));
            report.trips += 1;
        }
    }
    let after = raw::usage();
    report.window_ns = monotonic_ns() - start_ns;
    report.window_trips = report.trips;
    report.cpu_ns = after.cpu_ns - before.cpu_ns;
    report.switches = after.voluntary_switches - before.voluntary_switches;
    Ok(report)
}

/// Takes connections and answers a byte on each, until the last.
///
/// # Errors
/// Where a connection fails.
pub fn accept(run: &Run, way: Way, inherited: Inherited) -> Result<Report, Error> {
    let port = Port::server(way, inherited)?;
    run.at_the_start()?;
    let before = raw::usage();
    loop {
        let line = port.next()?;
        let mut byte = [0];
        if !line.get(&mut byte)? {
            return Err(Error::PeerGone);
        }
        line.put(&byte)?;
        // The client closes first: what it was told is not to be lost with the connection.
        line.get(&mut [0])?;
        if byte[0] == LAST {
            return Ok(super::trips::used(before, None));
        }
    }
}
