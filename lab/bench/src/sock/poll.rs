//! A server of many connections that hears of them by epoll.

use std::io::ErrorKind;

use super::Shape;
use super::line::{Line, Port, gone};
use super::trips::{bells, turn, used};
use super::way::Way;
use crate::error::Error;
use crate::job::Report;
use crate::mechanism::Inherited;
use crate::peer::Run;
use crate::raw;
use crate::raw::ready::Ready;

/// A connection, and what of its request has come.
struct Open {
    line: Line,
    request: Vec<u8>,
    got: usize,
    is_over: bool,
}

impl Open {
    /// Answers what there is; reads until nothing is left, as whoever waits for edges must.
    fn serve(&mut self) -> Result<(), Error> {
        loop {
            match self.line.some(&mut self.request[self.got..]) {
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
                turn(&mut self.request);
                self.line.put(&self.request)?;
            }
        }
    }
}

/// Answers on all connections until the end of each.
///
/// # Errors
/// Where one of them fails.
pub fn answer(run: &Run, way: Way, inherited: Inherited, shape: &Shape) -> Result<Report, Error> {
    raw::raise_fd_limit();
    let port = Port::server(way, inherited)?;
    run.at_the_start()?;
    let ready = Ready::new()?;
    let mut open = vec![];
    for number in 0..u64::from(shape.connections) {
        let line = port.next()?.without_delay()?;
        line.set_nonblocking(true)?;
        ready.add(&line, number)?;
        open.push(Open { line, request: vec![0; shape.bytes], got: 0, is_over: false });
    }
    let before = raw::usage();
    let mut left = open.len();
    while left > 0 {
        for number in ready.wait()? {
            let Some(open) = usize::try_from(number).ok().and_then(|at| open.get_mut(at)) else {
                continue;
            };
            open.serve()?;
            if open.is_over {
                ready.remove(&open.line)?;
                left -= 1;
            }
        }
    }
    let lines: Vec<Line> = open.into_iter().map(|open| open.line).collect();
    Ok(used(before, bells(&lines)))
}
