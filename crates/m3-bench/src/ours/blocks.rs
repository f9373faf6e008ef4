//! vcopy among the ways to copy a block: between private memories, by the kernel or through a window.
//!
//! ```text
//! requester                          destination, and source of copy2
//!   <-- wait for its name ------------  takes its name, grants its block
//!   --- sendrec(WHERE) -------------->  answers with address and grant, waits in receive
//!   === copy_to, copy_between =======>  (blocked in that receive all the time)
//!   --- sendrec(REFILL or CHECK) ---->  fills its block anew, or checks it; answers
//! ```

use m3ipc::{
    Address, Audience, CopyError, Endpoint, Grant, Location, Message, Rights, Source, Strategy, Timeout,
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
/// Tries of the first copy: the party may not wait yet.
const TRIES: u32 = 10_000;

/// vcopy by one of its ways.
pub struct Vcopy {
    name: &'static str,
    /// By grant, and so through a window; by address, and so by the kernel, elsewhere.
    is_granted: bool,
    wait: Wait,
}

/// Those that are measured.
pub const ALL: [Vcopy; 2] = [
    Vcopy { name: "vcopy", is_granted: false, wait: Wait::Block },
    Vcopy { name: "vcopy-window", is_granted: true, wait: Wait::Adaptive },
];

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
        let to = Party::meet(&mut endpoint, DESTINATION, self.is_granted)?;
        if shape.kind == Kind::Copy2 {
            let from = Party::meet(&mut endpoint, SOURCE, self.is_granted)?;
            let mut third = Third { endpoint, from, to, bytes: shape.bytes as u64 };
            at_first(|| third.once())?;
            return drive(run, third);
        }
        let mut from = Buffer::new(shape.bytes, shape.source_skew())?;
        buffer::fill(from.bytes_mut());
        let mut sender = Sender { endpoint, from, to };
        at_first(|| sender.once())?;
        drive(run, sender)
    }

    fn destination(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        self.party(&inherited, run, Buffer::new(shape.bytes, shape.destination_skew())?)
    }

    fn source(&self, inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        let mut block = Buffer::new(shape.bytes, shape.source_skew())?;
        buffer::fill(block.bytes_mut());
        self.party(&inherited, run, block)
    }
}

impl Vcopy {
    /// Waits in receive for as long as others copy, and does what they ask for.
    fn party(&self, inherited: &Inherited, run: &Run, block: Buffer) -> Result<Report, Error> {
        let place = Place::new(inherited)?;
        let mut endpoint = place.vm.bind_any().map_err(told("bind"))?;
        endpoint.set_strategy(if self.wait == Wait::Block { Strategy::Block } else { Strategy::Adaptive });
        let address = block.address() as u64;
        let (memory, start, bytes) = block.into_parts();
        let grant = endpoint.grant(Audience::Vm, memory, Rights::Both).map_err(told("grant"))?;
        endpoint.name_attach(&place.name).map_err(told("take a party's name"))?;
        // In the wait for the start it could not be copied with, and the requester's first copy comes before that.
        run.ready()?;
        let before = raw::usage();
        loop {
            let request = endpoint.receive(Source::Any).map_err(told("receive"))?;
            let memory = endpoint.granted(grant).map_err(told("look at a grant"))?;
            let block = &mut memory[start..start + bytes];
            let mut answer = Message::new(request.m_type);
            let mut done = Ok(());
            match request.m_type {
                WHERE => answer = words([address, grant.to_u64(), start as u64]),
                REFILL => buffer::fill_last(block),
                CHECK => {
                    done = buffer::check_last(block);
                    answer = words([if done.is_ok() { LAST } else { 0 }, 0, 0]);
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

fn words(words: [u64; 3]) -> Message {
    let mut message = Message::new(0);
    message.payload[..24].copy_from_slice(bytemuck::bytes_of(&words));
    message
}

fn words_of(message: &Message) -> [u64; 3] {
    let mut words = [0; 3];
    bytemuck::bytes_of_mut(&mut words).copy_from_slice(&message.payload[..24]);
    words
}

/// The first copy: the party may be on its way back to its receive.
fn at_first(mut copy: impl FnMut() -> Result<(), CopyError>) -> Result<(), Error> {
    for _ in 0..TRIES {
        match copy() {
            Err(CopyError::NotBlocked(_)) => std::thread::sleep(std::time::Duration::from_micros(100)),
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
    fn meet(endpoint: &mut Endpoint, name: &str, is_granted: bool) -> Result<Self, Error> {
        let address = endpoint.wait_name(name, Timeout::Never).map_err(told("wait for a party"))?;
        let answer = endpoint.sendrec(address, &Message::new(WHERE)).map_err(told("ask a party"))?;
        let [at, grant, offset] = words_of(&answer);
        let location =
            if is_granted { Location::Granted(Grant::from_u64(grant), offset) } else { Location::At(at) };
        Ok(Self { address, location })
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
    from: Buffer,
    to: Party,
}

impl Sender {
    #[inline]
    fn once(&mut self) -> Result<(), CopyError> {
        self.endpoint.copy_to(self.to.address, self.to.location, self.from.bytes())
    }
}

impl Requester for Sender {
    #[inline]
    fn copy(&mut self, trip: u64) -> Result<(), Error> {
        buffer::stamp(self.from.bytes_mut(), trip);
        self.once().map_err(told("vcopy"))
    }

    fn finish(&mut self) -> Result<(), Error> {
        buffer::fill_last(self.from.bytes_mut());
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
