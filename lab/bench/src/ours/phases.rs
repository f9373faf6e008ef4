//! The two sides of trips that are cut, and the trace that cuts them.
//!
//! ```text
//! short   sendrec                     receive, send
//! long    sendrec_long                receive_long, reply_long
//! block   sendrec_block, take_block   receive, take_block, reply_block
//! vcopy   sendrec (where it lies)     receive, copy_from, send
//! ```

use m3ipc::trace::{Trace, TraceConfig, TraceRecord};
use m3ipc::{
    Address, AreaConfig, Block, BlockLifetime, Endpoint, Message, Node, Source, Timeout,
    WaitStrategy,
};

use super::m3ipc::{OpenVm, Place, inward, outward, told};
use crate::clock::monotonic_ns;
use crate::copy::buffer;
use crate::error::Error;
use crate::job::{Report, Wait};
use crate::mechanism::{Inherited, Site};
use crate::payload::{self, MESSAGE_BYTES};
use crate::peer::Run;
use crate::phases::window::{BLOCK, Window, is_stamped};
use crate::phases::{Carries, Shape};

/// Kinds of messages beside those of the trips, which are not negative.
const WHERE: i32 = -1;
const BYE: i32 = -2;
/// The server's name in its VM.
const SERVER: &str = "server";
/// Room of an area beside its block, in bytes.
const ROOM_BYTES: u64 = 1 << 20;
/// Records of a ring: the last 8,192 trips, 5,461 of those that copy.
const SLOTS: u32 = 16_384;
/// Trips before anything is measured.
const WARM_TRIPS: u64 = 8;

/// A VM for one pair, which is traced.
pub struct OpenTrace {
    open: OpenVm,
    trace: Trace,
}

impl OpenTrace {
    /// One with sharp stamps.
    ///
    /// # Errors
    /// Where the VM cannot be traced.
    pub fn begin(site: &Site) -> Result<Self, Error> {
        let open = OpenVm::at(site)?;
        let (directory, vm) = open.place();
        let mut node = Node::find(directory).map_err(told("reach the node of this run"))?;
        let config = TraceConfig { slots: SLOTS, sharp: true };
        let trace = node.trace(vm, config).map_err(told("trace a VM"))?;
        Ok(Self { open, trace })
    }

    /// What both sides are told.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.open.names(SERVER)
    }

    /// Reads what the rings have kept, also of those who have gone.
    ///
    /// # Errors
    /// Where the daemon has gone.
    pub fn read(&mut self, take: impl FnMut(Address, TraceRecord)) -> Result<(), Error> {
        self.trace.poll(take).map(drop).map_err(told("read the rings"))
    }
}

fn bound(inherited: &Inherited, run: &Run) -> Result<(Place, Endpoint), Error> {
    let place = Place::new(inherited)?;
    let mut endpoint = place.vm.bind_any().map_err(told("bind"))?;
    endpoint.set_strategy(match run.job().wait {
        Wait::Spin => WaitStrategy::Spin,
        Wait::Block => WaitStrategy::Block,
        Wait::Adaptive | Wait::Yield => WaitStrategy::Adaptive,
    });
    Ok((place, endpoint))
}

fn with_number(kind: i32, number: u64) -> Message {
    let mut message = Message::new(kind);
    message.payload[..8].copy_from_slice(&number.to_ne_bytes());
    message
}

fn number_in(message: &Message) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = message.payload;
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// The client's end: one trip after the other.
struct Client {
    endpoint: Endpoint,
    server: Address,
    carries: Carries,
    long: Vec<u8>,
    room: Vec<u8>,
    block: Option<Block>,
}

impl Client {
    /// Makes ready what a trip carries.
    fn new(mut endpoint: Endpoint, server: Address, shape: &Shape) -> Result<Self, Error> {
        let mut block = None;
        if shape.carries == Carries::Block {
            let bytes = shape.bytes as u64;
            let config = AreaConfig::pair(bytes + ROOM_BYTES, server);
            let area = endpoint.create_area(&config).map_err(told("make an area"))?;
            let attach = with_number(WHERE, u64::from(area.id()));
            endpoint.sendrec(server, &attach).map_err(told("let the server attach"))?;
            let mut new =
                endpoint.allocate(&area, bytes, BlockLifetime::Short).map_err(told("allocate"))?;
            buffer::fill(new.write().map_err(told("write a block"))?);
            block = Some(new);
        }
        let carried = matches!(shape.carries, Carries::Long | Carries::Vcopy);
        let long = vec![7; if carried { shape.bytes } else { 0 }];
        let room = vec![0; if shape.carries == Carries::Long { shape.bytes } else { 0 }];
        Ok(Self { endpoint, server, carries: shape.carries, long, room, block })
    }

