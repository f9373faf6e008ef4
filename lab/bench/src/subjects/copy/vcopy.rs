//! vcopy: between private memories, by the kernel or through the bounce buffer, and between areas.
//!
//! ```text
//! requester                          destination, and source of copy2
//!   <-- waits for its name -----------  takes its name; its block is granted, or of an area
//!   --- sendrec(WHERE) -------------->  answers with address, grant, area; waits in receive
//!   === copy_to, copy_between =======>  (blocked in that receive)
//!   --- sendrec(REFILL or CHECK) ---->  refills its block, or checks it; answers
//! ```

use std::ops::Range;

use m3ipc::{
    Address, Area, AreaConfig, Audience, Block, BlockLifetime, CopyError, CopySource, Endpoint,
    Grant, Location, Message, Rights, Source, Timeout,
};
use m3ipc_report::schema::{Family, Wait};

use super::block::{self, LAST, PrivateBlock};
use crate::ends::ClientEnd;
use crate::error::Error;
use crate::job::{Load, Report, Role, Test};
use crate::payload;
use crate::raw;
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::subjects::message::{with_words, words_of};
use crate::subjects::node::{BenchVm, VmPeer};

/// Requests to a party.
const WHERE: i32 = 1;
const REFILL: i32 = 2;
const CHECK: i32 = 3;
const END: i32 = 4;
/// Names of the parties in their VM.
const DESTINATION: &str = "destination";
const SOURCE: &str = "source";
/// Room of an area beside its blocks, in bytes.
const AREA_ROOM_BYTES: u64 = 1 << 20;
/// Attempts of the first copy: the party may not wait yet.
const ATTEMPTS: u32 = 10_000;

/// The name of a block, which decides the method of the copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockBy {
    /// An address: the kernel copies.
    Address,
    /// A grant: the party copies through the bounce buffer.
    Grant,
    /// An address in an area: the requester copies.
    Area,
}

/// vcopy by one method.
pub struct Vcopy {
    name: &'static str,
    by: BlockBy,
    waits: &'static [Wait],
}

/// The methods.
pub const ALL: [Vcopy; 3] = [
    Vcopy { name: "vcopy", by: BlockBy::Address, waits: &[Wait::Block] },
    Vcopy { name: "vcopy-window", by: BlockBy::Grant, waits: &[Wait::Adaptive] },
    Vcopy { name: "vcopy-areas", by: BlockBy::Area, waits: &[Wait::Block] },
];

impl Subject for Vcopy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> Family {
        Family::Ours
    }

    fn waits(&self, _: &Load) -> &'static [Wait] {
        self.waits
    }

    fn open(&self, site: &Site, load: &Load) -> Result<Opened, Error> {
        let vm = BenchVm::open(site)?;
        let mut opened = Opened::default().with(Role::Server, vm.inherited(DESTINATION));
        if matches!(load.test, Test::Copy2 { .. }) {
            opened = opened.with(Role::Source, vm.inherited(SOURCE));
        }
        Ok(opened.with(Role::Client, vm.inherited(DESTINATION)).keeping(vm))
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        let peer = VmPeer::new(&inherited)?;
        let skew = block::skews(run.load().test);
        match run.job().role {
            Role::Client => self.requester(run, &peer, skew.0),
            Role::Source => self.party(run, &peer, skew.0),
            _ => self.party(run, &peer, skew.1),
        }
    }
}

impl Vcopy {
    fn requester(&self, run: &Run, peer: &VmPeer, skew: usize) -> Result<Report, Error> {
        let mut endpoint = peer.bind()?;
        let bytes = run.load().bytes;
        let (to, area) = Party::meet(&mut endpoint, DESTINATION, self.by)?;
        if matches!(run.load().test, Test::Copy2 { .. }) {
            let (from, _) = Party::meet(&mut endpoint, SOURCE, self.by)?;
            let mut third = Third { endpoint, from, to, bytes: bytes as u64 };
            until_blocked(|| third.copy())?;
            return run.drive(third);
        }
        let mut from = match area {
            Some(area) => Memory::within(&mut endpoint, &area, bytes, skew)?,
            None => Memory::Private(PrivateBlock::new(bytes, skew)?),
        };
        from.with_content(&mut endpoint, block::fill)?;
        let mut sender = Sender { endpoint, from, to };
        until_blocked(|| sender.copy())?;
        run.drive(sender)
    }

