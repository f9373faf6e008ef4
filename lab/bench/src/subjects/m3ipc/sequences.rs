//! Sequences in one process: binds and first contacts, and IPC2 of two threads.

use std::sync::mpsc::channel;

use m3ipc::{Address, Endpoint, Source, WaitStrategy};

use crate::clock::monotonic_ns;
use crate::error::Error;
use crate::job::Report;
use crate::payload::Message;
use crate::run::Run;
use crate::subjects::message::{inward, outward};
use crate::subjects::node::VmPeer;

/// Binds, calls a server without a link, unbinds; the last contact stops the server.
///
/// The times of binds go to `second`, those of first contacts to `samples`.
pub fn contacts(peer: &VmPeer, run: &Run) -> Result<Report, Error> {
    run.at_the_start()?;
    let mut report = Report::default();
    let mut known = None;
    let times = run.load().limit.unwrap_or(1);
    for number in 1..=times {
        let before = monotonic_ns();
        let mut endpoint = peer.bind()?;
        report.second.record(monotonic_ns() - before);
        let server = match known {
            Some(server) => server,
            None => *known.insert(peer.find_server(&mut endpoint)?),
        };
        let request = if number == times { Message::stop() } else { Message::request(number) };
        let before = monotonic_ns();
        let answered = endpoint.sendrec(server, &outward(&request));
        let answered = answered.map_err(Error::of("first contact"))?;
        report.samples.record(monotonic_ns() - before);
        let mut answer = Message::default();
        inward(&answered, &mut answer);
        answer.check_answer(&request, run.load().bytes)?;
    }
    Ok(report)
}

/// The first trips of [`straight`], in which both sides learn that they share a CPU.
pub const ADAPTIVE_TRIPS: u64 = 100;
/// The type of the message that stops the server of [`straight`].
pub const STOP: i32 = -1;

/// IPC2 of two threads on one CPU, which yield the CPU to each other.
///
/// A counter of instructions around this process gives the instructions of a trip, both sides
/// together. No side polls while the other works, so waiting adds one yield to each side. After the
/// first trips both spin: under a counter a yield may take long, and adaptive waits would then
/// sleep. The messages have a type and no other contents, so that nearly all instructions are the
/// verbs'.
pub fn straight(peer: &VmPeer, run: &Run) -> Result<Report, Error> {
    let mut client = peer.bind()?;
    let vm = peer.vm.clone();
    crate::cpus::pin(rustix::thread::sched_getcpu())?;
    let (sender, bound) = channel();
    let server = std::thread::spawn(move || {
        let server = vm.bind_additional(None);
        let mut server = server.map_err(Error::of("bind a server"))?;
        let _ = sender.send(server.address());
        serve(&mut server)
    });
    let to = bound.recv().map_err(|_| Error::PeerGone)?;
    run.at_the_start()?;
    let trips = run.load().limit.unwrap_or(0);
    let called = call(&mut client, to, trips);
    let served = server.join().map_err(|_| Error::PeerGone)?;
    served.and(called)?;
    Ok(Report { trips, ..Report::default() })
}

/// Sends requests, the last of which stops the server.
fn call(client: &mut Endpoint, to: Address, trips: u64) -> Result<(), Error> {
    for trip in 0..trips {
        if trip == ADAPTIVE_TRIPS {
            client.set_strategy(WaitStrategy::Spin);
        }
        let request = m3ipc::Message::new((trip & 0xff) as i32);
        let answer = client.sendrec(to, &request).map_err(Error::of("sendrec"))?;
        if answer.m_type != request.m_type + 1 {
            return Err(Error::Usage(format!("an answer of type {}", answer.m_type)));
        }
    }
    client.send(to, &m3ipc::Message::new(STOP)).map_err(Error::of("stop the server"))
}

/// Answers requests until one says stop.
fn serve(server: &mut Endpoint) -> Result<(), Error> {
    let mut taken = server.receive(Source::Any).map_err(Error::of("receive"))?;
    let mut trips = 0;
    while taken.m_type != STOP {
        trips += 1;
        if trips == ADAPTIVE_TRIPS {
            server.set_strategy(WaitStrategy::Spin);
        }
        let answer = m3ipc::Message::new(taken.m_type + 1);
        let next = server.reply_receive(taken.source, &answer);
        taken = next.map_err(Error::of("answer and receive"))?;
    }
    Ok(())
}