    /// One call; gives the ticks of `now` that it took.
    #[inline]
    fn call(&mut self, trip: u64, now: impl Fn() -> u64) -> Result<u64, Error> {
        let request = payload::Message::request(trip);
        match self.carries {
            Carries::Long => self.long[..8].copy_from_slice(&trip.to_ne_bytes()),
            Carries::Vcopy => self.long[..8].copy_from_slice(&trip.to_ne_bytes()),
            _ => {}
        }
        let (message, long) = match self.carries {
            Carries::Vcopy => (with_number(0, self.long.as_ptr() as u64), &[][..]),
            Carries::Long => (Message::new(0), &self.long[..]),
            _ => (outward(&request), &[][..]),
        };
        let from = now();
        let answer = match self.block.take() {
            Some(block) => {
                let message = Message::new(0);
                let sent =
                    self.endpoint.sendrec_block(self.server, &message, block, Timeout::Never);
                sent.map_err(told("hand a block over"))?
            }
            None if self.carries == Carries::Long => {
                let answered = self.endpoint.sendrec_long(
                    self.server,
                    &message,
                    long,
                    &mut self.room,
                    Timeout::Never,
                );
                answered.map_err(told("sendrec"))?.0
            }
            None => self.endpoint.sendrec(self.server, &message).map_err(told("sendrec"))?,
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
                let back = self.endpoint.take_block().map_err(told("take the block back"))?;
                self.block = Some(back.ok_or(Error::PeerGone)?);
                return Ok(());
            }
            Carries::Long => u64::from_ne_bytes(self.room[..8].try_into().unwrap_or_default()),
            Carries::Vcopy => number_in(answer),
            Carries::Short | Carries::Nothing => {
                let mut heard = payload::Message::default();
                inward(answer, &mut heard);
                return heard.check_answer(request, MESSAGE_BYTES);
            }
        };
        if got == trip { Ok(()) } else { Err(Error::Payload { trip, word: 0, got, wanted: trip }) }
    }
}

/// Is the client: warm until the start, then measured.
///
/// # Errors
/// Where a call fails or an answer is wrong.
pub fn client(inherited: &Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
    let (place, mut endpoint) = bound(inherited, run)?;
    let server = place.server(&mut endpoint)?;
    let mut client = Client::new(endpoint, server, shape)?;
    let start_ns = run.at_the_start()?;
    let clock = run.job().clock;
    let mut window = Window::new();
    let (mut trips, mut until_ns) = (0_u64, u64::MAX);
    loop {
        let mut ticks = [0; BLOCK];
        // Every second block is stamped, on both sides: they have the same machine.
        let stamped = is_stamped(trips);
        client.endpoint.stamp_now(stamped);
        for place in &mut ticks {
            *place = client.call(trips, || clock.now())?;
            trips += 1;
        }
        let now_ns = monotonic_ns();
        if until_ns == u64::MAX {
            if now_ns >= start_ns && trips >= WARM_TRIPS {
                until_ns = now_ns + shape.span_ns;
            }
            continue;
        }
        window.keep(stamped, ticks);
        if now_ns >= until_ns {
            break;
        }
    }
    drop(client.block.take());
    client.endpoint.sendrec(server, &Message::new(BYE)).map_err(told("end the server"))?;
    let mut report = Report { trips, ..Report::default() };
    window.report(clock, &mut report);
    Ok(report)
}

/// Is the server, until it is told to end.
///
/// # Errors
/// Where a call fails.
pub fn server(inherited: &Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
    let (place, mut endpoint) = bound(inherited, run)?;
    endpoint.order_always(shape.queued);
    endpoint.name_attach(&place.name).map_err(told("take the server's name"))?;
    // The client may ask for things before the start.
    run.ready()?;
    let mut room = vec![0; shape.bytes.max(8)];
    let mut area = None;
    let mut trips = 0;
    loop {
        let received = endpoint.receive_long(Source::Any, &mut room, Timeout::Never);
        let request = received.map_err(told("receive"))?.message;
        let from = request.source;
        match (request.m_type, shape.carries) {
            (BYE, _) => {
                endpoint.send(from, &Message::new(BYE)).map_err(told("answer"))?;
                drop(area);
                return Ok(Report { trips, ..Report::default() });
            }
            (WHERE, _) => {
                let id = u32::try_from(number_in(&request)).map_err(|_| Error::PeerGone)?;
                area = Some(endpoint.attach_area(id).map_err(told("attach"))?);
                endpoint.send(from, &Message::new(WHERE)).map_err(told("answer"))?;
                continue;
            }
            (_, Carries::Long) => {
                let answered = endpoint.reply_long(from, &Message::new(0), &room[..shape.bytes]);
                answered.map_err(told("answer"))?;
            }
            (_, Carries::Block) => {
                let block: Block =
                    endpoint.take_block().map_err(told("take a block"))?.ok_or(Error::PeerGone)?;
                let answered = endpoint.reply_block(from, &Message::new(0), block);
                answered.map_err(told("hand a block back"))?;
            }
            (_, Carries::Vcopy) => {
                let copied =
                    endpoint.copy_from(from, number_in(&request), &mut room[..shape.bytes]);
                copied.map_err(told("vcopy"))?;
                let number = u64::from_ne_bytes(room[..8].try_into().unwrap_or_default());
                endpoint.send(from, &with_number(0, number)).map_err(told("answer"))?;
            }
            (_, Carries::Short | Carries::Nothing) => {
                let mut heard = payload::Message::default();
                inward(&request, &mut heard);
                heard.check_request(MESSAGE_BYTES)?;
                endpoint.send(from, &outward(&heard.answer())).map_err(told("answer"))?;
            }
        }
        trips += 1;
        endpoint.stamp_now(is_stamped(trips));
    }
}
