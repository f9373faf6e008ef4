//! An area that the server has filled comes into the client's process, all pages present.

use m3ipc::{Address, Area, AreaConfig, BlockLifetime, Endpoint, Message, Pages, Source, Timeout};
use m3ipc_report::PAGE_BYTES;
use m3ipc_report::schema::{Family, Wait};

use super::attach::time_attaches;
use crate::error::Error;
use crate::job::{Load, Report, Test};
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::subjects::message::{number_in, with_number};
use crate::subjects::node::{BenchVm, VmPeer};

/// Requests to the server.
const WHERE: i32 = 1;
const SHARE: i32 = 2;
const END: i32 = 4;
/// Bytes of a huge page.
const HUGE_BYTES: usize = 2 << 20;

/// An area with pages of one size.
pub struct AttachedArea {
    name: &'static str,
    pages: Pages,
}

/// Areas of small and of huge pages.
pub const ALL: [AttachedArea; 2] = [
    AttachedArea { name: "area", pages: Pages::Small },
    AttachedArea { name: "area-huge", pages: Pages::Huge },
];

impl Subject for AttachedArea {
    fn name(&self) -> &'static str {
        self.name
    }

    fn family(&self) -> Family {
        Family::Ours
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        if load.test == Test::Attach { &[Wait::Spin] } else { &[] }
    }

    fn open(&self, site: &Site, load: &Load) -> Result<Opened, Error> {
        if self.pages == Pages::Huge {
            check_huge_pages(load.bytes)?;
        }
        let vm = BenchVm::open(site)?;
        Ok(Opened::pair(vm.inherited("server"), vm.inherited("server")).keeping(vm))
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        let peer = VmPeer::new(&inherited)?;
        if run.is_client() { client(run, &peer) } else { self.server(run, &peer) }
    }
}

fn check_huge_pages(bytes: usize) -> Result<(), Error> {
    if bytes < HUGE_BYTES {
        let why = "the area is smaller than a huge page".into();
        return Err(Error::Unavailable { why, next: "larger areas are measured" });
    }
    let text = std::fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap_or_default();
    if text.trim().parse::<usize>().unwrap_or(0).saturating_mul(HUGE_BYTES) < bytes {
        let why = format!("the system's pool has too few huge pages for {bytes} bytes");
        return Err(Error::Unavailable { why, next: "raise vm.nr_hugepages" });
    }
    Ok(())
}

fn client(run: &Run, peer: &VmPeer) -> Result<Report, Error> {
    let mut endpoint = peer.bind_with(Wait::Adaptive)?;
    let server = peer.find_server(&mut endpoint)?;
    let answer = endpoint.sendrec(server, &Message::new(WHERE));
    let number = number_in(&answer.map_err(Error::of("ask for the area"))?);
    let (id, bytes) = (u32::try_from(number).map_err(|_| Error::PeerGone)?, run.load().bytes);
    let attach = |endpoint: &mut Endpoint| {
        let area = endpoint.attach_area(id).map_err(Error::of("attach"))?;
        area.prefault(bytes as u64).map_err(Error::of("map all pages of an area"))?;
        Ok(area)
    };
    let detach = |endpoint: &mut Endpoint, area: Area| {
        endpoint.detach_area(&area).map_err(Error::of("detach"))
    };
    let area = attach(&mut endpoint)?;
    check(&mut endpoint, server, bytes)?;
    detach(&mut endpoint, area)?;
    let report = time_attaches(run, &mut endpoint, attach, detach)?;
    endpoint.sendrec(server, &Message::new(END)).map_err(Error::of("end the server"))?;
    Ok(report)
}

/// Checks each page that the server has written.
fn check(endpoint: &mut Endpoint, server: Address, bytes: usize) -> Result<(), Error> {
    endpoint.sendrec(server, &Message::new(SHARE)).map_err(Error::of("ask for the block"))?;
    let block = endpoint.take_block().map_err(Error::of("take the block"))?;
    let block = block.ok_or(Error::PeerGone)?;
    let pages = (0..block.len()).step_by(PAGE_BYTES);
    let got: u64 = pages.filter_map(|at| block.get(at)).map(u64::from).sum();
    let wanted = (bytes / PAGE_BYTES) as u64;
    if got == wanted { Ok(()) } else { Err(Error::Payload { trip: 0, word: 0, got, wanted }) }
}

impl AttachedArea {
    fn server(&self, run: &Run, peer: &VmPeer) -> Result<Report, Error> {
        let mut endpoint = peer.bind_with(Wait::Adaptive)?;
        let bytes = run.load().bytes as u64;
        let area = endpoint.create_area(&AreaConfig::vm(bytes).pages(self.pages));
        let area = area.map_err(Error::of("make an area"))?;
        let block = endpoint.allocate(&area, bytes, BlockLifetime::Long);
        let mut block = block.map_err(Error::of("allocate"))?;
        for at in (0..block.len()).step_by(PAGE_BYTES) {
            block.set(at, 1).map_err(Error::of("write a block"))?;
        }
        peer.attach_name(&mut endpoint)?;
        run.ready()?;
        loop {
            let request = endpoint.receive(Source::Any).map_err(Error::of("receive"))?;
            let from = request.source;
            if request.m_type == SHARE {
                endpoint
                    .share_block(from, &Message::new(SHARE), &mut block, Timeout::Never)
                    .map_err(Error::of("share a block"))?;
                continue;
            }
            let answer = with_number(WHERE, area.id().into());
            endpoint.send(from, &answer).map_err(Error::of("answer"))?;
            if request.m_type == END {
                return Ok(Report::default());
            }
        }
    }
}
