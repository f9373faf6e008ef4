//! POSIX message queues, one per direction.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{ClientEnd, Inherited, Mechanism, ServerEnd, Site, Transport};
use crate::error::Error;
use crate::job::Report;
use crate::payload::{MESSAGE_BYTES, Message};
use crate::peer::Run;
use crate::raw::queues;

/// mq_overview(7). On Linux a queue is a descriptor, so it is inherited like one.
pub struct PosixMq;

impl Mechanism for PosixMq {
    fn name(&self) -> &'static str {
        "posix-mq"
    }

    fn open(&self, _: &Site) -> Result<Transport, Error> {
        let (requests, answers) = (create()?, create()?);
        let again = |fd: &OwnedFd| fd.try_clone().map_err(Error::os("dup of a message queue"));
        Ok(Transport {
            client: vec![again(&answers)?, again(&requests)?],
            server: vec![requests, answers],
            ..Transport::default()
        })
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.drive(Queues::new(inherited, run)?)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.serve(Queues::new(inherited, run)?)
    }
}

fn create() -> Result<OwnedFd, Error> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = CString::new(format!("/m3-bench-{}-{number}", std::process::id()))
        .expect("a formatted number holds no zero byte");
    let bytes = i64::try_from(MESSAGE_BYTES).unwrap_or(i64::MAX);
    queues::posix_create(&name, 4, bytes).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOSYS | libc::ENOSPC | libc::EMFILE | libc::EACCES | libc::EPERM) => {
            Error::Unavailable {
                why: format!("the kernel gives no POSIX message queue: {error}"),
                next: "look at /proc/sys/fs/mqueue/queues_max and ulimit -q",
            }
        }
        _ => Error::Os { what: "mq_open", source: error },
    })
}

struct Queues {
    input: OwnedFd,
    output: OwnedFd,
    bytes: usize,
}

impl Queues {
    fn new(mut inherited: Inherited, run: &Run) -> Result<Self, Error> {
        Ok(Self { input: inherited.take()?, output: inherited.take()?, bytes: run.bytes() })
    }

    #[inline]
    fn put(&self, message: &Message) -> Result<(), Error> {
        queues::posix_send(&self.output, &message.bytes()[..self.bytes]).map_err(Error::os::<
            io::Error,
        >(
            "mq_send"
        ))
    }

    #[inline]
    fn get(&self, message: &mut Message) -> Result<(), Error> {
        let length = queues::posix_receive(&self.input, message.bytes_mut())
            .map_err(Error::os::<io::Error>("mq_receive"))?;
        if length == self.bytes {
            Ok(())
        } else {
            Err(Error::Usage(format!("mq_receive gave {length} bytes")))
        }
    }
}

impl ClientEnd for Queues {
    #[inline]
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        self.put(request)?;
        self.get(answer)
    }
}

impl ServerEnd for Queues {
    #[inline]
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        self.get(request)
    }

    #[inline]
    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        self.put(answer)
    }
}
