//! A server of many connections that waits by epoll, of com-sockets by their poller.

use std::io::ErrorKind;

use m3ipc_sockets::{Interest, Mode, PollEvent, Poller};

use super::kinds::SocketKind;
use super::line::{Line, Port, gone, wakeups};
use super::trip::invert;
use crate::error::Error;
use crate::job::Report;
use crate::raw;
use crate::raw::epoll::Epoll;
use crate::run::Run;
use crate::subject::Inherited;

/// A connection and the received part of its request.
struct Connection {
    line: Line,
    request: Vec<u8>,
    got: usize,
    is_over: bool,
}

impl Connection {
    /// Answers all requests; reads until the socket is empty, as edge-triggered waits need.
    fn serve(&mut self) -> Result<(), Error> {
        loop {
            match self.line.get_some(&mut self.request[self.got..]) {
                Ok(0) => {
                    self.is_over = true;
                    return Ok(());
                }
                Ok(count) => self.got += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(gone(error)),
            }
            if self.got == self.request.len() {
                self.got = 0;
                invert(&mut self.request);
                self.line.put(&self.request)?;
            }
        }
    }
}

/// The wait for the next request.
enum Waiter {
    Epoll(Epoll),
    Poller(Poller, Vec<PollEvent>),
}

impl Waiter {
    fn new(kind: SocketKind) -> Result<Self, Error> {
        if kind != SocketKind::ComSocket {
            return Ok(Self::Epoll(Epoll::new()?));
        }
        let poller = Poller::new().map_err(Error::of("make a poller"))?;
        Ok(Self::Poller(poller, vec![]))
    }

    fn add(&self, line: &Line, number: u64) -> Result<(), Error> {
        match (self, line) {
            (Self::Epoll(epoll), _) => epoll.add(line, number),
            (Self::Poller(poller, _), Line::Com(stream)) => {
                let added = poller.add(stream, number, Interest::Read, Mode::Level);
                added.map_err(Error::of("add to a poller"))
            }
            (Self::Poller(..), _) => Err(Error::Usage("no com-socket".into())),
        }
    }

    fn remove(&self, line: &Line) -> Result<(), Error> {
        match (self, line) {
            (Self::Poller(poller, _), Line::Com(stream)) => {
                poller.remove(stream).map_err(Error::of("remove from a poller"))
            }
            (Self::Poller(..), _) => Ok(()),
            (Self::Epoll(epoll), _) => epoll.remove(line),
        }
    }

    /// Waits, and calls `serve` with the number of each ready connection.
    fn wait(
        &mut self,
        mut serve: impl FnMut(&Self, u64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if let Self::Epoll(epoll) = self {
            let ready = epoll.wait()?;
            return ready.into_iter().try_for_each(|number| serve(self, number));
        }
        let Self::Poller(poller, events) = self else { return Ok(()) };
        let mut ready = core::mem::take(events);
        poller.wait(&mut ready, None).map_err(Error::of("wait in a poller"))?;
        ready.iter().try_for_each(|event| serve(self, event.token))?;
        if let Self::Poller(_, events) = self {
            *events = ready;
        }
        Ok(())
    }
}

/// Answers on all connections until the end of each.
pub fn answer(run: &Run, kind: SocketKind, inherited: Inherited) -> Result<Report, Error> {
    raw::raise_fd_limit();
    let port = Port::server(kind, inherited)?;
    run.at_the_start()?;
    let mut waiter = Waiter::new(kind)?;
    let mut connections = vec![];
    for number in 0..u64::from(run.load().count) {
        let line = port.next_without_delay()?;
        line.set_nonblocking()?;
        waiter.add(&line, number)?;
        let request = vec![0; run.load().bytes];
        connections.push(Connection { line, request, got: 0, is_over: false });
    }
    let before = raw::usage();
    let mut left = connections.len();
    while left > 0 {
        waiter.wait(|waiter, number| {
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            let Some(connection) = connections.get_mut(at) else { return Ok(()) };
            connection.serve()?;
            if connection.is_over {
                waiter.remove(&connection.line)?;
                left -= 1;
            }
            Ok(())
        })?;
    }
    let lines: Vec<Line> = connections.into_iter().map(|connection| connection.line).collect();
    Ok(Report { bells: wakeups(&lines), ..Report::since(before) })
}
