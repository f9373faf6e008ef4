//! Two eventfds, which carry a count only. The 48 bytes lie in a shared page.

use std::sync::atomic::Ordering::{Acquire, Release};

use m3ipc_report::schema::Wait;
use rustix::event::{EventfdFlags, eventfd};

use crate::ends::Exchange;
use crate::error::Error;
use crate::job::{Load, Report};
use crate::payload::Message;
use crate::raw::Page;
use crate::run::Run;
use crate::subject::{Inherited, Opened, Site, Subject};
use crate::subjects::channel::{Channel, duplicate, get_all, put_all};
use crate::subjects::messages;

/// First words of requests and answers, 256 bytes apart.
const REQUEST_WORD: usize = 0;
const ANSWER_WORD: usize = 32;

/// eventfd(2), one per direction.
pub struct EventFd;

impl Subject for EventFd {
    fn name(&self) -> &'static str {
        "eventfd"
    }

    fn waits(&self, load: &Load) -> &'static [Wait] {
        messages::blocking(load)
    }

    fn bytes(&self, load: &Load) -> usize {
        messages::bytes(load)
    }

    fn open(&self, _: &Site, load: &Load) -> Result<Opened, Error> {
        let event = || eventfd(0, EventfdFlags::CLOEXEC).map_err(Error::os("eventfd"));
        Opened::pairs(load.count(), || {
            let (requests, answers, page) = (event()?, event()?, Page::create()?);
            let client = vec![duplicate(&page)?, duplicate(&answers)?, duplicate(&requests)?];
            Ok((Inherited::fds(client), Inherited::fds(vec![page, requests, answers])))
        })
    }

    fn run(&self, run: &Run, mut inherited: Inherited) -> Result<Report, Error> {
        let page = Page::map(&inherited.take()?)?;
        let words = [REQUEST_WORD, ANSWER_WORD];
        let [input, output] = if run.is_client() { [words[1], words[0]] } else { words };
        let (channel, words) = (Channel::from_inherited(inherited)?, run.load().bytes.div_ceil(8));
        run.exchange(Events { channel, page, input, output, words })
    }
}

struct Events {
    channel: Channel,
    page: Page,
    input: usize,
    output: usize,
    words: usize,
}

impl Exchange for Events {
    #[inline]
    fn put(&mut self, message: &Message) -> Result<(), Error> {
        for i in 0..self.words {
            // The eventfd orders both sides; Release and Acquire tell the compiler.
            self.page.word(self.output + i).store(message.words[i], Release);
        }
        put_all(&self.channel.output, &1_u64.to_ne_bytes())
    }

    #[inline]
    fn get(&mut self, message: &mut Message) -> Result<(), Error> {
        get_all(&self.channel.input, &mut [0; 8])?;
        for i in 0..self.words {
            message.words[i] = self.page.word(self.input + i).load(Acquire);
        }
        Ok(())
    }
}
