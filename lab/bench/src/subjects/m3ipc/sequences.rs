//! Sequences in one process: binds and first contacts, and IPC2 without any wait.

use std::sync::mpsc::channel;

use m3ipc::Source;

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

/// Both halves of IPC2 in turn, without a wait or a system call between them.
///
/// A counter of instructions around this process gives the instructions of a trip. The client's
/// half begins a request and takes its answer, as sendrec does around its wait.
pub fn straight(peer: &VmPeer, run: &Run) -> Result<Report, Error> {
    let mut server = peer.bind()?;
    // A process has one endpoint per thread: that of the client belongs to a parked thread.
    let (sender, bound) = channel();
    let vm = peer.vm.clone();
    std::thread::spawn(move || {
        let _ = sender.send(vm.bind_thread(None));
        loop {
            std::thread::park();
        }
    });
    let client = bound.recv().map_err(|_| Error::PeerGone)?;
    let mut client = client.map_err(Error::of("bind a thread"))?;
    run.at_the_start()?;
    let (to, bytes, trips) = (server.address(), run.load().bytes, run.load().limit.unwrap_or(0));
    let mut answer = Message::default();
    for trip in 0..trips {
        let request = Message::request(trip);
        let pending = client.begin_request(to, &outward(&request));
        let mut pending = pending.map_err(Error::of("request"))?;
        let taken = server.receive(Source::Any).map_err(Error::of("receive"))?;
        let mut received = Message::default();
        inward(&taken, &mut received);
        received.check_request(bytes)?;
        let sent = server.send(taken.source, &outward(&received.answer()));
        sent.map_err(Error::of("answer"))?;
        let back = client.poll_request(&mut pending).map_err(Error::of("take the answer"))?;
        inward(&back.ok_or(Error::PeerGone)?, &mut answer);
        answer.check_answer(&request, bytes)?;
    }
    Ok(Report { trips, ..Report::default() })
}
