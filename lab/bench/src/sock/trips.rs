//! Requests and answers of one size, one after the other; of several connections each in its turn.

use m3ipc::{Address, Endpoint, Source};

use super::Shape;
use super::line::{Line, Port};
use super::way::Way;
use crate::copy::Copies;
use crate::copy::way::Requester;
use crate::error::Error;
use crate::job::Report;
use crate::mechanism::Inherited;
use crate::ours::{Place, told};
use crate::peer::Run;
use crate::raw;

/// Bytes of a request that say which it is.
const NUMBER: usize = 8;

/// The request of this number: its bytes in order, the number over the first of them.
fn request(bytes: usize) -> Vec<u8> {
    (0_u8..=u8::MAX).cycle().take(bytes).collect()
}

#[inline]
fn stamp(request: &mut [u8], trip: u64) {
    let length = request.len().min(NUMBER);
    request[..length].copy_from_slice(&trip.to_le_bytes()[..length]);
}

/// The answer to a request: the same, with its number turned over.
#[inline]
pub fn turn(request: &mut [u8]) {
    let length = request.len().min(NUMBER);
    request[..length].iter_mut().for_each(|byte| *byte = !*byte);
}

#[inline]
fn is_answer(answer: &[u8], trip: u64) -> bool {
    let length = answer.len().min(NUMBER);
    answer[..length] == (!trip).to_le_bytes()[..length]
}

fn wrong(trip: u64) -> Error {
    Error::Usage(format!("the answer of trip {trip} is another's, or spoilt; no figure is given"))
}

struct Asker {
    lines: Vec<Line>,
    next: usize,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Asker {
    #[inline]
    fn trip(&mut self, trip: u64) -> Result<(), Error> {
        stamp(&mut self.request, trip);
        let line = &self.lines[self.next];
        self.next = if self.next + 1 == self.lines.len() { 0 } else { self.next + 1 };
        line.put(&self.request)?;
        if !line.get(&mut self.answer)? {
            return Err(Error::PeerGone);
        }
        if is_answer(&self.answer, trip) { Ok(()) } else { Err(wrong(trip)) }
    }
}

impl Requester for Asker {
    #[inline]
    fn copy(&mut self, trip: u64) -> Result<(), Error> {
        self.trip(trip)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.trip(u64::MAX / 3)?;
        turn(&mut self.answer);
        if self.answer != self.request {
            return Err(wrong(u64::MAX / 3));
        }
        self.lines.iter_mut().try_for_each(Line::end)
    }
}

/// Asks.
///
/// # Errors
/// Where a connection fails, or an answer is wrong.
pub fn ask(run: &Run, way: Way, inherited: &Inherited, shape: &Shape) -> Result<Report, Error> {
    raw::raise_fd_limit();
    let port = Port::client(way, inherited)?;
    let lines = (0..shape.connections)
        .map(|_| port.next()?.without_delay())
        .collect::<Result<Vec<_>, _>>()?;
    let asker =
        Asker { lines, next: 0, request: request(shape.bytes), answer: request(shape.bytes) };
    // Bells are counted for as long as the connections are there: the end of a trip of its own.
    let mut bells = None;
    let counted = Counted { asker, bells: &mut bells };
    let mut report = run.drive(Copies(counted))?;
    report.bells = bells;
    Ok(report)
}

struct Counted<'a> {
    asker: Asker,
    bells: &'a mut Option<u64>,
}

impl Requester for Counted<'_> {
    #[inline]
    fn copy(&mut self, trip: u64) -> Result<(), Error> {
        self.asker.trip(trip)
    }

    fn finish(&mut self) -> Result<(), Error> {
        *self.bells = bells(&self.asker.lines);
        self.asker.finish()
    }
}

/// Bells of several connections.
pub fn bells(lines: &[Line]) -> Option<u64> {
    let each: Vec<u64> = lines.iter().filter_map(Line::bells).collect();
    (!each.is_empty()).then(|| each.iter().sum())
}

/// Answers on one connection until its end.
///
/// # Errors
/// Where it fails.
pub fn answer(run: &Run, way: Way, inherited: Inherited, shape: &Shape) -> Result<Report, Error> {
    let port = Port::server(way, inherited)?;
    run.at_the_start()?;
    let line = port.next()?.without_delay()?;
    let before = raw::usage();
    let mut request = request(shape.bytes);
    while line.get(&mut request)? {
        turn(&mut request);
        line.put(&request)?;
    }
    Ok(used(before, line.bells()))
}

/// What an answering side has used.
pub fn used(before: raw::Usage, bells: Option<u64>) -> Report {
    let after = raw::usage();
    Report {
        cpu_ns: after.cpu_ns - before.cpu_ns,
        switches: after.voluntary_switches - before.voluntary_switches,
        bells,
        ..Report::default()
    }
}

/// Bytes of a message of IPC2 beside its head.
const PAYLOAD_BYTES: usize = 40;
/// What ends the server of IPC2.
const END: i32 = 1;

struct Caller {
    endpoint: Endpoint,
    server: Address,
    bytes: usize,
    request: m3ipc::Message,
}

impl Requester for Caller {
    #[inline]
    fn copy(&mut self, trip: u64) -> Result<(), Error> {
        stamp(&mut self.request.payload[..self.bytes], trip);
        let answer = self.endpoint.sendrec(self.server, &self.request).map_err(told("sendrec"))?;
        if is_answer(&answer.payload[..self.bytes], trip) { Ok(()) } else { Err(wrong(trip)) }
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.request.m_type = END;
        self.endpoint
            .sendrec(self.server, &self.request)
            .map(drop)
            .map_err(told("the last sendrec"))
    }
}

/// Asks by IPC2.
///
/// # Errors
/// Where a call fails, or an answer is wrong.
pub fn ask_by_ipc(run: &Run, inherited: &Inherited, shape: &Shape) -> Result<Report, Error> {
    let place = Place::new(inherited)?;
    let mut endpoint = place.vm.bind_any().map_err(told("bind"))?;
    let server = place.server(&mut endpoint)?;
    let bytes = shape.bytes.min(PAYLOAD_BYTES);
    run.drive(Copies(Caller { endpoint, server, bytes, request: m3ipc::Message::new(0) }))
}

/// Answers by IPC2.
///
/// # Errors
/// Where a call fails.
pub fn answer_by_ipc(run: &Run, inherited: &Inherited, shape: &Shape) -> Result<Report, Error> {
    let place = Place::new(inherited)?;
    let mut endpoint = place.vm.bind_any().map_err(told("bind"))?;
    endpoint.name_attach(&place.name).map_err(told("take the server's name"))?;
    run.at_the_start()?;
    let before = raw::usage();
    loop {
        let mut message = endpoint.receive(Source::Any).map_err(told("receive"))?;
        turn(&mut message.payload[..shape.bytes.min(PAYLOAD_BYTES)]);
        endpoint.send(message.source, &message).map_err(told("answer"))?;
        if message.m_type == END {
            return Ok(used(before, None));
        }
    }
}
