//! The two sides of m3ipc's trips that are cut, and the trace that cuts them.
//!
//! ```text
//! short   sendrec                     receive, send
//! long    sendrec_long                receive_long, reply_long
//! block   sendrec_block, take_block   receive, take_block, reply_block
//! vcopy   sendrec (with its address)  receive, copy_from, send
//! ```

use m3ipc::trace::{Call, Join, Phases, Trace, TraceConfig, TraceWhat, Transfer};
use m3ipc::{Address, AreaConfig, Block, BlockLifetime, Endpoint, Message, Node, Source, Timeout};
use m3ipc_report::schema::{Family, Wait};

use super::stamps::{OURS, phase_trips};
use super::window::{self, is_stamped};
use crate::error::Error;
use crate::job::{Carries, Load, Report, Test};
use crate::payload::{self, MESSAGE_BYTES};
use crate::phase_math::{PARTS, Part};
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::subjects::copy::block;
use crate::subjects::message::{inward, number_in, outward, with_number};
use crate::subjects::node::{BenchVm, VmPeer};

/// Types of messages beside those of the trips, which are not negative.
const ATTACH: i32 = -1;
const END: i32 = -2;
/// Room of an area beside its block, in bytes.
const ROOM_BYTES: u64 = 1 << 20;
/// Records of a ring: the last 8,192 trips, 5,461 of trips with copies.
const SLOTS: u32 = 16_384;
/// Halves of transfers that may wait for their other half when both rings are read at the end.
const HALVES: usize = 1 << 17;

/// m3ipc in a traced VM.
pub struct OursInPhases;

impl Subject for OursInPhases {
    fn name(&self) -> &'static str {
        OURS
    }

    fn family(&self) -> Family {
        Family::Ours
    }

    fn waits(&self, _: &Load) -> &'static [Wait] {
        &[Wait::Spin, Wait::Adaptive, Wait::Block]
    }

    fn open(&self, site: &Site, _: &Load) -> Result<Opened, Error> {
        let vm = BenchVm::open(site)?;
        let (directory, id) = vm.id();
        let mut node = Node::find(directory).map_err(Error::of("reach the node of this run"))?;
        let trace = node.trace(id, TraceConfig { slots: SLOTS, sharp: true });
        let mut trace = trace.map_err(Error::of("trace a VM"))?;
        let mut opened = Opened::pair(vm.inherited("server"), vm.inherited("server")).keeping(vm);
        opened.finish = Some(Box::new(move |reports, found| {
            let [_, client] = *reports else { return Err(Error::PeerGone) };
            found.phases = Some(phase_trips(client, cuts(&mut trace)?)?);
            Ok(())
        }));
        Ok(opened)
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        let peer = VmPeer::new(&inherited)?;
        let Test::Phases { carries, queued } = run.load().test else { return Err(run.refused()) };
        let mut endpoint = peer.bind_with(run.job().wait)?;
        if !run.is_client() {
            endpoint.order_always(queued);
            return server(run, &peer, endpoint, carries);
        }
        let server = peer.find_server(&mut endpoint)?;
        client(run, Client::new(endpoint, server, carries, run.load().bytes)?)
    }
}

/// The calls that the rings hold, each in its parts, in ticks.
fn cuts(trace: &mut Trace) -> Result<Vec<[u64; PARTS]>, Error> {
    let mut join = Join::new(HALVES);
    let read = trace.poll(|endpoint, record| join.add(endpoint, &record));
    read.map_err(Error::of("read the rings"))?;
    let is_copy = |transfer: &Transfer| transfer.what == TraceWhat::Copy;
    let mut copies: Vec<Transfer> = join.take_transfers().into_iter().filter(is_copy).collect();
    copies.sort_by_key(|copy| copy.begun);
    Ok(join.take_calls().iter().map(|call| cut(call, &copies)).collect())
}

