//! vcopy among the ways to copy a block: between private memories, by the kernel or through a window, and
//! between areas that the requester has attached.
//!
//! ```text
//! requester                          destination, and source of copy2
//!   <-- wait for its name ------------  takes its name; its block is granted, or of an area
//!   --- sendrec(WHERE) -------------->  answers with address, grant, area; waits in receive
//!   === copy_to, copy_between =======>  (blocked in that receive all the time)
//!   --- sendrec(REFILL or CHECK) ---->  fills its block anew, or checks it; answers
//! ```

use m3ipc::{
    Address, Area, AreaConfig, Audience, Block, BlockLifetime as Lasts, CopyError, Endpoint, Grant,
    Location, Message, Rights, Source, Timeout, WaitStrategy,
};

use super::m3ipc::{OpenVm, Place, told};
use crate::copy::buffer::{self, Buffer, LAST};
use crate::copy::way::{Opened, Requester, Way, drive};
use crate::copy::{Kind, Shape};
use crate::error::Error;
use crate::job::{Report, Side, Wait};
use crate::mechanism::{Family, Inherited, Site};
use crate::peer::Run;
use crate::raw;

/// What is asked of a party.
const WHERE: i32 = 1;
const REFILL: i32 = 2;
const CHECK: i32 = 3;
const BYE: i32 = 4;
/// Names of the parties in their VM.
const DESTINATION: &str = "destination";
const SOURCE: &str = "source";
/// Room of an area beside its blocks, in bytes.
const AREA_ROOM_BYTES: u64 = 1 << 20;
/// Tries of the first copy: the party may not wait yet.
const TRIES: u32 = 10_000;

/// How a party's block is named, which decides how it is copied.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// By its address: the kernel copies.
    Address,
    /// By a grant: it goes through a window.
    Grant,
    /// By its address in an area: the requester copies by itself.
    Area,
}

/// vcopy by one of its ways.
pub struct Vcopy {
    name: &'static str,
    by: By,
    wait: Wait,
}

/// Those that are measured.
pub const ALL: [Vcopy; 3] = [
    Vcopy { name: "vcopy", by: By::Address, wait: Wait::Block },
    Vcopy { name: "vcopy-window", by: By::Grant, wait: Wait::Adaptive },
    Vcopy { name: "vcopy-areas", by: By::Area, wait: Wait::Block },
];

/// A block that this process writes and others copy.
enum Memory {
    /// Of its own memory, granted.
    Granted(Grant, std::ops::Range<usize>),
    /// Of its own memory.
    Private(Buffer),
    /// Of an area.
    Shared(Block, std::ops::Range<usize>),
}

impl Memory {
    /// A block in a new area that every member of the VM may attach; also the area's number.
    fn shared(endpoint: &mut Endpoint, bytes: usize, skew: usize) -> Result<(Self, u32), Error> {
        // Room for the requester's block, too.
        let limit_bytes = 2 * bytes as u64 + AREA_ROOM_BYTES;
        let area =
            endpoint.create_area(&AreaConfig::vm(limit_bytes)).map_err(told("make an area"))?;
        Ok((Self::within(endpoint, &area, bytes, skew)?, area.id()))
    }

    fn within(
        endpoint: &mut Endpoint,
        area: &Area,
        bytes: usize,
        skew: usize,
    ) -> Result<Self, Error> {
        let whole = (bytes + skew) as u64;
        let block = endpoint.allocate_pages(area, whole, Lasts::Short).map_err(told("allocate"))?;
        Ok(Self::Shared(block, skew..skew + bytes))
    }

    /// Its content, to be written.
    #[inline]
    fn content<'a>(&'a mut self, endpoint: &'a mut Endpoint) -> Result<&'a mut [u8], Error> {
        match self {
            Self::Granted(grant, range) => {
                Ok(&mut endpoint.granted(*grant).map_err(told("look at a grant"))?[range.clone()])
            }
            Self::Private(buffer) => Ok(buffer.bytes_mut()),
            Self::Shared(block, range) => {
                Ok(&mut block.write().map_err(told("write a block"))?[range.clone()])
            }
        }
    }
}

