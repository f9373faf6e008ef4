//! Copy gates: the daemon introduces a requester of copies to the other party.
//!
//! The daemon forwards the request to the party, and the party's answer to the requester. From then
//! on the two agree by the copy gate in their link. The daemon sees none of their copies.
//!
//! A party gets one event for all requests of a requester that it has not answered. Requests
//! without end therefore cost their requester its own turns at the daemon, and the party nothing.
//! The daemon keeps a bounce buffer until its requester gets it: that a request was given up makes
//! no further one.

use crate::quota::Resource;
use crate::server::Server;
use crate::state::connection::Deferred;
use crate::state::member_fd::MemberFd;
use crate::tables::MemberId;
use crate::token::Token;
use m3ipc_abi::{Address, Code, Verb};
use m3ipc_link::BOUNCE_BUFFER_BYTES;
use m3ipc_wire::{DaemonEvent, Reply};
use std::rc::Rc;

/// The number of bounce buffers that one endpoint may request towards one peer. It needs one, and
/// another after each process that died during a copy.
const BOUNCE_BUFFERS_PER_PAIR: u32 = 8;

impl Server {
    /// An endpoint requests copies with a peer that waits. `surely`: the requester knows that the
    /// peer waits, whatever its control page says.
    pub(super) fn request_copy_gate(
        &mut self,
        token: Token,
        peer: Address,
        surely: bool,
        wants_buffer: bool,
    ) {
        let Some(own) = self.require_endpoint(token) else { return };
        if let Err(denied) = self.node.check_verb(own, None, Verb::Vcopy) {
            return self.refuse(token, denied.code(), denied);
        }
        let peer_id = MemberId::new(own.vm, peer);
        let is_linked = self.links.is_held(own, peer_id);
        let Some(other) = self.connections.of_endpoint(peer_id).filter(|_| is_linked) else {
            let why = format!(
                "endpoint {peer} has no link with the caller, or has not returned after a \
                 takeover; contact it first"
            );
            return self.refuse(token, Code::ProcSts, why);
        };
        // The node of a remote endpoint knows whether that waits.
        let surely = surely || self.node.is_stand_in(peer_id);
        if !surely && !self.may_be_copied(peer_id) {
            let why =
                format!("endpoint {peer} is in no receive and no sendrec; copy while it waits");
            return self.refuse(token, Code::ProcSts, why);
        }
        // The party has the buffer of a request that was given up.
        let kept = self.links.undelivered_buffer(own, peer_id).filter(|_| wants_buffer);
        let needs_new = wants_buffer && kept.is_none();
        let new = match needs_new.then(|| self.create_bounce_buffer(own, peer_id)).transpose() {
            Ok(new) => new,
            Err(why) => return self.refuse(token, Code::NoMem, why),
        };
        if let Some(connection) = self.connections.get_mut(token) {
            connection.deferred = Some(Deferred::CopyGate(peer_id));
            connection.bounce_buffer = kept.or_else(|| new.clone());
        }
        // The party answers each event once, and a new bounce buffer needs an event of its own.
        if self.links.ask_copy_gate(own, peer_id) || needs_new {
            let event = DaemonEvent::CopyGate { peer: own.address.0, bounce_buffer: needs_new };
            self.send_event(other, event, new.into_iter().collect());
        }
    }

    fn may_be_copied(&self, id: MemberId) -> bool {
        let pages = self.connections.pages_of(id);
        pages.is_some_and(|pages| pages.control_page.blocked().call.may_be_copied())
    }

    fn create_bounce_buffer(
        &mut self,
        own: MemberId,
        peer: MemberId,
    ) -> Result<Rc<MemberFd>, String> {
        if self.links.bounce_buffers(own, peer) >= BOUNCE_BUFFERS_PER_PAIR {
            return Err(format!(
                "endpoint {} has {BOUNCE_BUFFERS_PER_PAIR} bounce buffers for this peer, its \
                 quota; unbind it and bind again",
                own.address
            ));
        }
        let uid = self.node.endpoint(own).map_or(0, |endpoint| endpoint.uid);
        let charges = self.accounts.charge(uid, &[(Resource::Descriptors, 1)]);
        let charges = charges.map_err(|exceeded| exceeded.to_string())?;
        let memory =
            m3ipc_sys::create_memory("m3-bounce", BOUNCE_BUFFER_BYTES as u64).map_err(|errno| {
                format!("no memory for a bounce buffer: {errno}; free memory or descriptors")
            })?;
        let buffer = Rc::new(MemberFd::charged(memory, charges));
        self.links.add_bounce_buffer(own, peer, &buffer);
        Ok(buffer)
    }

    /// A party opened its copy gate for a requester.
    pub(super) fn copy_gate_ready(
        &mut self,
        token: Token,
        requester: Address,
        address: u64,
        probe: [u64; 2],
    ) {
        let Some(id) = self.endpoint_of(token) else { return };
        let requester_id = MemberId::new(id.vm, requester);
        self.links.note_open_copy_gate(requester_id, id);
        let Some(requester) = self.connections.of_endpoint(requester_id) else { return };
        let Some(connection) = self.connections.get_mut(requester) else { return };
        if connection.deferred == Some(Deferred::CopyGate(id)) {
            let buffer = connection.bounce_buffer.take();
            if buffer.is_some() {
                self.links.note_delivered_buffer(requester_id, id);
            }
            self.reply(requester, Reply::CopyGate { address, probe }, buffer.into_iter().collect());
        }
    }
}
