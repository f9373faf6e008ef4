//! The contact with a peer: the link between both, made at the first contact.
//!
//! | caller | while the daemon makes the link |
//! |---|---|
//! | a call | waits for the reply, within its time limit |
//! | a step of an event loop | goes on; the reply makes the endpoint's descriptor readable, and the step runs again |

use super::Endpoint;
use super::daemon_limit::NO_WAIT_NS;
use crate::control::{OpenRequest, RequestState, unexpected};
use crate::error::Fail;
use crate::observe;
use crate::timeout::Deadline;
use m3ipc_abi::{Address, Code};
use m3ipc_link::LinkSide;
use m3ipc_link::ends::Cause;
use m3ipc_wire::{PeerInfo, Reply};
use std::os::fd::OwnedFd;

/// Attempts of a step if the daemon dies during each of them.
pub(super) const TRIES: u32 = 20;

/// What a look for the reply to an open request found.
#[derive(Debug)]
pub(super) enum ReplyLook {
    /// The reply.
    Came(Result<Reply, Fail>),
    /// Nothing yet.
    NotYet(OpenRequest),
    /// The daemon of the request is gone.
    Gone,
}

/// The failure of a step whose daemon dies each time.
pub(super) fn no_daemon() -> Fail {
    Fail::new(Code::NotConn, "the node daemon dies again and again; see its log")
}

impl Endpoint {
    /// The link with a peer. Makes the link at the first contact.
    #[inline]
    pub(super) fn contact(&mut self, peer: Address, deadline: Deadline) -> Result<u32, Fail> {
        self.receive_events()?;
        self.forget_dead();
        let index = match self.peers.find(peer) {
            Some(index) => {
                self.peers.remember(peer, index);
                index
            }
            None => self.contact_slow(peer, deadline)?,
        };
        self.peers.begin_call();
        Ok(index)
    }

    /// Makes a link with this peer, if there is none.
    pub(crate) fn meet(&mut self, peer: Address) -> Result<(), Fail> {
        self.contact(peer, Deadline::NEVER).map(drop)
    }

    #[cold]
    fn contact_slow(&mut self, peer: Address, deadline: Deadline) -> Result<u32, Fail> {
        let contacted = self.first_contact(peer, deadline);
        observe::contact(self.membership.vm(), self.membership.address(), peer, contacted.is_ok());
        contacted
    }

    fn first_contact(&mut self, peer: Address, deadline: Deadline) -> Result<u32, Fail> {
        for _ in 0..TRIES {
            let request = self.session.missing_links().request_for(peer, deadline);
            m3ipc_sys::pause_point("client.before_contact");
            let on_signal = &mut || self.waiter.interruption().by_signal();
            let control = self.session.control_mut();
            let replied = if deadline.no_wait {
                let until_ns = m3ipc_sys::monotonic_ns() + NO_WAIT_NS;
                control.request_unless_stopped(&request, until_ns, on_signal)
            } else if deadline.is_finite() {
                control.request_until(&request, deadline.at_ns, on_signal)
            } else {
                // The reply may wait for the peer: it claims its bind, or returns to a new daemon.
                control.request_while_running_or_signal(&request, on_signal)
            };
            match replied {
                Ok((Reply::Contact(info), _)) if info.address != peer.0 => {
                    return Err(unexpected());
                }
                Ok((Reply::Contact(info), fds)) => {
                    // Events from before the reply are older than the link. A later event may be
                    // the death of this very peer.
                    while let Some((event, fds, side)) =
                        self.session.control_mut().next_buffered_event()
                    {
                        self.apply_event(event, fds, side);
                    }
                    let index = self.adopt(&info, fds, LinkSide::Zero)?;
                    m3ipc_sys::pause_point("client.link_mapped");
                    return Ok(index);
                }
                Ok((Reply::Known, _)) => {
                    self.receive_all_events();
                    match self.peers.find(peer) {
                        Some(index) => return Ok(index),
                        None => self.session.missing_links().add(peer.0),
                    }
                }
                Ok((Reply::Unreachable(why), _)) => return Err(Fail::new(Code::NotConn, why)),
                Ok(_) => return Err(unexpected()),
                Err(fail) if fail.code == Code::NotConn && deadline.no_wait => {
                    self.reattach_soon();
                    if self.session.returns().is_under_way() {
                        return Err(Code::Again.into());
                    }
                }
                Err(fail) if fail.code == Code::NotConn => self.reattach_if_closed(),
                Err(fail) if fail.code == Code::TimedOut && deadline.no_wait => {
                    return Err(Code::Again.into());
                }
                Err(fail) if fail.code == Code::TimedOut && !deadline.is_finite() => {
                    return Err(Fail::new(Code::NotConn, self.session.control().why_silent()));
                }
                Err(fail) => {
                    if fail.code == Code::NoMem {
                        self.session.missing_links().add(peer.0);
                    }
                    self.receive_events()?;
                    return Err(fail);
                }
            }
            self.receive_events()?;
        }
        Err(no_daemon())
    }

