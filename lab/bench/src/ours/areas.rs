//! Areas among what is measured of memory: attached, handed over, allocated in.
//!
//! ```text
//! area        attach     an area whose pages are all there, ready to be read and written
//! block       handover   a block goes to the server and comes back, stamped by both at its two ends
//! sendrec     handover   a message goes and comes, nothing with it: what hand-over is to stay below
//! area-pool   pool       blocks of an area
//! ```

use m3ipc::{
    Address, Area, AreaConfig, Block, BlockLifetime, Endpoint, Message, Pages, Source, Timeout,
    WaitStrategy,
};

use super::m3ipc::{OpenVm, Place, told};
use crate::area::way::Way;
use crate::area::{Shape, Test, Turnover, time_attaches};
use crate::copy::buffer;
use crate::copy::way::{Opened, Requester, drive};
use crate::error::Error;
use crate::job::{Report, Side};
use crate::mechanism::{Family, Inherited, Site};
use crate::peer::Run;
use crate::raw;
use crate::raw::mapping::PAGE_BYTES;

/// Kinds of messages.
const WHERE: i32 = 1;
const LOOK: i32 = 2;
const HAND: i32 = 3;
const BYE: i32 = 4;
/// The server's name in its VM.
const SERVER: &str = "server";
/// Room of an area beside the block that is measured, in bytes.
const ROOM_BYTES: u64 = 1 << 20;
/// Room for the pool, in times what is out.
const POOL_FACTOR: u64 = 4;

/// Those that are measured.
pub const ALL: [&dyn Way; 5] = [
    &Attached { name: "area", pages: Pages::Small },
    &Attached { name: "area-huge", pages: Pages::Huge },
    &HandedOver { name: "block", carries: true },
    &HandedOver { name: "sendrec", carries: false },
    &Pool,
];

fn both(site: &Site) -> Result<Opened, Error> {
    let open = OpenVm::at(site)?;
    let told = || Inherited { fds: vec![], names: open.names(SERVER) };
    let sides = vec![(Side::Server, told()), (Side::Client, told())];
    Ok(Opened { sides, keep: vec![Box::new(open)] })
}

/// Binds with the strategy of what is measured awake.
fn bound(inherited: &Inherited, strategy: WaitStrategy) -> Result<(Place, Endpoint), Error> {
    let place = Place::new(inherited)?;
    let mut endpoint = place.vm.bind_any().map_err(told("bind"))?;
    endpoint.set_strategy(strategy);
    Ok((place, endpoint))
}

fn number_in(message: &Message) -> u32 {
    u32::from_ne_bytes([
        message.payload[0],
        message.payload[1],
        message.payload[2],
        message.payload[3],
    ])
}

fn with_number(kind: i32, number: u32) -> Message {
    let mut message = Message::new(kind);
    message.payload[..4].copy_from_slice(&number.to_ne_bytes());
    message
}

/// An area that the server has filled comes into the client's process.
struct Attached {
    name: &'static str,
    pages: Pages,
}

impl Way for Attached {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> Family {
        Family::Ours
    }

    fn test(&self) -> Test {
        Test::Attach
    }

    fn open(&self, site: &Site, shape: &Shape) -> Result<Opened, Error> {
        if self.pages == Pages::Huge && shape.bytes < HUGE_BYTES {
            return Err(Error::Unavailable {
                why: "the area is smaller than a huge page".into(),
                next: "larger ones are measured",
            });
        }
        if self.pages == Pages::Huge && free_huge_bytes() < shape.bytes {
            return Err(Error::Unavailable {
                why: format!("the system's pool has too few huge pages for {} bytes", shape.bytes),
                next: "raise vm.nr_hugepages",
            });
        }
        both(site)
    }

