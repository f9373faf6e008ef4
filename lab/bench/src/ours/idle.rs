//! Many endpoints of one process: clients that keep still, and a mesh of links.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;

use m3ipc::{Address, Endpoint, Node, Source};

use super::m3ipc::{Place, inward, outward, told};
use crate::error::Error;
use crate::job::Report;
use crate::payload::Message;
use crate::peer::Run;
use crate::raw;

/// Stacks are small: a thousand threads share one process.
const STACK_BYTES: usize = 128 * 1024;
/// What each thread has touched of its stack before anything is measured.
const TOUCHED_BYTES: usize = 48 * 1024;

type Word = Result<(), Error>;

/// Threads that each own an endpoint, and what they said.
struct Threads {
    words: Receiver<Word>,
    count: u32,
}

impl Threads {
    /// Starts so many; each touches its stack, waits for `bind`, binds, does its work and
    /// says how that ended; it keeps its endpoint until the process ends.
    fn start(
        place: &Place,
        count: u32,
        work: impl Fn(&mut Endpoint, &Sender<Word>) -> Word + Send + Sync + 'static,
    ) -> Result<(Self, Arc<Barrier>), Error> {
        let (say, words) = channel();
        let work = Arc::new(work);
        let bind = Arc::new(Barrier::new(count as usize + 1));
        for _ in 0..count {
            let (vm, say, work, bind) =
                (place.vm.clone(), say.clone(), Arc::clone(&work), Arc::clone(&bind));
            let body = move || {
                std::hint::black_box([0_u8; TOUCHED_BYTES]);
                bind.wait();
                let mut endpoint = vm.bind_thread(None).map_err(told("bind a thread"));
                let done = match &mut endpoint {
                    Ok(endpoint) => work(endpoint, &say),
                    Err(_) => Ok(()),
                };
                let word =
                    endpoint.as_ref().map(drop).map_err(|error| Error::Usage(error.to_string()));
                let _ = say.send(word.and(done));
                loop {
                    thread::park();
                }
            };
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            builder.spawn(body).map_err(Error::os("start a thread"))?;
        }
        Ok((Self { words, count }, bind))
    }

    /// Waits until all have said that they are done.
    fn join(&self) -> Word {
        for _ in 0..self.count {
            self.words.recv().map_err(|_| Error::PeerGone)??;
        }
        Ok(())
    }
}

fn trip(endpoint: &mut Endpoint, server: Address, number: u64, bytes: usize) -> Word {
    let request = Message::request(number);
    let mut answer = Message::default();
    let told =
        endpoint.sendrec(server, &outward(&request)).map_err(told("an idle client's trip"))?;
    inward(&told, &mut answer);
    answer.check_answer(&request, bytes)
}

/// So many clients: each makes a trip, then all keep still. The report tells what a
/// thread's endpoint cost in memory, where there is more than one.
pub fn clients(place: &Place, run: &Run, clients: u32) -> Result<Report, Error> {
    raw::raise_fd_limit();
    let mut first = place.vm.bind_any().map_err(told("bind"))?;
    let server = place.server(&mut first)?;
    let bytes = run.bytes();
    trip(&mut first, server, 1, bytes)?;
    let others = clients.saturating_sub(1);
    let (threads, bind) =
        Threads::start(place, others, move |endpoint, _| trip(endpoint, server, 2, bytes))?;
    let before = raw::resident_bytes();
    bind.wait();
    threads.join()?;
    let after = raw::resident_bytes();
    run.at_the_start()?;
    let report = run.until_the_end()?;
    drop(first);
    Ok(Report { bytes: after.saturating_sub(before) / u64::from(others.max(1)), ..report })
}

/// So many endpoints, each linked with every one that was bound before.
pub fn mesh(place: &Place, run: &Run, endpoints: u32) -> Result<Report, Error> {
    raw::raise_fd_limit();
    let first = place.vm.bind_any().map_err(told("bind"))?;
    let bound = Arc::new(Barrier::new(endpoints as usize));
    let (directory, vm) = (place.directory.clone(), place.vm.id());
    let own = std::process::id();
    let (threads, bind) = Threads::start(place, endpoints, move |endpoint, say| {
        bound.wait();
        let mut node = Node::find(&directory).map_err(told("reach the node"))?;
        let me = endpoint.address();
        for other in node.endpoints(vm).map_err(told("list the endpoints"))? {
            let elder = other.pid.cast_unsigned() != own || other.address < me.0;
            if elder && other.pid != 0 {
                endpoint.notify(Address(other.address)).map_err(told("make a link"))?;
            }
        }
        let _ = say.send(Ok(()));
        // Takes up the links that others make.
        loop {
            endpoint.receive(Source::Any).map_err(told("receive"))?;
        }
    })?;
    bind.wait();
    threads.join()?;
    run.at_the_start()?;
    let report = run.until_the_end();
    drop(first);
    report
}
