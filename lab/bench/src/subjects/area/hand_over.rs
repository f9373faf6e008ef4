//! A block goes to the server and comes back, stamped by both at its two ends.
//!
//! `sendrec` is the same trip without a block: the floor.

use m3ipc::{Address, Area, AreaConfig, Block, BlockLifetime, Endpoint, Message, Source, Timeout};
use m3ipc_report::schema::{Family, Wait};

use crate::ends::ClientEnd;
use crate::error::Error;
use crate::job::{Load, Report, Test};
use crate::payload;
use crate::raw;
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::subjects::copy::block;
use crate::subjects::message::{number_in, with_number};
use crate::subjects::node::{BenchVm, VmPeer};

/// Requests to the server.
const ATTACH: i32 = 1;
const HAND_OVER: i32 = 3;
const END: i32 = 4;
/// Room of an area beside the block, in bytes.
const ROOM_BYTES: u64 = 1 << 20;

/// A trip with a block, or without.
pub struct HandOver {
    name: &'static str,
    carries: bool,
}

/// Both trips.
pub const ALL: [HandOver; 2] =
    [HandOver { name: "block", carries: true }, HandOver { name: "sendrec", carries: false }];

impl Subject for HandOver {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> Family {
        if self.carries { Family::Ours } else { Family::Floor }
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        if load.test == Test::HandOver { &[Wait::Spin] } else { &[] }
    }

    fn open(&self, site: &Site, _: &Load) -> Result<Opened, Error> {
        let vm = BenchVm::open(site)?;
        Ok(Opened::pair(vm.inherited("server"), vm.inherited("server")).keeping(vm))
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        let peer = VmPeer::new(&inherited)?;
        if !run.is_client() {
            return server(run, &peer);
        }
        let mut endpoint = peer.bind_with(Wait::Spin)?;
        let server = peer.find_server(&mut endpoint)?;
        let made = if self.carries {
            Some(make_block(&mut endpoint, server, run.load().bytes as u64)?)
        } else {
            None
        };
        let (area, block) = made.unzip();
        run.drive(Giver { endpoint, server, _area: area, block })
    }
}

/// A filled block in a new area that the server has attached.
fn make_block(
    endpoint: &mut Endpoint,
    server: Address,
    bytes: u64,
) -> Result<(Area, Block), Error> {
    let area = endpoint.create_area(&AreaConfig::pair(bytes + ROOM_BYTES, server));
    let area = area.map_err(Error::of("make an area"))?;
    let answer = endpoint.sendrec(server, &with_number(ATTACH, area.id().into()));
    if answer.map_err(Error::of("let the server attach"))?.m_type != ATTACH {
        return Err(Error::PeerGone);
    }
    let block = endpoint.allocate(&area, bytes, BlockLifetime::Short);
    let mut block = block.map_err(Error::of("allocate"))?;
    fill_block(&mut block)?;
    Ok((area, block))
}

fn server(run: &Run, peer: &VmPeer) -> Result<Report, Error> {
    let mut endpoint = peer.bind_with(Wait::Spin)?;
    peer.attach_name(&mut endpoint)?;
    run.ready()?;
    let mut area = None;
    let before = raw::usage();
    loop {
        let request = endpoint.receive(Source::Any).map_err(Error::of("receive"))?;
        let from = request.source;
        match request.m_type {
            ATTACH => {
                let id = u32::try_from(number_in(&request)).map_err(|_| Error::PeerGone)?;
                area = Some(endpoint.attach_area(id).map_err(Error::of("attach"))?);
                endpoint.send(from, &Message::new(ATTACH)).map_err(Error::of("answer"))?;
            }
            HAND_OVER if area.is_some() => {
                let block = endpoint.take_block().map_err(Error::of("take a block"))?;
                let mut block = block.ok_or(Error::PeerGone)?;
                let trip = block_number(&block)?;
                stamp_block(&mut block, !trip)?;
                let sent = endpoint.reply_block(from, &Message::new(HAND_OVER), block);
                sent.map_err(Error::of("hand a block back"))?;
            }
            other => {
                endpoint.send(from, &Message::new(other)).map_err(Error::of("answer"))?;
                if other == END {
                    return Ok(Report::since(before));
                }
            }
        }
    }
}

struct Giver {
    endpoint: Endpoint,
    server: Address,
    _area: Option<Area>,
    block: Option<Block>,
}

impl ClientEnd for Giver {
    #[inline]
    fn trip(&mut self, request: &payload::Message, _: &mut payload::Message) -> Result<(), Error> {
        let message = Message::new(HAND_OVER);
        let trip = request.number();
        let Some(mut block) = self.block.take() else {
            let answer = self.endpoint.sendrec(self.server, &message);
            return answer.map(drop).map_err(Error::of("sendrec"));
        };
        stamp_block(&mut block, trip)?;
        self.endpoint
            .sendrec_block(self.server, &message, block, Timeout::Never)
            .map_err(Error::of("hand a block over"))?;
        let back = self.endpoint.take_block().map_err(Error::of("take the block back"))?;
        let back = back.ok_or(Error::PeerGone)?;
        let (got, wanted) = (block_number(&back)?, !trip);
        self.block = Some(back);
        if got == wanted { Ok(()) } else { Err(Error::Payload { trip, word: 0, got, wanted }) }
    }

    fn stop(&mut self) -> Result<(), Error> {
        let answer = self.endpoint.sendrec(self.server, &Message::new(END));
        answer.map(drop).map_err(Error::of("end the server"))
    }
}

/// Fills a block by one private copy.
fn fill_block(block: &mut Block) -> Result<(), Error> {
    let mut content = block.to_vec();
    block::fill(&mut content);
    block.copy_from(&content).map_err(Error::of("write a block"))
}

/// Writes the number of the trip at both ends of a block.
#[inline]
fn stamp_block(block: &mut Block, trip: u64) -> Result<(), Error> {
    let end = block.len() - size_of::<u64>();
    block.write_at(0, &trip.to_le_bytes()).map_err(Error::of("write a block"))?;
    block.write_at(end, &(!trip).to_le_bytes()).map_err(Error::of("write a block"))
}

/// The number of the trip, which must stand at both ends of a block.
#[inline]
fn block_number(block: &Block) -> Result<u64, Error> {
    let mut ends = [0; 2 * size_of::<u64>()];
    let (first, last) = ends.split_at_mut(size_of::<u64>());
    block.read_at(0, first).map_err(Error::of("read a block"))?;
    block.read_at(block.len() - size_of::<u64>(), last).map_err(Error::of("read a block"))?;
    block::number(&ends)
}