/// One call in its parts. A copy by the server belongs to its handling.
fn cut(call: &Call, copies: &[Transfer]) -> [u64; PARTS] {
    let phases = call.phases();
    let Phases { prepare, deliver, to_wake, to_run, to_read, find, copy, sender } = phases.both();
    let (from, to) = (call.request.done, call.answer.begun);
    let first = copies.partition_point(|copy| copy.begun < from);
    let made = copies[first..].iter().take_while(|copy| copy.done <= to);
    let of_call = made.filter(|copy| copy.from == call.request.to && copy.to == call.request.from);
    let copied: u64 = of_call.map(|copy| copy.done.saturating_sub(copy.begun)).sum();
    let mut cut = [0; PARTS];
    for (part, ticks) in [
        (Part::Prepare, prepare),
        (Part::Deliver, deliver),
        (Part::Find, find),
        (Part::Copy, copy + copied),
        (Part::Sender, sender),
        (Part::ToWake, to_wake),
        (Part::ToRun, to_run),
        (Part::ToRead, to_read),
        (Part::Server, phases.server.saturating_sub(copied)),
    ] {
        cut[part as usize] = ticks;
    }
    cut
}

/// The client's end.
struct Client {
    endpoint: Endpoint,
    server: Address,
    carries: Carries,
    payload: Vec<u8>,
    answer: Vec<u8>,
    block: Option<Block>,
}

impl Client {
    /// Prepares the payload.
    fn new(
        mut endpoint: Endpoint,
        server: Address,
        carries: Carries,
        bytes: usize,
    ) -> Result<Self, Error> {
        let block = match carries {
            Carries::Block => Some(make_block(&mut endpoint, server, bytes as u64)?),
            _ => None,
        };
        let has_payload = matches!(carries, Carries::Long | Carries::Vcopy);
        let payload = vec![7; if has_payload { bytes } else { 0 }];
        let answer = vec![0; if carries == Carries::Long { bytes } else { 0 }];
        Ok(Self { endpoint, server, carries, payload, answer, block })
    }

    /// One call; returns the ticks of `now` that it took.
    #[inline]
    fn call(&mut self, trip: u64, now: impl Fn() -> u64) -> Result<u64, Error> {
        let request = payload::Message::request(trip);
        if let Some(number) = self.payload.first_chunk_mut() {
            *number = trip.to_ne_bytes();
        }
        let message = match self.carries {
            Carries::Vcopy => with_number(0, self.payload.as_ptr() as u64),
            Carries::Long | Carries::Block => Message::new(0),
            Carries::Short | Carries::Nothing => outward(&request),
        };
        let (endpoint, server) = (&mut self.endpoint, self.server);
        let from = now();
        let answer = match self.block.take() {
            Some(block) => endpoint
                .sendrec_block(server, &message, block, Timeout::Never)
                .map_err(Error::of("hand a block over"))?,
            None if self.carries == Carries::Long => {
                let (payload, answer) = (&self.payload, &mut self.answer);
                let sent = endpoint.sendrec_long(server, &message, payload, answer, Timeout::Never);
                sent.map_err(Error::of("sendrec"))?.0
            }
            None => endpoint.sendrec(server, &message).map_err(Error::of("sendrec"))?,
        };
        let ticks = now() - from;
        self.check(trip, &request, &answer)?;
        Ok(ticks)
    }

    fn check(
        &mut self,
        trip: u64,
        request: &payload::Message,
        answer: &Message,
    ) -> Result<(), Error> {
        let got = match self.carries {
            Carries::Block => {
                let back = self.endpoint.take_block().map_err(Error::of("take the block back"))?;
                self.block = Some(back.ok_or(Error::PeerGone)?);
                return Ok(());
            }
            Carries::Long => number_at_begin(&self.answer),
            Carries::Vcopy => number_in(answer),
            Carries::Short | Carries::Nothing => {
                let mut received = payload::Message::default();
                inward(answer, &mut received);
                return received.check_answer(request, MESSAGE_BYTES);
            }
        };
        if got == trip { Ok(()) } else { Err(Error::Payload { trip, word: 0, got, wanted: trip }) }
    }
}

