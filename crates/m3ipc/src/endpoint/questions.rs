//! Questions to the daemon that do not wait for its reply, for asynchronous endpoints.
//!
//! The reply makes the endpoint's descriptor readable. The caller then asks again.

use super::Endpoint;
use super::contact::{ReplyLook, TRIES, no_daemon};
use super::received::{Received, Source};
use crate::control::{OpenRequest, unexpected};
use crate::error::{Fail, ReceiveError};
use crate::timeout::Timeout;
use m3ipc_abi::Address;
use m3ipc_wire::{AwaitedEvent, Reply, Request};

/// A question to the daemon that no call waits for.
#[derive(Debug)]
pub(crate) struct Question(OpenRequest);

/// A wait for a name.
#[derive(Debug, Default)]
pub(crate) struct NameWait {
    name: String,
    /// The ticket of the daemon, and the number of daemons that this endpoint has had.
    ticket: Option<(u64, usize)>,
}

impl NameWait {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ticket: None }
    }
}

impl Endpoint {
    /// Takes a message if one is there, without a wait for a first contact with its source.
    /// `has_waited`: an earlier look of the same receive found nothing.
    pub(crate) fn receive_bytes_soon(
        &mut self,
        source: Source,
        has_waited: bool,
    ) -> Result<(Received, Vec<u8>), ReceiveError> {
        if has_waited {
            // The wait ends with the life that it began with.
            let waited = self.receive_events_of_wait(source);
            waited.map_err(|fail| ReceiveError::of(fail, source.address()))?;
        }
        if let Source::From(address) = source
            && self.membership.check_bound().is_ok()
            && self.awaits_contact(address)
        {
            return Err(ReceiveError::WouldBlock(address));
        }
        self.inbox.set_waited(has_waited);
        let received = self.receive_bytes(source, Timeout::NoWait);
        self.inbox.set_waited(false);
        received
    }

    /// Whether nothing can have come from this source: the link is under way, and no notification
    /// came without one.
    fn awaits_contact(&mut self, source: Address) -> bool {
        for _ in 0..TRIES {
            let before = self.session.control().activity();
            let _ = self.receive_events();
            if self.inbox.has_kept(source) || !matches!(self.contact_soon(source, 0), Ok(None)) {
                return false;
            }
            // Whatever was read meanwhile makes the descriptor readable no more.
            if self.session.control().activity() == before {
                return true;
            }
        }
        // The receive looks once more.
        false
    }

    /// The reply to a question, if it has come. Asks at the first call, and again if the daemon
    /// died.
    pub(crate) fn ask_soon(
        &mut self,
        question: &mut Option<Question>,
        request: &Request,
    ) -> Result<Option<Reply>, Fail> {
        self.disarm();
        self.ask_armed(question, request)
    }

    /// The same for a caller that polls for everything else after this.
    fn ask_armed(
        &mut self,
        question: &mut Option<Question>,
        request: &Request,
    ) -> Result<Option<Reply>, Fail> {
        self.membership.check_bound()?;
        for _ in 0..TRIES {
            let Some(Question(open)) = question.take() else {
                match self.session.control_mut().begin(request) {
                    Ok(open) => *question = Some(Question(open)),
                    Err(_gone) => self.reattach_soon(),
                }
                self.receive_events()?;
                if self.is_returning()? {
                    return Ok(None);
                }
                continue;
            };
            match self.look_for_reply(open) {
                ReplyLook::Came(reply) => return reply.map(Some),
                ReplyLook::Gone => {}
                ReplyLook::NotYet(open) => {
                    *question = Some(Question(open));
                    return Ok(None);
                }
            }
        }
        Err(no_daemon())
    }

    /// Gives a question up.
    pub(crate) fn drop_question(&mut self, Question(open): Question) {
        self.session.control_mut().forget(&open);
    }

    /// The endpoint with the awaited name, if there is one.
    pub(crate) fn poll_name_wait(
        &mut self,
        wait: &mut NameWait,
        question: &mut Option<Question>,
    ) -> Result<Option<Address>, Fail> {
        self.disarm();
        self.poll_name_armed(wait, question)
    }

    /// The same for a caller that polls for everything else after this.
    pub(crate) fn poll_name_armed(
        &mut self,
        wait: &mut NameWait,
        question: &mut Option<Question>,
    ) -> Result<Option<Address>, Fail> {
        self.membership.check_bound()?;
        self.reattach_soon();
        if wait.ticket.is_some_and(|(_, daemons)| daemons != self.waiter.pages().count()) {
            // The next daemon knows no ticket of its predecessor.
            wait.ticket = None;
        }
        if wait.ticket.is_none() {
            let request = Request::Await(AwaitedEvent::Name(wait.name.clone()));
            match self.ask_armed(question, &request)? {
                Some(Reply::Number(address)) => return Ok(Some(Address(address))),
                Some(Reply::Wait(ticket)) => {
                    wait.ticket = Some((ticket, self.waiter.pages().count()))
                }
                Some(_) => return Err(unexpected()),
                None => return Ok(None),
            }
        }
        self.receive_all_events();
        // Whatever reads frames comes before the look for the ticket.
        let bound = self.receive_events();
        let Some((ticket, _)) = wait.ticket else { return Ok(None) };
        let Some(address) = self.session.take_ended_wait(ticket) else {
            return bound.map(|()| None);
        };
        wait.ticket = None;
        super::queries::answer_of(address).map(Some)
    }

    /// The number of frames of the daemon that were read or taken.
    pub(crate) fn daemon_activity(&self) -> u64 {
        self.session.control().activity()
    }

    /// Ends a wait for a name that nobody awaits any more.
    pub(crate) fn drop_name_wait(&mut self, wait: &NameWait) {
        // Another daemon may have given the same number to another wait.
        if let Some((ticket, daemons)) = wait.ticket
            && daemons == self.waiter.pages().count()
        {
            self.session.forget_wait(ticket);
        }
    }
}