    fn client(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        let (place, mut endpoint) = bound(&inherited, WaitStrategy::Adaptive)?;
        let server = place.server(&mut endpoint)?;
        let answer =
            endpoint.sendrec(server, &Message::new(WHERE)).map_err(told("ask for the area"))?;
        let (id, bytes) = (number_in(&answer), shape.bytes as u64);
        let attach = |endpoint: &mut Endpoint| {
            let area = endpoint.attach_area(id).map_err(told("attach"))?;
            area.prefault(bytes).map_err(told("map all pages of an area"))?;
            Ok(area)
        };
        let area = attach(&mut endpoint)?;
        check(&mut endpoint, server, shape)?;
        let detach = |endpoint: &mut Endpoint, area: Area| {
            endpoint.detach_area(&area).map_err(told("detach"))
        };
        detach(&mut endpoint, area)?;
        let report = time_attaches(run, shape, &mut endpoint, attach, detach)?;
        endpoint.sendrec(server, &Message::new(BYE)).map_err(told("end the server"))?;
        Ok(report)
    }

    fn server(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        let (place, mut endpoint) = bound(&inherited, WaitStrategy::Adaptive)?;
        let bytes = shape.bytes as u64;
        let area = endpoint
            .create_area(&AreaConfig::vm(bytes).pages(self.pages))
            .map_err(told("make an area"))?;
        let mut block =
            endpoint.allocate(&area, bytes, BlockLifetime::Long).map_err(told("allocate"))?;
        let content = block.write().map_err(told("write a block"))?;
        content.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
        endpoint.name_attach(&place.name).map_err(told("take the server's name"))?;
        run.ready()?;
        loop {
            let request = endpoint.receive(Source::Any).map_err(told("receive"))?;
            if request.m_type == LOOK {
                endpoint
                    .share_block(request.source, &Message::new(LOOK), &mut block, Timeout::Never)
                    .map_err(told("share a block"))?;
                continue;
            }
            endpoint
                .send(request.source, &with_number(WHERE, area.id()))
                .map_err(told("answer"))?;
            if request.m_type == BYE {
                return Ok(Report::default());
            }
        }
    }
}

/// Bytes of a huge page.
const HUGE_BYTES: usize = 2 << 20;

/// Bytes of the pool of huge pages that nobody uses.
fn free_huge_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap_or_default();
    text.trim().parse::<usize>().unwrap_or(0).saturating_mul(HUGE_BYTES)
}

/// The client sees what the server wrote, at each page.
fn check(endpoint: &mut Endpoint, server: Address, shape: &Shape) -> Result<(), Error> {
    endpoint.sendrec(server, &Message::new(LOOK)).map_err(told("ask for the block"))?;
    let block = endpoint.take_block().map_err(told("take the block"))?.ok_or(Error::PeerGone)?;
    let seen: u64 = block.iter().step_by(PAGE_BYTES).map(|&byte| u64::from(byte)).sum();
    let wanted = (shape.bytes / PAGE_BYTES) as u64;
    if seen == wanted {
        Ok(())
    } else {
        Err(Error::Payload { trip: 0, word: 0, got: seen, wanted })
    }
}

/// A block goes there and back; or a message alone.
struct HandedOver {
    name: &'static str,
    carries: bool,
}

impl Way for HandedOver {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> Family {
        if self.carries { Family::Ours } else { Family::Floor }
    }

    fn test(&self) -> Test {
        Test::HandOver
    }

    fn open(&self, site: &Site, _: &Shape) -> Result<Opened, Error> {
        both(site)
    }

    fn client(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        let (place, mut endpoint) = bound(&inherited, WaitStrategy::Spin)?;
        let server = place.server(&mut endpoint)?;
        let (mut area, mut block) = (None, None);
        if self.carries {
            let bytes = shape.bytes as u64;
            let made = endpoint
                .create_area(&AreaConfig::pair(bytes + ROOM_BYTES, server))
                .map_err(told("make an area"))?;
            let answer = endpoint
                .sendrec(server, &with_number(WHERE, made.id()))
                .map_err(told("let the server attach"))?;
            if answer.m_type != WHERE {
                return Err(Error::PeerGone);
            }
            let mut new =
                endpoint.allocate(&made, bytes, BlockLifetime::Short).map_err(told("allocate"))?;
            buffer::fill(new.write().map_err(told("write a block"))?);
            (area, block) = (Some(made), Some(new));
        }
        drive(run, Giver { endpoint, server, _area: area, block })
    }

