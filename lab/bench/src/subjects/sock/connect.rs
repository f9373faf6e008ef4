//! Connections, one after the other: the time of the call, and the time to the first answer.

use super::kinds::SocketKind;
use super::line::Port;
use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::Report;
use crate::raw;
use crate::run::Run;
use crate::subject::Inherited;

/// The byte of a request: another connection follows, or none.
const MORE: u8 = 1;
const LAST: u8 = 2;
/// Connections before the window.
const WARM: u64 = 8;

/// Connects, asks for a byte, and closes, until the time or the limit is over.
pub fn connect(run: &Run, kind: SocketKind, inherited: &Inherited) -> Result<Report, Error> {
    let port = Port::client(kind, inherited)?;
    run.at_the_start()?;
    let (clock, mut report) = (run.job().clock, Report::default());
    let (cost_ns, span_ns) = (clock.cost_ns(), run.load().span_ns);
    let most = run.load().limit.unwrap_or(u64::MAX).saturating_add(WARM);
    let (mut start_ns, mut before) = (monotonic_ns(), raw::usage());
    for number in 0.. {
        if number == WARM {
            (start_ns, before) = (monotonic_ns(), raw::usage());
        }
        // At least one connection is measured, however short the span.
        let is_over = number > WARM && monotonic_ns() - start_ns >= span_ns;
        let is_last = number >= most || is_over;
        let began = clock.now();
        let line = port.next()?;
        let connected = clock.now();
        line.put(&[if is_last { LAST } else { MORE }])?;
        line.get_all(&mut [0])?;
        let answered = clock.now();
        if is_last {
            break;
        }
        if number >= WARM {
            let ns = |end: u64| clock.ns(end - began).saturating_sub(cost_ns);
            report.samples.record(ns(connected));
            report.second.record(ns(answered));
            report.trips += 1;
        }
    }
    report.add_usage(before);
    report.window_ns = monotonic_ns() - start_ns;
    report.window_trips = report.trips;
    Ok(report)
}

/// Accepts connections and answers a byte on each, until the last.
pub fn accept(run: &Run, kind: SocketKind, inherited: Inherited) -> Result<Report, Error> {
    let port = Port::server(kind, inherited)?;
    run.at_the_start()?;
    let before = raw::usage();
    loop {
        let line = port.next()?;
        let mut byte = [0];
        line.get_all(&mut byte)?;
        line.put(&byte)?;
        // The client closes first: the answer must not be lost with the connection.
        line.get(&mut [0])?;
        if byte[0] == LAST {
            return Ok(Report::since(before));
        }
    }
}
