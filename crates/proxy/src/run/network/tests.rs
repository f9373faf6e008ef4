//! The turns and the pauses of connections, with a network that the test makes up.

use super::*;
use m3ipc_fabric::{Incarnation, Owners, Settings};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A connection whose peer has shown its certificate, and ends it.
struct Ending(UnixStream, NodeName);

impl AsFd for Ending {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Connection for Ending {
    fn peer(&self) -> Option<&NodeName> {
        Some(&self.1)
    }

    fn send(
        &mut self,
        _: &[u8],
        _: &[u8],
        _: Instant,
    ) -> Result<Sent, crate::transport::SendError> {
        Ok(Sent::Taken)
    }

    fn flush(&mut self) {}

    fn receive(&mut self, _: Instant) -> Result<Option<bytes::Bytes>, End> {
        Err(End::Closed(Reason::CLOSED))
    }

    fn wants_write(&self) -> bool {
        false
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn close(&mut self, _: Reason) {}
}

fn ending() -> Box<dyn Connection> {
    let (socket, _) = UnixStream::pair().expect("the system has sockets");
    Box::new(Ending(socket, NodeName::new("beta").expect("a name")))
}

/// Counts what it gives.
struct Endless(UnixStream, Arc<AtomicUsize>);

impl Endless {
    fn new() -> (Self, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let (socket, _) = UnixStream::pair().expect("the system has sockets");
        (Self(socket, Arc::clone(&count)), count)
    }

    fn next(&self) -> Box<dyn Connection> {
        assert!(self.1.fetch_add(1, Ordering::Relaxed) < 10_000, "there is no end of it");
        ending()
    }
}

impl AsFd for Endless {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Listener for Endless {
    fn accept(&mut self, _: Instant) -> io::Result<Option<Box<dyn Connection>>> {
        Ok(Some(self.next()))
    }

    fn address(&self) -> io::Result<SocketAddr> {
        Err(ErrorKind::Unsupported.into())
    }
}

impl Transport for Endless {
    fn connect(&self, _: &NodeName, _: SocketAddr, _: Instant) -> io::Result<Box<dyn Connection>> {
        Ok(self.next())
    }

    fn listen(&self, _: SocketAddr) -> io::Result<Box<dyn Listener>> {
        Err(ErrorKind::Unsupported.into())
    }
}

fn machine() -> Machine {
    let [own, peer] = [1, 2].map(NodeId);
    let settings = Settings::default();
    Machine::new("lab", own, Incarnation(1), Owners::default(), [peer], settings)
}

#[test]
fn a_step_accepts_a_bounded_number_of_connections() {
    let config = crate::run::config::tests::alpha();
    let (mut listener, accepted) = Endless::new();
    let (transport, _) = Endless::new();
    let now = Instant::now();
    let mut network = Network::new(&config, Box::new(transport), &mut listener, now);
    let report = NetworkReport { wires: false, listener: true };
    network.step(report, &mut machine(), &Clock::begin(), now);
    assert_eq!(accepted.load(Ordering::Relaxed), STRANGERS_MAX);
}

#[test]
fn a_node_that_refuses_is_dialled_with_growing_pauses() {
    let config = crate::run::config::tests::alpha();
    let (mut listener, _) = Endless::new();
    let (transport, dialled) = Endless::new();
    let begin = Instant::now();
    let mut network = Network::new(&config, Box::new(transport), &mut listener, begin);
    network.next_accept = Some(begin + Duration::from_secs(1_000));
    let (mut dialling, clock) = (machine(), Clock::begin());
    for ms in 0..20_000 {
        let now = begin + Duration::from_millis(ms);
        network.step(NetworkReport::default(), &mut dialling, &clock, now);
    }
    let dials = dialled.load(Ordering::Relaxed);
    assert!((20..30).contains(&dials), "{dials} in 20 s");
    // One that the machine closes, which has found the refusal.
    let later = begin + Duration::from_secs(30);
    assert_eq!(network.peers[0].pause, PAUSES[1]);
    network.session_begun(NodeId(2));
    for doubled in [2, 4, 8] {
        let id = network.add(ending(), later);
        network.peers[0].dialled = Some(id);
        network.close(id, &machine(), later);
        assert_eq!(network.peers[0].pause, doubled * PAUSES[0]);
    }
}
