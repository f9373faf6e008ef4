//! A System V message queue, requests and answers told apart by their kind.
//!
//! Such a queue outlives every process, so a janitor process removes it as
//! soon as the supervisor lets go of it or dies, be it by kill -9.

use std::process::{Child, Command, Stdio};

use super::{ClientEnd, Inherited, Mechanism, ServerEnd, Site, Transport};
use crate::clock::Clock;
use crate::error::Error;
use crate::job::{Job, Report, Side, Task, Wait, Work};
use crate::payload::Message;
use crate::peer::{PEER_ARGUMENT, Run};
use crate::raw::queues::{self, Letter};

const REQUEST: libc::c_long = 1;
const ANSWER: libc::c_long = 2;

/// msgget(2), msgsnd(2), msgrcv(2).
pub struct SysvMq;

impl Mechanism for SysvMq {
    fn name(&self) -> &'static str {
        "sysv-mq"
    }

    fn open(&self, site: &Site) -> Result<Transport, Error> {
        let queue = queues::system_v_create().map_err(|error| match error.raw_os_error() {
            Some(libc::ENOSYS | libc::ENOSPC | libc::EACCES) => Error::Unavailable {
                why: format!("the kernel gives no System V message queue: {error}"),
                next: "look at kernel.msgmni (sysctl) and at ipcs -q",
            },
            _ => Error::Os { what: "msgget", source: error },
        })?;
        let janitor = Janitor::start(site, queue).inspect_err(|_| {
            // Nobody else is left to remove it; the first error says more than a second would.
            let _ = queues::system_v_remove(queue);
        })?;
        Ok(Transport {
            names: vec![queue.to_string()],
            keep: vec![Box::new(janitor)],
            ..Transport::default()
        })
    }

    fn client(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.drive(Letters::new(&inherited, run, ANSWER, REQUEST)?)
    }

    fn server(&self, inherited: Inherited, run: &Run) -> Result<Report, Error> {
        run.serve(Letters::new(&inherited, run, REQUEST, ANSWER)?)
    }
}

/// The janitor's work, once its supervisor has gone: removes the queue of this name.
///
/// # Errors
/// Where there is no such queue.
pub fn remove_queue(name: &str) -> Result<(), Error> {
    queues::system_v_remove(parse(name)?).map_err(Error::os("remove a System V queue"))
}

fn parse(name: &str) -> Result<i32, Error> {
    name.parse().map_err(|_| Error::Usage(format!("{name:?} is no queue id")))
}

/// The process that removes a queue; it leaves when its standard input ends.
struct Janitor(Child);

impl Janitor {
    fn start(site: &Site, queue: i32) -> Result<Self, Error> {
        use std::os::unix::process::CommandExt;
        let job = Job {
            mechanism: "sysv-mq".into(),
            side: Side::Idle,
            work: Work::Ipc2,
            wait: Wait::Block,
            bytes: 0,
            cpu: None,
            fds: vec![],
            names: vec![queue.to_string()],
            clock: Clock::Monotonic,
            task: Task::Janitor,
        };
        let job = serde_json::to_string(&job).map_err(Error::json("a job"))?;
        // Its own process group: Ctrl-C must not end it before it has done its work.
        let child = Command::new(&site.exe)
            .args([PEER_ARGUMENT, &job])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(Error::os("start the janitor of a System V queue"))?;
        Ok(Self(child))
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends by itself now; what it could not remove it has said on standard error.
        let _ = self.0.wait();
    }
}

struct Letters {
    queue: i32,
    input: libc::c_long,
    letter: Letter,
    bytes: usize,
    out: libc::c_long,
}

impl Letters {
    fn new(
        inherited: &Inherited,
        run: &Run,
        input: libc::c_long,
        out: libc::c_long,
    ) -> Result<Self, Error> {
        let name = inherited.names.first().map_or("", String::as_str);
        let letter = Letter { kind: out, words: [0; 6] };
        Ok(Self { queue: parse(name)?, input, letter, bytes: run.bytes(), out })
    }

    #[inline]
    fn put(&mut self, message: &Message) -> Result<(), Error> {
        self.letter.kind = self.out;
        self.letter.words = message.words;
        queues::system_v_send(self.queue, &self.letter, self.bytes).map_err(Error::os("msgsnd"))
    }

    #[inline]
    fn get(&mut self, message: &mut Message) -> Result<(), Error> {
        let length = queues::system_v_receive(self.queue, self.input, &mut self.letter)
            .map_err(Error::os("msgrcv"))?;
        message.words = self.letter.words;
        if length == self.bytes {
            Ok(())
        } else {
            Err(Error::Usage(format!("msgrcv gave {length} bytes")))
        }
    }
}

impl ClientEnd for Letters {
    #[inline]
    fn trip(&mut self, request: &Message, answer: &mut Message) -> Result<(), Error> {
        self.put(request)?;
        self.get(answer)
    }
}

impl ServerEnd for Letters {
    #[inline]
    fn receive(&mut self, request: &mut Message) -> Result<(), Error> {
        self.get(request)
    }

    #[inline]
    fn send(&mut self, answer: &Message) -> Result<(), Error> {
        self.put(answer)
    }
}
