//! Many endpoints of one process: idle clients, and a mesh of links.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use m3ipc::{Address, Endpoint, Node, Source};

use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::{ClientWaits, Report, Test};
use crate::payload::Message;
use crate::raw;
use crate::run::Run;
use crate::subjects::message::{inward, outward};
use crate::subjects::node::VmPeer;

/// Size of a stack: a thousand threads share one process.
const STACK_BYTES: usize = 128 * 1024;
/// Part of the stack that each thread touches before the measurement.
const TOUCHED_BYTES: usize = 48 * 1024;

/// The most idle clients of a process: each needs a thread, descriptors and mappings.
const IDLE_OF_PROCESS: usize = 1_000;
/// The time in which equal clients call.
const EQUAL_SPAN: Duration = Duration::from_secs(3);
/// The phases of their work.
const BEFORE: u32 = 0;
const WORK: u32 = 1;
const AFTER: u32 = 2;
/// Descriptors that the daemon keeps of a client with one link: connection, pidfd, page and link.
const DAEMON_DESCRIPTORS: u64 = 4;
/// Its other descriptors, and a reserve.
const OTHER_DESCRIPTORS: u64 = 200;

/// The number of clients, at most this, that a limit of open files lets the daemon keep; in whole
/// thousands.
pub fn most_clients(wanted: u32, limit: u64) -> u32 {
    let most = limit.saturating_sub(OTHER_DESCRIPTORS) / DAEMON_DESCRIPTORS / 1_000 * 1_000;
    u32::try_from(most).unwrap_or(u32::MAX).min(wanted)
}

/// The number of processes for all clients but the active one.
pub fn idle_processes(clients: usize) -> usize {
    clients.saturating_sub(1).div_ceil(IDLE_OF_PROCESS)
}

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
    // One of the clients is the active one, one of each process is this thread. Processes are
    // equal, so a few clients may be too many.
    let clients = run.load().count();
    let own = clients.saturating_sub(1).div_ceil(idle_processes(clients).max(1));
    let others = own.saturating_sub(1);
    let threads = Threads::start(peer, others, move |it, _| trip(it, server, 2, bytes))?;
    let before = raw::memory_without_links();
    threads.bind()?;
    let after = raw::memory_without_links();
    run.at_the_start()?;
    let report = run.until_the_end()?;
    Ok(Report { bytes: after.saturating_sub(before) / (others.max(1) as u64), ..report })
}

/// Binds clients that then call the server without a pause, all at the same time.
pub fn equal_clients(peer: &VmPeer, run: &Run) -> Result<Report, Error> {
    raw::raise_fd_limit();
    let mut first = peer.bind()?;
    let server = peer.find_server(&mut first)?;
    let (bytes, count) = (run.load().bytes, run.load().count());
    let phase = Arc::new(AtomicU32::new(BEFORE));
    let (own_phase, (waits, all_waits)) = (Arc::clone(&phase), channel());
    let threads = Threads::start(peer, count, move |endpoint, sender| {
        trip(endpoint, server, 1, bytes)?;
        let _ = sender.send(Ok(()));
        while own_phase.load(Ordering::Acquire) == BEFORE {
            thread::sleep(Duration::from_millis(10));
        }
        let (mut number, mut longest_ns) = (1, 0);
        let begun_ns = monotonic_ns();
        let mut before_ns = begun_ns;
        while own_phase.load(Ordering::Acquire) == WORK {
            number += 1;
            trip(endpoint, server, number, bytes)?;
            let now_ns = monotonic_ns();
            longest_ns = longest_ns.max(now_ns - before_ns);
            before_ns = now_ns;
        }
        let mean = (before_ns - begun_ns) as f64 / (number - 1).max(1) as f64;
        let _ = waits.send(ClientWaits { mean, longest: longest_ns as f64 });
        Ok(())
    })?;
    threads.bind()?;
    run.at_the_start()?;
    phase.store(WORK, Ordering::Release);
    thread::sleep(EQUAL_SPAN);
    phase.store(AFTER, Ordering::Release);
    let one = |_| all_waits.recv().map_err(|_| Error::PeerGone);
    let waits_ns = (0..count).map(one).collect::<Result<_, _>>()?;
    Ok(Report { waits_ns, ..run.until_the_end()? })
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

#[cfg(test)]
mod tests {
    use super::{idle_processes, most_clients};

    #[test]
    fn the_daemon_keeps_four_descriptors_of_a_client() {
        assert_eq!(most_clients(10_000, 20_000), 4_000);
        assert_eq!(most_clients(10_000, 1 << 20), 10_000);
        assert_eq!(most_clients(10_000, 1_024), 0);
    }

    #[test]
    fn a_thousand_idle_clients_share_a_process() {
        assert_eq!([1, 2, 102, 1_000, 10_000].map(idle_processes), [0, 1, 1, 1, 10]);
    }
}
