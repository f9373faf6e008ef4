//! Many endpoints of one process: idle clients, and a mesh of links.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;

use m3ipc::{Address, Endpoint, Node, Source};

use crate::error::Error;
use crate::job::{Report, Test};
use crate::payload::Message;
use crate::raw;
use crate::run::Run;
use crate::subjects::message::{inward, outward};
use crate::subjects::node::VmPeer;

/// Size of a stack: a thousand threads share one process.
const STACK_BYTES: usize = 128 * 1024;
/// Part of the stack that each thread touches before the measurement.
const TOUCHED_BYTES: usize = 48 * 1024;

type Outcome = Result<(), Error>;

/// Threads with an endpoint each. They keep it until the process ends.
struct Threads {
    outcomes: Receiver<Outcome>,
    bind: Arc<Barrier>,
    count: usize,
}

impl Threads {
    /// Starts threads, and waits until each has touched its stack. After [`Threads::bind`] each
    /// binds and works.
    fn start(
        peer: &VmPeer,
        count: usize,
        work: impl Fn(&mut Endpoint, &Sender<Outcome>) -> Outcome + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let (sender, outcomes) = channel();
        let (work, bind) = (Arc::new(work), Arc::new(Barrier::new(count + 1)));
        let touched = Arc::new(Barrier::new(count + 1));
        for _ in 0..count {
            let (vm, sender) = (peer.vm.clone(), sender.clone());
            let (work, bind) = (Arc::clone(&work), Arc::clone(&bind));
            let touched = Arc::clone(&touched);
            let body = move || {
                touch_stack();
                touched.wait();
                bind.wait();
                let mut endpoint = vm.bind_thread(None);
                let outcome = match &mut endpoint {
                    Ok(endpoint) => work(endpoint, &sender),
                    Err(error) => Err(Error::of("bind a thread")(error)),
                };
                let _ = sender.send(outcome);
                loop {
                    thread::park();
                }
            };
            let builder = thread::Builder::new().stack_size(STACK_BYTES);
            builder.spawn(body).map_err(Error::os("start a thread"))?;
        }
        touched.wait();
        Ok(Self { outcomes, bind, count })
    }

    /// Lets all threads bind, and waits for one outcome of each.
    fn bind(&self) -> Outcome {
        self.bind.wait();
        (0..self.count).try_for_each(|_| self.outcomes.recv().map_err(|_| Error::PeerGone)?)
    }
}

/// Touches the stack below the caller's frame. Inlined, it would touch its own frame only.
#[inline(never)]
fn touch_stack() {
    std::hint::black_box([0_u8; TOUCHED_BYTES]);
}

fn trip(endpoint: &mut Endpoint, server: Address, number: u64, bytes: usize) -> Outcome {
    let request = Message::request(number);
    let answered = endpoint.sendrec(server, &outward(&request));
    let mut answer = Message::default();
    inward(&answered.map_err(Error::of("the trip of an idle client"))?, &mut answer);
    answer.check_answer(&request, bytes)
}

/// Binds clients that make one checked trip each and then stay idle.
///
/// The trips come before the start, because the active client starts after it. The report tells
/// the memory of an endpoint if there are several.
pub fn idle_clients(peer: &VmPeer, run: &Run) -> Result<Report, Error> {
    raw::raise_fd_limit();
    let mut first = peer.bind()?;
    let server = peer.find_server(&mut first)?;
    let bytes = run.load().bytes;
    trip(&mut first, server, 1, bytes)?;
    // One of the clients is the active one, one is this thread.
    let others = run.load().count().saturating_sub(2);
    let threads = Threads::start(peer, others, move |it, _| trip(it, server, 2, bytes))?;
    let before = raw::memory_without_links();
    threads.bind()?;
    let after = raw::memory_without_links();
    run.at_the_start()?;
    let report = run.until_the_end()?;
    Ok(Report { bytes: after.saturating_sub(before) / (others.max(1) as u64), ..report })
}

/// Binds endpoints and links each with every endpoint that was bound before.
pub fn mesh(peer: &VmPeer, run: &Run) -> Result<Report, Error> {
    debug_assert_eq!(run.load().test, Test::Mesh);
    raw::raise_fd_limit();
    let _first = peer.bind()?;
    let count = run.load().count();
    let bound = Barrier::new(count);
    let (directory, vm, own) = (peer.directory.clone(), peer.vm.id(), std::process::id());
    let threads = Threads::start(peer, count, move |endpoint, sender| {
        bound.wait();
        let mut node = Node::find(&directory).map_err(Error::of("reach the node"))?;
        let me = endpoint.address();
        for other in node.endpoints(vm).map_err(Error::of("list the endpoints"))? {
            let is_older = other.pid.cast_unsigned() != own || other.address < me.0;
            if is_older && other.pid != 0 {
                endpoint.notify(Address(other.address)).map_err(Error::of("make a link"))?;
            }
        }
        let _ = sender.send(Ok(()));
        // Takes the links that other endpoints make.
        loop {
            endpoint.receive(Source::Any).map_err(Error::of("receive"))?;
        }
    })?;
    threads.bind()?;
    run.at_the_start()?;
    run.until_the_end()
}