    /// The block of a party, and its description: address (later), grant, offset, area.
    fn memory(
        &self,
        endpoint: &mut Endpoint,
        bytes: usize,
        skew: usize,
    ) -> Result<(Memory, [u64; 4]), Error> {
        if self.by == BlockBy::Area {
            // Room for the requester's block, too.
            let config = AreaConfig::vm(2 * bytes as u64 + AREA_ROOM_BYTES);
            let area = endpoint.create_area(&config).map_err(Error::of("make an area"))?;
            let memory = Memory::within(endpoint, &area, bytes, skew)?;
            return Ok((memory, [0, 0, 0, area.id().into()]));
        }
        let (memory, start, bytes) = PrivateBlock::new(bytes, skew)?.into_parts();
        let grant = endpoint.grant(Audience::Vm, memory, Rights::Both);
        let grant = grant.map_err(Error::of("grant"))?;
        let words = [0, grant.to_u64(), start as u64, 0];
        Ok((Memory::Granted(grant, start..start + bytes), words))
    }

    /// Waits in receive while the requester copies, and serves its requests.
    fn party(&self, run: &Run, peer: &VmPeer, skew: usize) -> Result<Report, Error> {
        let mut endpoint = peer.bind_with(run.job().wait)?;
        let (mut memory, mut location) = self.memory(&mut endpoint, run.load().bytes, skew)?;
        memory.with_content(&mut endpoint, block::fill)?;
        location[0] = memory.address(&mut endpoint)?;
        peer.attach_name(&mut endpoint)?;
        // A copy needs this party in receive, and the first copy comes before the start.
        run.ready()?;
        let before = raw::usage();
        loop {
            let request = endpoint.receive(Source::Any).map_err(Error::of("receive"))?;
            let mut answer = Message::new(request.m_type);
            let mut done = Ok(());
            match request.m_type {
                WHERE => answer = with_words(0, location),
                REFILL => memory.with_content(&mut endpoint, block::fill_last)?,
                CHECK => {
                    done = memory.with_content(&mut endpoint, |block| block::check_last(block))?;
                    answer = with_words(0, [if done.is_ok() { LAST } else { 0 }, 0, 0, 0]);
                }
                _ => {}
            }
            endpoint.send(request.source, &answer).map_err(Error::of("answer"))?;
            done?;
            if [CHECK, END].contains(&request.m_type) {
                return Ok(Report::since(before));
            }
        }
    }
}

/// A block that this process writes and other processes copy.
enum Memory {
    /// Granted private memory.
    Granted(Grant, Range<usize>),
    /// Private memory.
    Private(PrivateBlock),
    /// A block of an area.
    Shared(Block, Range<usize>),
}

impl Memory {
    fn within(
        endpoint: &mut Endpoint,
        area: &Area,
        bytes: usize,
        skew: usize,
    ) -> Result<Self, Error> {
        let whole = (bytes + skew) as u64;
        let block = endpoint.allocate_pages(area, whole, BlockLifetime::Short);
        Ok(Self::Shared(block.map_err(Error::of("allocate"))?, skew..skew + bytes))
    }

