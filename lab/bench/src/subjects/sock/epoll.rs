//! A server of many connections that waits by epoll.

use std::io::ErrorKind;

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

/// Answers on all connections until the end of each.
pub fn answer(run: &Run, kind: SocketKind, inherited: Inherited) -> Result<Report, Error> {
    raw::raise_fd_limit();
    let port = Port::server(kind, inherited)?;
    run.at_the_start()?;
    let epoll = Epoll::new()?;
    let mut connections = vec![];
    for number in 0..u64::from(run.load().count) {
        let line = port.next_without_delay()?;
        line.set_nonblocking()?;
        epoll.add(&line, number)?;
        let request = vec![0; run.load().bytes];
        connections.push(Connection { line, request, got: 0, is_over: false });
    }
    let before = raw::usage();
    let mut left = connections.len();
    while left > 0 {
        for number in epoll.wait()? {
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            let Some(connection) = connections.get_mut(at) else { continue };
            connection.serve()?;
            if connection.is_over {
                epoll.remove(&connection.line)?;
                left -= 1;
            }
        }
    }
    let lines: Vec<Line> = connections.into_iter().map(|connection| connection.line).collect();
    Ok(Report { bells: wakeups(&lines), ..Report::since(before) })
}