    /// The link with a peer; `None` while the daemon makes it. Gives a running daemon `give_ns` to
    /// do so.
    pub(super) fn contact_soon(
        &mut self,
        peer: Address,
        give_ns: u64,
    ) -> Result<Option<u32>, Fail> {
        self.receive_events()?;
        self.forget_dead();
        for _ in 0..TRIES {
            if let Some(index) = self.peers.find(peer) {
                if let Some(open) = self.claims.take_contact(peer) {
                    self.session.control_mut().forget(&open);
                }
                self.peers.begin_call();
                return Ok(Some(index));
            }
            let Some(open) = self.open_contact(peer, give_ns)? else {
                if self.is_returning()? {
                    return Ok(None);
                }
                continue;
            };
            match self.look_for_reply(open) {
                ReplyLook::NotYet(open) => {
                    self.claims.keep_contact(peer, open);
                    return Ok(None);
                }
                ReplyLook::Gone => {}
                ReplyLook::Came(reply) => self.contact_ended(peer, reply)?,
            }
        }
        Err(no_daemon())
    }

    /// Whether the endpoint is on its way to a new daemon.
    pub(super) fn is_returning(&mut self) -> Result<bool, Fail> {
        let is_under_way = self.session.returns().is_under_way();
        if is_under_way {
            self.session.returns_mut().check()?;
        }
        Ok(is_under_way)
    }

    /// Looks for the reply to an open request. Never waits.
    pub(super) fn look_for_reply(&mut self, open: OpenRequest) -> ReplyLook {
        // The look for a close reads frames, so it comes before the look for the reply.
        let is_closed = self.session.control_mut().is_closed();
        match self.session.control_mut().poll(&open) {
            RequestState::Ended(reply) => ReplyLook::Came(reply),
            RequestState::Lost => ReplyLook::Gone,
            RequestState::Open if is_closed => {
                self.reattach_soon();
                ReplyLook::Gone
            }
            RequestState::Open => ReplyLook::NotYet(open),
        }
    }

    /// The open request for a link. Sends it if there is none; `None` if the daemon was gone.
    fn open_contact(&mut self, peer: Address, give_ns: u64) -> Result<Option<OpenRequest>, Fail> {
        if let Some(open) = self.claims.take_contact(peer) {
            return Ok(Some(open));
        }
        let request = self.session.missing_links().request_for(peer, Deadline::NEVER);
        let Ok(open) = self.session.control_mut().begin(&request) else {
            self.reattach_soon();
            self.receive_events()?;
            return Ok(None);
        };
        if give_ns > 0 {
            self.session.control_mut().wait_until(&open, m3ipc_sys::monotonic_ns() + give_ns);
        }
        Ok(Some(open))
    }

    fn contact_ended(&mut self, peer: Address, reply: Result<Reply, Fail>) -> Result<(), Fail> {
        observe::contact(self.membership.vm(), self.membership.address(), peer, reply.is_ok());
        match reply {
            // The link itself is an event.
            Ok(Reply::Done) => self.receive_all_events(),
            Ok(Reply::Known) => {
                self.receive_all_events();
                if self.peers.find(peer).is_none() {
                    self.session.missing_links().add(peer.0);
                }
            }
            Ok(Reply::Unreachable(why)) => return Err(Fail::new(Code::NotConn, why)),
            Ok(_) => return Err(unexpected()),
            // The daemon waited for the peer to attach, and another request ended that wait.
            Err(fail) if fail.code == Code::TimedOut => {}
            Err(fail) => {
                if fail.code == Code::NoMem {
                    self.session.missing_links().add(peer.0);
                }
                self.receive_events()?;
                return Err(fail);
            }
        }
        self.receive_events()
    }

    /// Maps a link, or remembers it as missing.
    pub(super) fn adopt(
        &mut self,
        info: &PeerInfo,
        fds: Vec<OwnedFd>,
        side: LinkSide,
    ) -> Result<u32, Fail> {
        self.session.missing_links().remove(info.address);
        if let Some(former) = self.ended_before(info) {
            self.note_missed_end(former);
        }
        // A link made anew after a takeover: the peer may never have got the old one.
        if let Some(old) = self.peers.find(Address(info.address)) {
            self.inbox.keep_last_of(self.peers.get_mut(old));
            self.settle_request(old, Cause::Replaced);
        }
        let adopted = self.peers.adopt(info, fds, side);
        if adopted.is_err() {
            self.session.missing_links().add(info.address);
        }
        adopted.map_err(|_page| {
            let why = "this process has no descriptor or no memory left for a link; close \
                       something, or raise its limits (ulimit -n, ulimit -v)";
            Fail::new(Code::NoMem, why)
        })
    }
}
