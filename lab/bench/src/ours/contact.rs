//! Binds and first contacts, one after the other.

use super::m3ipc::{Place, inward, outward, told};
use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::Report;
use crate::payload::Message;
use crate::peer::Run;

/// Binds, makes contact and unbinds so many times; the last contact stops the server.
pub fn times(place: &Place, run: &Run, times: u32) -> Result<Report, Error> {
    run.at_the_start()?;
    let mut report = Report::default();
    let mut server = None;
    for number in 0..times {
        let last = number + 1 == times;
        let before = monotonic_ns();
        let mut endpoint = place.vm.bind_any().map_err(told("bind"))?;
        report.binds.record(monotonic_ns() - before);
        let server = match server {
            Some(known) => known,
            None => *server.insert(place.server(&mut endpoint)?),
        };
        let request = if last { Message::stop() } else { Message::request(u64::from(number)) };
        let before = monotonic_ns();
        let told_back =
            endpoint.sendrec(server, &outward(&request)).map_err(told("first contact"))?;
        report.samples.record(monotonic_ns() - before);
        let mut answer = Message::default();
        inward(&told_back, &mut answer);
        answer.check_answer(&request, run.bytes())?;
    }
    Ok(report)
}
