//! First contacts that do not wait for the reply of the daemon.
//!
//! The reply makes the endpoint's descriptor readable. The caller then tries the step again.

use super::Endpoint;
use crate::control::{OpenRequest, RequestState, unexpected};
use crate::error::Fail;
use crate::observe;
use crate::timeout::Deadline;
use m3ipc_abi::{Address, Code};
use m3ipc_wire::Reply;

/// Attempts of a step if the daemon dies during each of them.
pub(super) const TRIES: u32 = 20;

/// The failure of a step whose daemon dies each time.
pub(super) fn no_daemon() -> Fail {
    Fail::new(Code::NotConn, "the node daemon dies again and again; see its log")
}

impl Endpoint {
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
                if self.session.returns().is_under_way() {
                    self.session.returns_mut().check()?;
                    return Ok(None);
                }
                continue;
            };
            match self.session.control_mut().poll(&open) {
                RequestState::Open => {
                    self.claims.keep_contact(peer, open);
                    return Ok(None);
                }
                RequestState::Lost => {}
                RequestState::Ended(reply) => self.contact_ended(peer, reply)?,
            }
        }
        Err(no_daemon())
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
}
