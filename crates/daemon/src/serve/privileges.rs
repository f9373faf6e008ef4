//! Privileges: set, get, and their effect on present links.

use crate::server::Server;
use crate::tables::{Credentials, MemberId};
use crate::token::Token;
use m3ipc_wire::{DaemonEvent, Privileges, Reply};

impl Server {
    pub(super) fn set_privileges(
        &mut self,
        token: Token,
        cred: &Credentials,
        id: MemberId,
        privileges: Privileges,
    ) {
        let traps = privileges.traps;
        if let Err(error) = self.node.set_priv(id, privileges, cred) {
            return self.refuse(token, error.code(), error);
        }
        self.record();
        self.send_event_to(id, DaemonEvent::Traps(traps));
        for peer in self.node.peers(id) {
            let peer = MemberId::new(id.vm, peer.address);
            self.send_allowed_messages(id, peer);
            self.send_allowed_messages(peer, id);
        }
        self.reply_done(token);
    }

    /// Reports to an endpoint which messages its link with a peer may carry from now on.
    pub(super) fn send_allowed_messages(&mut self, id: MemberId, peer: MemberId) {
        let may_send = self.allowed_messages(id, peer);
        let may_receive = self.allowed_messages(peer, id);
        let address = peer.address.0;
        self.send_event_to(id, DaemonEvent::Allowed { address, may_send, may_receive });
    }

    pub(super) fn get_privileges(&mut self, token: Token, cred: &Credentials, id: MemberId) {
        if let Err(error) = self.node.visible_vm(id.vm, cred) {
            return self.refuse(token, error.code(), error);
        }
        match self.node.get_priv(id).cloned() {
            Ok(privileges) => self.reply(token, Reply::Privileges(privileges), Vec::new()),
            Err(error) => self.refuse(token, error.code(), error),
        }
    }
}