fn number_at_begin(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |number| u64::from_ne_bytes(*number))
}

/// A filled block of a new area that the server has attached.
fn make_block(endpoint: &mut Endpoint, server: Address, bytes: u64) -> Result<Block, Error> {
    let area = endpoint.create_area(&AreaConfig::pair(bytes + ROOM_BYTES, server));
    let area = area.map_err(Error::of("make an area"))?;
    let attached = endpoint.sendrec(server, &with_number(ATTACH, area.id().into()));
    attached.map_err(Error::of("let the server attach"))?;
    let block = endpoint.allocate(&area, bytes, BlockLifetime::Short);
    let mut block = block.map_err(Error::of("allocate"))?;
    let mut content = block.to_vec();
    block::fill(&mut content);
    block.copy_from(&content).map_err(Error::of("write a block"))?;
    Ok(block)
}

fn client(run: &Run, mut client: Client) -> Result<Report, Error> {
    let start_ns = run.at_the_start()?;
    let clock = run.job().clock;
    let report = window::drive(run, start_ns, |trip| {
        // Both sides stamp every second block: they have the same machine.
        client.endpoint.stamp_now(trip.stamped);
        client.call(trip.number, || clock.now())
    })?;
    drop(client.block.take());
    let ended = client.endpoint.sendrec(client.server, &Message::new(END));
    ended.map_err(Error::of("end the server"))?;
    Ok(report)
}

fn server(
    run: &Run,
    peer: &VmPeer,
    mut endpoint: Endpoint,
    carries: Carries,
) -> Result<Report, Error> {
    let bytes = run.load().bytes;
    peer.attach_name(&mut endpoint)?;
    // The client may send requests before the start.
    run.ready()?;
    let mut room = vec![0; bytes.max(8)];
    let (mut area, mut trips) = (None, 0);
    loop {
        let received = endpoint.receive_long(Source::Any, &mut room, Timeout::Never);
        let request = received.map_err(Error::of("receive"))?.message;
        let from = request.source;
        match (request.m_type, carries) {
            (END, _) => {
                endpoint.send(from, &Message::new(END)).map_err(Error::of("answer"))?;
                drop(area);
                return Ok(Report { trips, ..Report::default() });
            }
            (ATTACH, _) => {
                let id = u32::try_from(number_in(&request)).map_err(|_| Error::PeerGone)?;
                area = Some(endpoint.attach_area(id).map_err(Error::of("attach"))?);
                endpoint.send(from, &Message::new(ATTACH)).map_err(Error::of("answer"))?;
                continue;
            }
            (_, Carries::Long) => {
                let answered = endpoint.reply_long(from, &Message::new(0), &room[..bytes]);
                answered.map_err(Error::of("answer"))?;
            }
            (_, Carries::Block) => {
                let block = endpoint.take_block().map_err(Error::of("take a block"))?;
                let block = block.ok_or(Error::PeerGone)?;
                let answered = endpoint.reply_block(from, &Message::new(0), block);
                answered.map_err(Error::of("hand a block back"))?;
            }
            (_, Carries::Vcopy) => {
                let copied = endpoint.copy_from(from, number_in(&request), &mut room[..bytes]);
                copied.map_err(Error::of("vcopy"))?;
                let answer = with_number(0, number_at_begin(&room));
                endpoint.send(from, &answer).map_err(Error::of("answer"))?;
            }
            (_, Carries::Short | Carries::Nothing) => {
                let mut received = payload::Message::default();
                inward(&request, &mut received);
                received.check_request(MESSAGE_BYTES)?;
                let answered = endpoint.send(from, &outward(&received.answer()));
                answered.map_err(Error::of("answer"))?;
            }
        }
        trips += 1;
        endpoint.stamp_now(is_stamped(trips));
    }
}
