//! Doorbells, for endpoints that a program polls or that have too many links to sleep on.

use crate::server::Server;
use crate::tables::MemberId;
use crate::token::Token;
use m3ipc_abi::{Address, Code};
use m3ipc_sys::{DoorbellReceiver, DoorbellSender};
use m3ipc_wire::{DaemonEvent, Reply};
use std::os::fd::OwnedFd;
use std::rc::Rc;

impl Server {
    pub(super) fn open_doorbell(&mut self, token: Token) {
        let Some(id) = self.require_endpoint(token) else { return };
        let path = self.runtime_directory.doorbell(id.vm, id.address.0);
        // A doorbell of a predecessor, or of an earlier attach, is still bound to this path.
        let _ = std::fs::remove_file(&path);
        match DoorbellReceiver::bind(&path) {
            Ok(doorbell) => self.reply(token, Reply::Done, vec![Rc::new(doorbell.into())]),
            Err(errno) => {
                let why = format!(
                    "no doorbell can be made: {errno}; free descriptors, or space in the runtime \
                     directory"
                );
                self.refuse(token, Code::NoMem, why);
            }
        }
    }

    /// Rings the doorbell of a peer, and connects a sender for the later rings of this member. A
    /// member that no longer waits for the reply has rung all the same.
    pub(super) fn connect_doorbell(&mut self, token: Token, peer: Address) {
        let Some(id) = self.require_endpoint(token) else { return };
        let is_linked = self.node.peers(id).iter().any(|known| known.address == peer);
        if !is_linked {
            let why = format!("there is no link with endpoint {peer}; contact it first");
            return self.refuse(token, Code::DstDied, why);
        }
        match DoorbellSender::connect(&self.runtime_directory.doorbell(id.vm, peer.0)) {
            Ok(sender) => {
                sender.ring();
                self.reply(token, Reply::Done, vec![Rc::new(OwnedFd::from(sender).into())]);
            }
            Err(errno) => {
                // The peer got no doorbell when it returned to this daemon. Any event makes its
                // descriptor readable.
                self.send_event_to(MemberId::new(id.vm, peer), DaemonEvent::Wakeup);
                let why = format!(
                    "the doorbell of endpoint {peer} cannot be reached: {errno}; try again"
                );
                self.refuse(token, Code::Again, why);
            }
        }
    }
}