impl Way for Vcopy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> Family {
        Family::Ours
    }

    fn wait(&self) -> Wait {
        self.wait
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Copy1, Kind::Copy2, Kind::Stream]
    }

    fn open(&self, site: &Site, shape: &Shape) -> Result<Opened, Error> {
        let open = OpenVm::at(site)?;
        let told = |name: &str| Inherited { fds: vec![], names: open.names(name) };
        let mut sides = vec![(Side::Server, told(DESTINATION))];
        if shape.kind == Kind::Copy2 {
            sides.push((Side::Source, told(SOURCE)));
        }
        sides.push((Side::Client, told(DESTINATION)));
        Ok(Opened { sides, keep: vec![Box::new(open)] })
    }

    fn requester(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        let place = Place::new(&inherited)?;
        let mut endpoint = place.vm.bind_any().map_err(told("bind"))?;
        let (to, area) = Party::meet(&mut endpoint, DESTINATION, self.by)?;
        if shape.kind == Kind::Copy2 {
            let (from, _) = Party::meet(&mut endpoint, SOURCE, self.by)?;
            let mut third = Third { endpoint, from, to, bytes: shape.bytes as u64 };
            at_first(|| third.once())?;
            return drive(run, third);
        }
        let mut from = match area {
            Some(area) => Memory::within(&mut endpoint, &area, shape.bytes, shape.source_skew())?,
            None => Memory::Private(Buffer::new(shape.bytes, shape.source_skew())?),
        };
        buffer::fill(from.content(&mut endpoint)?);
        let mut sender = Sender { endpoint, from, to };
        at_first(|| sender.once())?;
        drive(run, sender)
    }

    fn destination(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        self.party(&inherited, run, shape.bytes, shape.destination_skew())
    }

    fn source(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        self.party(&inherited, run, shape.bytes, shape.source_skew())
    }
}

impl Vcopy {
    /// This party's block, and what others are told of it: address (not yet), grant, offset there, area.
    fn memory(
        &self,
        endpoint: &mut Endpoint,
        bytes: usize,
        skew: usize,
    ) -> Result<(Memory, [u64; 4]), Error> {
        if self.by == By::Area {
            let (memory, area) = Memory::shared(endpoint, bytes, skew)?;
            return Ok((memory, [0, 0, 0, area.into()]));
        }
        let (memory, start, bytes) = Buffer::new(bytes, skew)?.into_parts();
        let grant = endpoint.grant(Audience::Vm, memory, Rights::Both).map_err(told("grant"))?;
        Ok((Memory::Granted(grant, start..start + bytes), [0, grant.to_u64(), start as u64, 0]))
    }

