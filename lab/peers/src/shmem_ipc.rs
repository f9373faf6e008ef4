//! shmem-ipc: a ring each way, in memory that both sides map. The server makes both rings and sends
//! their descriptors over a socket, as the library leaves to its user.
//!
//! `spin` polls the ring; `block` sleeps on the library's eventfd.
//!
//! # Safety
//! The library gives pointers into the shared ring. Each is read or written as one message, within
//! the number of messages that came with it.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use ::shmem_ipc::sharedring::{Receiver, Sender};
use m3ipc_bench::Error;
use m3ipc_bench::ends::Exchange;
use m3ipc_bench::job::Report;
use m3ipc_bench::payload::Message;
use m3ipc_bench::run::Run;
use m3ipc_report::schema::Wait;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::library::Library;
use crate::{ServerFile, await_file, failed, path};

type Words = [u64; 6];

/// Messages of each ring.
const CAPACITY: usize = 16;
/// Descriptors of both rings.
const DESCRIPTORS: usize = 6;

/// Two rings.
pub const LIBRARY: Library = Library {
    name: "shmem-ipc",
    version: || env!("VERSION_SHMEM_IPC").into(),
    waits: &[Wait::Spin, Wait::Block],
    tells_death: false,
    client,
    server,
    tidy: || {},
};

fn client(run: &Run, name: &str) -> Result<Report, Error> {
    let file = path(name, "shmem");
    await_file(&file);
    let socket = UnixStream::connect(file).map_err(failed("connect"))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(&socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)
        .map_err(failed("receive the rings"))?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    let mut files = rights.flatten().map(|fd: OwnedFd| File::from(fd));
    let mut next = || files.next().ok_or(Error::PeerGone);
    let output = Sender::open(CAPACITY, next()?, next()?, next()?).map_err(failed("open"))?;
    let input = Receiver::open(CAPACITY, next()?, next()?, next()?).map_err(failed("open"))?;
    run.drive(End { output, input, wait: run.job().wait })
}

fn server(run: &Run, name: &str) -> Result<Report, Error> {
    let file = ServerFile(path(name, "shmem"));
    let listener = UnixListener::bind(&file.0).map_err(failed("bind a socket"))?;
    let input = Receiver::<Words>::new(CAPACITY).map_err(failed("make a ring"))?;
    let output = Sender::<Words>::new(CAPACITY).map_err(failed("make a ring"))?;
    let (socket, _) = listener.accept().map_err(failed("accept"))?;
    let fds: [BorrowedFd<'_>; DESCRIPTORS] = [
        input.memfd().as_file().as_fd(),
        input.empty_signal().as_fd(),
        input.full_signal().as_fd(),
        output.memfd().as_file().as_fd(),
        output.empty_signal().as_fd(),
        output.full_signal().as_fd(),
    ];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(&socket, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())
        .map_err(failed("send the rings"))?;
    run.serve(End { output, input, wait: run.job().wait })
}

struct End {
    output: Sender<Words>,
    input: Receiver<Words>,
    wait: Wait,
}

impl Exchange for End {
    fn put(&mut self, message: &Message) -> Result<(), Error> {
        let mut sent = 0;
        let write = |at: *mut Words, room: usize| {
            sent = room.min(1);
            if sent == 1 {
                // SAFETY: the library has room for `room` messages there, which is one at least.
                unsafe { at.write(message.words) };
            }
            sent
        };
        self.output.send_raw(write).map_err(failed("send"))?;
        // A round trip has one message at most in a ring.
        if sent == 1 { Ok(()) } else { Err(Error::Usage("the ring is full".into())) }
    }

    fn get(&mut self, message: &mut Message) -> Result<(), Error> {
        let mut taken = 0;
        while taken == 0 {
            if self.wait == Wait::Block {
                self.input.block_until_readable().map_err(failed("wait"))?;
            }
            let read = |at: *const Words, number: usize| {
                taken = number.min(1);
                if taken == 1 {
                    // SAFETY: the library has `number` messages there, which is one at least.
                    message.words = unsafe { at.read() };
                }
                taken
            };
            self.input.receive_raw(read).map_err(failed("receive"))?;
            if taken == 0 {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }
}