    fn server(&self, inherited: Inherited, run: &Run, _: &Shape) -> Result<Report, Error> {
        let (place, mut endpoint) = bound(&inherited, WaitStrategy::Spin)?;
        endpoint.name_attach(&place.name).map_err(told("take the server's name"))?;
        run.ready()?;
        let mut area = None;
        let before = raw::usage();
        loop {
            let request = endpoint.receive(Source::Any).map_err(told("receive"))?;
            match request.m_type {
                WHERE => {
                    area = Some(endpoint.attach_area(number_in(&request)).map_err(told("attach"))?);
                    endpoint.send(request.source, &Message::new(WHERE)).map_err(told("answer"))?;
                }
                HAND if area.is_some() => {
                    let block = endpoint.take_block().map_err(told("take a block"))?;
                    let mut block = block.ok_or(Error::PeerGone)?;
                    let content = block.write().map_err(told("write a block"))?;
                    let trip = buffer::number(content)?;
                    buffer::stamp(content, !trip);
                    endpoint
                        .reply_block(request.source, &Message::new(HAND), block)
                        .map_err(told("hand a block back"))?;
                }
                kind => {
                    endpoint.send(request.source, &Message::new(kind)).map_err(told("answer"))?;
                    if kind == BYE {
                        break;
                    }
                }
            }
        }
        let used = raw::usage();
        Ok(Report {
            cpu_ns: used.cpu_ns - before.cpu_ns,
            switches: used.voluntary_switches - before.voluntary_switches,
            ..Report::default()
        })
    }
}

struct Giver {
    endpoint: Endpoint,
    server: Address,
    _area: Option<Area>,
    block: Option<Block>,
}

impl Requester for Giver {
    #[inline]
    fn copy(&mut self, trip: u64) -> Result<(), Error> {
        let message = Message::new(HAND);
        let Some(mut block) = self.block.take() else {
            return self.endpoint.sendrec(self.server, &message).map(drop).map_err(told("sendrec"));
        };
        buffer::stamp(block.write().map_err(told("write a block"))?, trip);
        self.endpoint
            .sendrec_block(self.server, &message, block, Timeout::Never)
            .map_err(told("hand a block over"))?;
        let back = self
            .endpoint
            .take_block()
            .map_err(told("take the block back"))?
            .ok_or(Error::PeerGone)?;
        let got = buffer::number(&back)?;
        self.block = Some(back);
        if got == !trip {
            Ok(())
        } else {
            Err(Error::Payload { trip, word: 0, got, wanted: !trip })
        }
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.endpoint
            .sendrec(self.server, &Message::new(BYE))
            .map(drop)
            .map_err(told("end the server"))
    }
}

/// Blocks of an area, in one process.
struct Pool;

impl Way for Pool {
    fn name(&self) -> &'static str {
        "area-pool"
    }

    fn family(&self) -> Family {
        Family::Ours
    }

    fn test(&self) -> Test {
        Test::Pool
    }

    fn open(&self, site: &Site, _: &Shape) -> Result<Opened, Error> {
        let open = OpenVm::at(site)?;
        let sides = vec![(Side::Client, Inherited { fds: vec![], names: open.names(SERVER) })];
        Ok(Opened { sides, keep: vec![Box::new(open)] })
    }

    fn client(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        let (_place, mut endpoint) = bound(&inherited, WaitStrategy::Adaptive)?;
        let limit_bytes = shape.bytes.max(4096) as u64 * 1_000 * POOL_FACTOR;
        let area =
            endpoint.create_area(&AreaConfig::vm(limit_bytes)).map_err(told("make an area"))?;
        let take = |bytes: usize, old: Option<Block>| {
            drop(old);
            endpoint.allocate(&area, bytes as u64, BlockLifetime::Short).map_err(told("allocate"))
        };
        drive(run, Turnover::new(shape.bytes, take)?)
    }
}