    /// Waits in receive for as long as others copy, and does what they ask for.
    fn party(
        &self,
        inherited: &Inherited,
        run: &Run,
        bytes: usize,
        skew: usize,
    ) -> Result<Report, Error> {
        let place = Place::new(inherited)?;
        let mut endpoint = place.vm.bind_any().map_err(told("bind"))?;
        endpoint.set_strategy(if self.wait == Wait::Block {
            WaitStrategy::Block
        } else {
            WaitStrategy::Adaptive
        });
        let (mut memory, mut place_of) = self.memory(&mut endpoint, bytes, skew)?;
        let content = memory.content(&mut endpoint)?;
        buffer::fill(content);
        place_of[0] = content.as_ptr() as u64;
        endpoint.name_attach(&place.name).map_err(told("take a party's name"))?;
        // In the wait for the start it could not be copied with, and the requester's first copy comes before that.
        run.ready()?;
        let before = raw::usage();
        loop {
            let request = endpoint.receive(Source::Any).map_err(told("receive"))?;
            let block = memory.content(&mut endpoint)?;
            let mut answer = Message::new(request.m_type);
            let mut done = Ok(());
            match request.m_type {
                WHERE => answer = words(place_of),
                REFILL => buffer::fill_last(block),
                CHECK => {
                    done = buffer::check_last(block);
                    answer = words([if done.is_ok() { LAST } else { 0 }, 0, 0, 0]);
                }
                _ => {}
            }
            endpoint.send(request.source, &answer).map_err(told("answer"))?;
            done?;
            if request.m_type == CHECK || request.m_type == BYE {
                break;
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

fn words(words: [u64; 4]) -> Message {
    let mut message = Message::new(0);
    message.payload[..32].copy_from_slice(bytemuck::bytes_of(&words));
    message
}

fn words_of(message: &Message) -> [u64; 4] {
    let mut words = [0; 4];
    bytemuck::bytes_of_mut(&mut words).copy_from_slice(&message.payload[..32]);
    words
}

/// The first copy: the party may be on its way back to its receive.
fn at_first(mut copy: impl FnMut() -> Result<(), CopyError>) -> Result<(), Error> {
    for _ in 0..TRIES {
        match copy() {
            Err(CopyError::NotBlocked(_)) => {
                std::thread::sleep(std::time::Duration::from_micros(100))
            }
            done => return done.map_err(told("the first copy")),
        }
    }
    Err(Error::Usage("a party of the copy never waited".into()))
}

/// Another endpoint and where its block is.
struct Party {
    address: Address,
    location: Location,
}

impl Party {
    /// A party, and the area that its block is of, attached here.
    fn meet(endpoint: &mut Endpoint, name: &str, by: By) -> Result<(Self, Option<Area>), Error> {
        let address = endpoint.wait_name(name, Timeout::Never).map_err(told("wait for a party"))?;
        let answer =
            endpoint.sendrec(address, &Message::new(WHERE)).map_err(told("ask a party"))?;
        let [at, grant, offset, area] = words_of(&answer);
        let location = match by {
            By::Grant => Location::Granted(Grant::from_u64(grant), offset),
            By::Address | By::Area => Location::At(at),
        };
        let id = u32::try_from(area).map_err(|_| Error::PeerGone)?;
        let attach = || endpoint.attach_area(id).map_err(told("attach"));
        let area = (by == By::Area).then(attach).transpose()?;
        Ok((Self { address, location }, area))
    }

    fn ask(&self, endpoint: &mut Endpoint, what: i32) -> Result<Message, Error> {
        endpoint.sendrec(self.address, &Message::new(what)).map_err(told("ask a party"))
    }

    /// The end: it must have the last block.
    fn check(&self, endpoint: &mut Endpoint) -> Result<(), Error> {
        // A party that found its block spoilt says so itself.
        if words_of(&self.ask(endpoint, CHECK)?)[0] == LAST { Ok(()) } else { Err(Error::PeerGone) }
    }
}

struct Sender {
    endpoint: Endpoint,
    from: Memory,
    to: Party,
}

impl Sender {
    #[inline]
    fn once(&mut self) -> Result<(), CopyError> {
        let from = match &self.from {
            Memory::Private(buffer) => buffer.bytes(),
            Memory::Shared(block, range) => &block[range.clone()],
            Memory::Granted(..) => &[],
        };
        self.endpoint.copy_to(self.to.address, self.to.location, from)
    }
}

impl Requester for Sender {
    #[inline]
    fn copy(&mut self, trip: u64) -> Result<(), Error> {
        buffer::stamp(self.from.content(&mut self.endpoint)?, trip);
        self.once().map_err(told("vcopy"))
    }

    fn finish(&mut self) -> Result<(), Error> {
        buffer::fill_last(self.from.content(&mut self.endpoint)?);
        self.once().map_err(told("vcopy"))?;
        self.to.check(&mut self.endpoint)
    }
}

struct Third {
    endpoint: Endpoint,
    from: Party,
    to: Party,
    bytes: u64,
}

impl Third {
    #[inline]
    fn once(&mut self) -> Result<(), CopyError> {
        let source = (self.from.address, self.from.location);
        let destination = (self.to.address, self.to.location);
        self.endpoint.copy_between(source, destination, self.bytes, Timeout::Never)
    }
}

impl Requester for Third {
    #[inline]
    fn copy(&mut self, _: u64) -> Result<(), Error> {
        self.once().map_err(told("vcopy"))
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.from.ask(&mut self.endpoint, REFILL)?;
        at_first(|| self.once())?;
        self.to.check(&mut self.endpoint)?;
        self.from.ask(&mut self.endpoint, BYE).map(drop)
    }
}