    /// Reads or changes the content; that of a shared block by a private copy.
    fn with_content<R>(
        &mut self,
        endpoint: &mut Endpoint,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, Error> {
        match self {
            Self::Granted(grant, range) => {
                let granted = endpoint.granted(*grant).map_err(Error::of("access a grant"))?;
                Ok(change(&mut granted[range.clone()]))
            }
            Self::Private(block) => Ok(change(block.bytes_mut())),
            Self::Shared(block, range) => {
                let mut content = block.to_vec();
                let changed = change(&mut content[range.clone()]);
                block.copy_from(&content).map_err(Error::of("write a block"))?;
                Ok(changed)
            }
        }
    }

    /// Writes the number of the trip at both ends.
    #[inline]
    fn stamp(&mut self, endpoint: &mut Endpoint, trip: u64) -> Result<(), Error> {
        let Self::Shared(block, range) = self else {
            return self.with_content(endpoint, |content| block::stamp(content, trip));
        };
        let (first, last) = (trip.to_le_bytes(), (!trip).to_le_bytes());
        block.write_at(range.start, &first).map_err(Error::of("write a block"))?;
        block.write_at(range.end - last.len(), &last).map_err(Error::of("write a block"))
    }

    fn address(&mut self, endpoint: &mut Endpoint) -> Result<u64, Error> {
        match self {
            Self::Shared(block, range) => Ok(block.address() + range.start as u64),
            _ => self.with_content(endpoint, |content| content.as_ptr() as u64),
        }
    }
}

/// Repeats the first copy until the party waits in receive.
fn until_blocked(mut copy: impl FnMut() -> Result<(), CopyError>) -> Result<(), Error> {
    for _ in 0..ATTEMPTS {
        match copy() {
            Err(CopyError::NotBlocked(_)) => {
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            done => return done.map_err(Error::of("the first copy")),
        }
    }
    Err(Error::Usage("a party of the copy never waited".into()))
}

/// Another endpoint and the location of its block.
struct Party {
    address: Address,
    location: Location,
}

impl Party {
    /// A party, and the area of its block, attached here.
    fn meet(
        endpoint: &mut Endpoint,
        name: &str,
        by: BlockBy,
    ) -> Result<(Self, Option<Area>), Error> {
        let address = endpoint.wait_name(name, Timeout::Never);
        let address = address.map_err(Error::of("wait for a party"))?;
        let answer = endpoint.sendrec(address, &Message::new(WHERE));
        let [at, grant, offset, area] = words_of(&answer.map_err(Error::of("ask a party"))?);
        let location = match by {
            BlockBy::Grant => Location::Granted(Grant::from_u64(grant), offset),
            BlockBy::Address | BlockBy::Area => Location::At(at),
        };
        let id = u32::try_from(area).map_err(|_| Error::PeerGone)?;
        let attach = || endpoint.attach_area(id).map_err(Error::of("attach"));
        let area = (by == BlockBy::Area).then(attach).transpose()?;
        Ok((Self { address, location }, area))
    }

    fn ask(&self, endpoint: &mut Endpoint, what: i32) -> Result<Message, Error> {
        endpoint.sendrec(self.address, &Message::new(what)).map_err(Error::of("ask a party"))
    }

    /// The party must have the last block. A wrong block is its own error.
    fn check(&self, endpoint: &mut Endpoint) -> Result<(), Error> {
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
    fn copy(&mut self) -> Result<(), CopyError> {
        let from = match &self.from {
            Memory::Private(block) => CopySource::from(block.bytes()),
            Memory::Shared(block, range) => block.as_source().part(range.start, range.len()),
            Memory::Granted(..) => CopySource::from(&[][..]),
        };
        let Party { address, location } = self.to;
        self.endpoint.copy_source_to(address, location, &from, Timeout::Never)
    }
}

impl ClientEnd for Sender {
    #[inline]
    fn trip(&mut self, request: &payload::Message, _: &mut payload::Message) -> Result<(), Error> {
        self.from.stamp(&mut self.endpoint, request.number())?;
        self.copy().map_err(Error::of("vcopy"))
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.from.with_content(&mut self.endpoint, block::fill_last)?;
        self.copy().map_err(Error::of("vcopy"))?;
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
    fn copy(&mut self) -> Result<(), CopyError> {
        let source = (self.from.address, self.from.location);
        let destination = (self.to.address, self.to.location);
        self.endpoint.copy_between(source, destination, self.bytes, Timeout::Never)
    }
}

impl ClientEnd for Third {
    #[inline]
    fn trip(&mut self, _: &payload::Message, _: &mut payload::Message) -> Result<(), Error> {
        self.copy().map_err(Error::of("vcopy"))
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.from.ask(&mut self.endpoint, REFILL)?;
        until_blocked(|| self.copy())?;
        self.to.check(&mut self.endpoint)?;
        self.from.ask(&mut self.endpoint, END).map(drop)
    }
}
