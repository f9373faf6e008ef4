//! Message queues: POSIX, one per direction, and System V, one for both directions.

use m3ipc_report::schema::Wait;

use crate::ends::Exchange;
use crate::error::Error;
use crate::guard::Guard;
use crate::job::{Load, Report};
use crate::payload::{MESSAGE_BYTES, Message};
use crate::raw::queues::{self, SystemVMessage};
use crate::run::Run;
use crate::subject::{Cleanup, Inherited, Opened, Site, Subject};
use crate::subjects::channel::{Channel, posix_queues, receive_exactly, wrong_length};
use crate::subjects::messages;

/// mq_overview(7).
pub struct PosixMq;
/// msgget(2), msgsnd(2), msgrcv(2).
pub struct SystemVMq;

impl Subject for PosixMq {
    fn name(&self) -> &'static str {
        "posix-mq"
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        messages::blocking(load)
    }

    fn bytes(&self, load: &Load) -> usize {
        messages::bytes(load)
    }

    fn open(&self, _: &Site, load: &Load) -> Result<Opened, Error> {
        Opened::pairs(load.count(), || {
            let (client, server) = posix_queues(MESSAGE_BYTES, MESSAGE_BYTES)?;
            Ok((client.into_inherited(), server.into_inherited()))
        })
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        let channel = Channel::from_inherited(inherited)?;
        run.exchange(Posix { channel, bytes: run.load().bytes })
    }
}

struct Posix {
    channel: Channel,
    bytes: usize,
}

impl Exchange for Posix {
    #[inline]
    fn put(&mut self, message: &Message) -> Result<(), Error> {
        queues::posix_send(&self.channel.output, &message.bytes()[..self.bytes])
            .map_err(Error::os("mq_send"))
    }

    #[inline]
    fn get(&mut self, message: &mut Message) -> Result<(), Error> {
        receive_exactly(&self.channel.input, message.bytes_mut(), self.bytes)
    }
}

impl Subject for SystemVMq {
    fn name(&self) -> &'static str {
        "sysv-mq"
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        messages::blocking(load)
    }

    fn bytes(&self, load: &Load) -> usize {
        messages::bytes(load)
    }

    /// A System V queue outlives every process, so a guard removes it.
    fn open(&self, site: &Site, load: &Load) -> Result<Opened, Error> {
        let mut guards = vec![];
        let opened = Opened::pairs(load.count(), || {
            let queue = create()?;
            let names = vec![queue.to_string()];
            guards.push(Guard::start(site, self.name(), names.clone(), &[]).inspect_err(|_| {
                // No guard removes it. The first error says more than a second one.
                let _ = queues::system_v_remove(queue);
            })?);
            Ok((Inherited::names(names.clone()), Inherited::names(names)))
        })?;
        Ok(opened.keeping(guards))
    }

    fn run(&self, run: &Run, inherited: Inherited) -> Result<Report, Error> {
        let queue = parse(inherited.name()?)?;
        let (input, output) = if run.is_client() { (2, 1) } else { (1, 2) };
        let message = SystemVMessage { message_type: output, words: [0; 6] };
        run.exchange(SystemV { queue, input, output, message, bytes: run.load().bytes })
    }

    fn guard(&self, names: &[String]) -> Result<Cleanup, Error> {
        let queues: Vec<i32> = names.iter().map(|name| parse(name)).collect::<Result<_, _>>()?;
        Ok(Box::new(move || {
            let remove = |&queue: &i32| queues::system_v_remove(queue);
            queues.iter().try_for_each(remove).map_err(Error::os("remove a System V queue"))
        }))
    }
}

fn create() -> Result<i32, Error> {
    queues::system_v_create().map_err(|error| match error.raw_os_error() {
        Some(libc::ENOSYS | libc::ENOSPC | libc::EACCES) => Error::Unavailable {
            why: format!("the kernel gives no System V message queue: {error}"),
            next: "see kernel.msgmni (sysctl) and ipcs -q",
        },
        _ => Error::Os { what: "msgget", source: error },
    })
}

fn parse(name: &str) -> Result<i32, Error> {
    name.parse().map_err(|_| Error::Usage(format!("{name:?} is no queue id")))
}

/// The type of a message gives its direction: 1 for requests, 2 for answers.
struct SystemV {
    queue: i32,
    input: libc::c_long,
    output: libc::c_long,
    message: SystemVMessage,
    bytes: usize,
}

impl Exchange for SystemV {
    #[inline]
    fn put(&mut self, message: &Message) -> Result<(), Error> {
        self.message = SystemVMessage { message_type: self.output, words: message.words };
        queues::system_v_send(self.queue, &self.message, self.bytes).map_err(Error::os("msgsnd"))
    }

    #[inline]
    fn get(&mut self, message: &mut Message) -> Result<(), Error> {
        let length = queues::system_v_receive(self.queue, self.input, &mut self.message)
            .map_err(Error::os("msgrcv"))?;
        message.words = self.message.words;
        if length == self.bytes { Ok(()) } else { Err(wrong_length("msgrcv", length)) }
    }
}
