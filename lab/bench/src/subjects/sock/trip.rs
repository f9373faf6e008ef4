//! Requests and answers of one size, on each of several connections in turn.

use m3ipc::{Address, Endpoint, Source};

use super::counters;
use super::kinds::SocketKind;
use super::line::{Line, Port, wakeups};
use crate::ends::ClientEnd;
use crate::error::Error;
use crate::job::Report;
use crate::payload::Message;
use crate::raw;
use crate::run::Run;
use crate::subject::Inherited;
use crate::subjects::node::VmPeer;

/// Trips on each connection before the window: connections that end soon get no ring.
const WARM_LAPS: u32 = 16;
/// Bytes of a request that hold its number.
const NUMBER: usize = 8;
/// The number of the last request, whose answer is checked as a whole.
const LAST: u64 = u64::MAX / 3;
/// Bytes of a message of IPC2 beside its head.
const PAYLOAD_BYTES: usize = 40;
/// The type of the message that ends the server of IPC2.
const END: i32 = 1;

/// A request without its number.
fn request(bytes: usize) -> Vec<u8> {
    (0_u8..=u8::MAX).cycle().take(bytes).collect()
}

#[inline]
fn stamp(request: &mut [u8], trip: u64) {
    let length = request.len().min(NUMBER);
    request[..length].copy_from_slice(&trip.to_le_bytes()[..length]);
}

/// Turns a request into its answer: inverts the number.
#[inline]
pub fn invert(request: &mut [u8]) {
    let length = request.len().min(NUMBER);
    request[..length].iter_mut().for_each(|byte| *byte = !*byte);
}

#[inline]
fn check(answer: &[u8], trip: u64) -> Result<(), Error> {
    let length = answer.len().min(NUMBER);
    if answer[..length] == (!trip).to_le_bytes()[..length] { Ok(()) } else { Err(wrong(trip)) }
}

#[cold]
fn wrong(trip: u64) -> Error {
    Error::Usage(format!("the answer of trip {trip} is wrong; no figure is given"))
}

struct Client<'a> {
    lines: Vec<Line>,
    next: usize,
    request: Vec<u8>,
    answer: Vec<u8>,
    wakeups: &'a mut Option<u64>,
}

impl Client<'_> {
    #[inline]
    fn ask(&mut self, trip: u64) -> Result<(), Error> {
        stamp(&mut self.request, trip);
        let line = &self.lines[self.next];
        self.next = if self.next + 1 == self.lines.len() { 0 } else { self.next + 1 };
        line.put(&self.request)?;
        line.get_all(&mut self.answer)?;
        check(&self.answer, trip)
    }
}

impl ClientEnd for Client<'_> {
    #[inline]
    fn trip(&mut self, request: &Message, _: &mut Message) -> Result<(), Error> {
        self.ask(request.number())
    }

    fn warm_trips(&self) -> u64 {
        self.lines.len() as u64 * u64::from(WARM_LAPS)
    }

    fn begin_window(&mut self) -> Result<(), Error> {
        counters::begin_window()
    }

    fn stop(&mut self) -> Result<(), Error> {
        // The counters end with the connections.
        *self.wakeups = wakeups(&self.lines);
        self.ask(LAST)?;
        invert(&mut self.answer);
        if self.answer != self.request {
            return Err(wrong(LAST));
        }
        self.lines.iter_mut().try_for_each(Line::end)
    }
}

/// Asks over sockets.
pub fn ask(run: &Run, kind: SocketKind, inherited: &Inherited) -> Result<Report, Error> {
    raw::raise_fd_limit();
    let port = Port::client(kind, inherited)?;
    let lines = (0..run.load().count).map(|_| port.next_without_delay());
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    let (question, answer) = (request(run.load().bytes), request(run.load().bytes));
    let mut counted = None;
    let client = Client { lines, next: 0, request: question, answer, wakeups: &mut counted };
    let report = run.drive(client)?;
    Ok(Report { bells: counted, ..report })
}

/// Answers on one connection until its end.
pub fn answer(run: &Run, kind: SocketKind, inherited: Inherited) -> Result<Report, Error> {
    let port = Port::server(kind, inherited)?;
    run.at_the_start()?;
    let line = port.next_without_delay()?;
    let before = raw::usage();
    let mut request = request(run.load().bytes);
    while line.get(&mut request)? {
        invert(&mut request);
        line.put(&request)?;
    }
    Ok(Report { bells: line.wakeups(), ..Report::since(before) })
}

struct Caller {
    endpoint: Endpoint,
    server: Address,
    bytes: usize,
    request: m3ipc::Message,
}

impl ClientEnd for Caller {
    #[inline]
    fn trip(&mut self, request: &Message, _: &mut Message) -> Result<(), Error> {
        let trip = request.number();
        stamp(&mut self.request.payload[..self.bytes], trip);
        let answer = self.endpoint.sendrec(self.server, &self.request);
        check(&answer.map_err(Error::of("sendrec"))?.payload[..self.bytes], trip)
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.request.m_type = END;
        let answer = self.endpoint.sendrec(self.server, &self.request);
        answer.map(drop).map_err(Error::of("the last sendrec"))
    }
}

/// Asks by IPC2.
pub fn ask_by_ipc(run: &Run, inherited: &Inherited) -> Result<Report, Error> {
    let peer = VmPeer::new(inherited)?;
    let mut endpoint = peer.bind()?;
    let server = peer.find_server(&mut endpoint)?;
    let bytes = run.load().bytes.min(PAYLOAD_BYTES);
    run.drive(Caller { endpoint, server, bytes, request: m3ipc::Message::new(0) })
}

/// Answers by IPC2.
pub fn answer_by_ipc(run: &Run, inherited: &Inherited) -> Result<Report, Error> {
    let peer = VmPeer::new(inherited)?;
    let mut endpoint = peer.bind()?;
    peer.attach_name(&mut endpoint)?;
    run.at_the_start()?;
    let before = raw::usage();
    loop {
        let mut message = endpoint.receive(Source::Any).map_err(Error::of("receive"))?;
        invert(&mut message.payload[..run.load().bytes.min(PAYLOAD_BYTES)]);
        endpoint.send(message.source, &message).map_err(Error::of("answer"))?;
        if message.m_type == END {
            return Ok(Report::since(before));
        }
    }
}
