//! process_vm_writev(2), bare: one system call a copy; of a third process two a chunk, through a
//! buffer of its own that stays in the cache.
//!
//! ```text
//! requester                    source, destination
//!   <---- pid, address -------   (once, over a socket)
//!   process_vm_*(pid, ...)        asleep in read(2) of that socket
//!   ---- refill / check ----->
//!   <---- done ---------------
//! ```

use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::getpid;

use super::{Opened, Requester, Way, drive};
use crate::copy::buffer::{self, Buffer, LAST};
use crate::copy::{Kind, Shape};
use crate::error::Error;
use crate::job::{Report, Side};
use crate::mechanism::{Family, Inherited, Site};
use crate::peer::Run;
use crate::raw::blocks::{Remote, read_from, write_to};

use super::carriers::{get_all, put_all};

/// The requester's buffer of a copy between two others, in bytes.
const BOUNCE_BYTES: usize = 64 << 10;
/// One word each way.
const WORD: usize = 8;

/// process_vm_readv(2) and process_vm_writev(2).
pub struct ProcessVm;

impl Way for ProcessVm {
    fn name(&self) -> &'static str {
        "process-vm"
    }

    fn family(&self) -> Family {
        Family::Floor
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Copy1, Kind::Copy2, Kind::Stream]
    }

    fn open(&self, _: &Site, shape: &Shape) -> Result<Opened, Error> {
        let mut opened = Opened::default();
        let mut requester = vec![];
        let sides = if shape.kind == Kind::Copy2 {
            &[Side::Server, Side::Source][..]
        } else {
            &[Side::Server]
        };
        for &side in sides {
            let (here, there) =
                socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                    .map_err(Error::os("socketpair"))?;
            requester.push(here);
            opened.sides.push((side, Inherited { fds: vec![there], names: vec![] }));
        }
        opened.sides.push((Side::Client, Inherited { fds: requester, names: vec![] }));
        Ok(opened)
    }

    fn requester(
        &self,
        mut inherited: Inherited,
        run: &Run,
        shape: &Shape,
    ) -> Result<Report, Error> {
        let to = Party::meet(inherited.take()?)?;
        if shape.kind == Kind::Copy2 {
            let from = Party::meet(inherited.take()?)?;
            let bounce = vec![0; BOUNCE_BYTES.min(shape.bytes)];
            return drive(run, Third { from, to, bounce, bytes: shape.bytes });
        }
        let mut from = Buffer::new(shape.bytes, shape.source_skew())?;
        buffer::fill(from.bytes_mut());
        drive(run, Sender { from, to })
    }

    fn destination(
        &self,
        mut inherited: Inherited,
        run: &Run,
        shape: &Shape,
    ) -> Result<Report, Error> {
        let block = Buffer::new(shape.bytes, shape.destination_skew())?;
        asleep(&inherited.take()?, run, block, |block| buffer::check_last(block.bytes()))
    }

    fn source(&self, mut inherited: Inherited, run: &Run, shape: &Shape) -> Result<Report, Error> {
        let mut block = Buffer::new(shape.bytes, shape.source_skew())?;
        buffer::fill(block.bytes_mut());
        asleep(&inherited.take()?, run, block, |block| {
            buffer::fill_last(block.bytes_mut());
            Ok(())
        })
    }
}

/// Says where its block is and sleeps; does its part of the end when it is woken.
fn asleep(
    line: &OwnedFd,
    run: &Run,
    mut block: Buffer,
    at_the_end: impl FnOnce(&mut Buffer) -> Result<(), Error>,
) -> Result<Report, Error> {
    let pid = u64::from(getpid().as_raw_nonzero().get().cast_unsigned());
    put_all(line, &pid.to_le_bytes())?;
    put_all(line, &(block.address() as u64).to_le_bytes())?;
    run.at_the_start()?;
    get_all(line, &mut [0; WORD])?;
    let done = at_the_end(&mut block);
    put_all(line, &if done.is_ok() { LAST } else { 0 }.to_le_bytes())?;
    // Its last block may not have been fetched yet: it stays until the requester closes the line.
    let _ = get_all(line, &mut [0; WORD]);
    done.map(|()| Report::default())
}

/// Another process and its block.
struct Party {
    line: OwnedFd,
    block: Remote,
}

impl Party {
    fn meet(line: OwnedFd) -> Result<Self, Error> {
        let word = || {
            let mut bytes = [0; WORD];
            get_all(&line, &mut bytes).map(|()| u64::from_le_bytes(bytes))
        };
        let wrong = |_| Error::Usage("the other side says no process and address".into());
        let pid = word()?.try_into().map_err(wrong)?;
        let address = word()?.try_into().map_err(wrong)?;
        Ok(Self { line, block: Remote { pid, address } })
    }

    fn end(&self) -> Result<(), Error> {
        put_all(&self.line, &LAST.to_le_bytes())?;
        let mut said = [0; WORD];
        get_all(&self.line, &mut said)?;
        if u64::from_le_bytes(said) == LAST { Ok(()) } else { Err(Error::PeerGone) }
    }
}

struct Sender {
    from: Buffer,
    to: Party,
}

impl Requester for Sender {
    #[inline]
    fn copy(&mut self, trip: u64) -> Result<(), Error> {
        buffer::stamp(self.from.bytes_mut(), trip);
        write_to(self.to.block, self.from.bytes()).map_err(Error::os("process_vm_writev"))
    }

    fn finish(&mut self) -> Result<(), Error> {
        buffer::fill_last(self.from.bytes_mut());
        write_to(self.to.block, self.from.bytes()).map_err(Error::os("process_vm_writev"))?;
        self.to.end()
    }
}

struct Third {
    from: Party,
    to: Party,
    bounce: Vec<u8>,
    bytes: usize,
}

impl Requester for Third {
    #[inline]
    fn copy(&mut self, _: u64) -> Result<(), Error> {
        let mut done = 0;
        while done < self.bytes {
            let chunk = self.bounce.len().min(self.bytes - done);
            let at = |block: Remote| Remote { address: block.address + done, ..block };
            let part = &mut self.bounce[..chunk];
            read_from(at(self.from.block), part).map_err(Error::os("process_vm_readv"))?;
            write_to(at(self.to.block), part).map_err(Error::os("process_vm_writev"))?;
            done += chunk;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.from.end()?;
        self.copy(0)?;
        self.to.end()
    }
}
