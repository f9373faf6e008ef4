//! process_vm_writev(2), bare: one system call per copy.
//!
//! A third process needs two calls per chunk, through a buffer of its own that stays in the cache.
//!
//! ```text
//! requester                    source, destination
//!   <---- pid, address -------   (once, over a socket)
//!   process_vm_*(pid, ...)        asleep in read(2) of that socket
//!   ---- refill / check ----->
//!   <---- done ---------------
//! ```

use std::os::fd::OwnedFd;

use m3ipc_report::schema::{Family, Wait};
use rustix::net::SocketType;
use rustix::process::getpid;

use super::block::{self, LAST, PrivateBlock};
use crate::ends::ClientEnd;
use crate::error::Error;
use crate::job::{Load, Report, Role, Test};
use crate::payload::Message;
use crate::raw::copies::{Remote, read_from, write_to};
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::subjects::channel::{get_all, put_all, unix};

/// The requester's buffer of a copy between two others, in bytes.
const BOUNCE_BYTES: usize = 64 << 10;
/// Bytes of a word.
const WORD: usize = 8;

/// process_vm_readv(2) and process_vm_writev(2).
pub struct ProcessVm;

impl Subject for ProcessVm {
    fn name(&self) -> &'static str {
        "process-vm"
    }

    fn family(&self) -> Family {
        Family::Floor
    }

    fn waits(&self, _: &Load) -> &'static [Wait] {
        &[Wait::Block]
    }

    fn open(&self, _: &Site, load: &Load) -> Result<Opened, Error> {
        let (to, destination) = unix(SocketType::STREAM)?;
        let mut opened = Opened::default().with(Role::Server, Inherited::fds(vec![destination]));
        let mut sockets = vec![to];
        if matches!(load.test, Test::Copy2 { .. }) {
            let (from, source) = unix(SocketType::STREAM)?;
            opened = opened.with(Role::Source, Inherited::fds(vec![source]));
            sockets.push(from);
        }
        Ok(opened.with(Role::Client, Inherited::fds(sockets)))
    }

    fn run(&self, run: &Run, mut inherited: Inherited) -> Result<Report, Error> {
        let (bytes, test) = (run.load().bytes, run.load().test);
        let skew = block::skews(test);
        let socket = inherited.take()?;
        match run.job().role {
            Role::Client => {
                let to = Party::meet(socket)?;
                if matches!(test, Test::Copy2 { .. }) {
                    let from = Party::meet(inherited.take()?)?;
                    let bounce = vec![0; BOUNCE_BYTES.min(bytes)];
                    return run.drive(Third { from, to, bounce, bytes });
                }
                let mut from = PrivateBlock::new(bytes, skew.0)?;
                block::fill(from.bytes_mut());
                run.drive(Sender { from, to })
            }
            Role::Source => {
                let mut from = PrivateBlock::new(bytes, skew.0)?;
                block::fill(from.bytes_mut());
                asleep(run, &socket, from, |block| {
                    block::fill_last(block.bytes_mut());
                    Ok(())
                })
            }
            _ => {
                let to = PrivateBlock::new(bytes, skew.1)?;
                asleep(run, &socket, to, |block| block::check_last(block.bytes()))
            }
        }
    }
}

/// Tells the location of its block and sleeps; works once at the end.
fn asleep(
    run: &Run,
    socket: &OwnedFd,
    mut block: PrivateBlock,
    at_the_end: impl FnOnce(&mut PrivateBlock) -> Result<(), Error>,
) -> Result<Report, Error> {
    let pid = u64::from(getpid().as_raw_nonzero().get().cast_unsigned());
    put_all(socket, &pid.to_le_bytes())?;
    put_all(socket, &(block.address() as u64).to_le_bytes())?;
    run.at_the_start()?;
    get_all(socket, &mut [0; WORD])?;
    let done = at_the_end(&mut block);
    put_all(socket, &if done.is_ok() { LAST } else { 0 }.to_le_bytes())?;
    // The requester may not have the last block yet. The block stays until it closes the socket.
    let _ = get_all(socket, &mut [0; WORD]);
    done.map(|()| Report::default())
}

/// Another process and its block.
struct Party {
    socket: OwnedFd,
    block: Remote,
}

impl Party {
    fn meet(socket: OwnedFd) -> Result<Self, Error> {
        let word = || {
            let mut bytes = [0; WORD];
            get_all(&socket, &mut bytes).map(|()| u64::from_le_bytes(bytes))
        };
        let wrong = |_| Error::Usage("the other side gave no process and address".into());
        let pid = word()?.try_into().map_err(wrong)?;
        let address = word()?.try_into().map_err(wrong)?;
        Ok(Self { socket, block: Remote { pid, address } })
    }

    fn end(&self) -> Result<(), Error> {
        put_all(&self.socket, &LAST.to_le_bytes())?;
        let mut answer = [0; WORD];
        get_all(&self.socket, &mut answer)?;
        if u64::from_le_bytes(answer) == LAST { Ok(()) } else { Err(Error::PeerGone) }
    }
}

struct Sender {
    from: PrivateBlock,
    to: Party,
}

impl ClientEnd for Sender {
    #[inline]
    fn trip(&mut self, request: &Message, _: &mut Message) -> Result<(), Error> {
        block::stamp(self.from.bytes_mut(), request.number());
        write_to(self.to.block, self.from.bytes()).map_err(Error::os("process_vm_writev"))
    }

    fn stop(&mut self) -> Result<(), Error> {
        block::fill_last(self.from.bytes_mut());
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

impl Third {
    #[inline]
    fn copy(&mut self) -> Result<(), Error> {
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
}

impl ClientEnd for Third {
    #[inline]
    fn trip(&mut self, _: &Message, _: &mut Message) -> Result<(), Error> {
        self.copy()
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.from.end()?;
        self.copy()?;
        self.to.end()
    }
}
