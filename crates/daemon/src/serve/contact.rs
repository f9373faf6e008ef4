//! First contact: the link between two endpoints, and the messages that it may carry.

use crate::quota::Resource;
use crate::server::Server;
use crate::state::connection::Deferred;
use crate::state::member_fd::MemberFd;
use crate::tables::{Link, LookupError, MemberId};
use crate::token::Token;
use m3ipc_abi::{Address, Code, Verb};
use m3ipc_link::{LINK_BYTES, MessageKind};
use m3ipc_wire::{DaemonEvent, PeerInfo, RecalledPeer, Reply};
use std::rc::Rc;

impl Server {
    /// Refuses a call to an endpoint that was not found. One that moves was there just now.
    pub(super) fn refuse_absent(&mut self, token: Token, id: MemberId, error: LookupError) {
        if self.node.is_arriving(id) {
            let (code, why) = self.why_ended(id);
            return self.refuse(token, code, why);
        }
        self.refuse(token, error.code(Code::DstDied), error);
    }

    /// Makes a link, or defers the answer until the peer attaches.
    pub(crate) fn contact(&mut self, token: Token, peer: Address) {
        let Some(own) = self.require_endpoint(token) else { return };
        // A peer could keep a writable mapping of a page that is not sealed.
        if !self.connections.is_attached(own) {
            return self.refuse(token, Code::NotBind, "map the pages of the bind first");
        }
        let peer_id = MemberId::new(own.vm, peer);
        // The look may close the peer's connection, so it comes before the lookup.
        self.look_for_mapping_of(peer_id);
        if let Err(error) = self.node.lookup(own.vm, Some(own.address), peer) {
            if self.is_unreachable(token, own.vm, peer) {
                return;
            }
            return self.refuse_absent(token, peer_id, error);
        }
        if self.links.is_held(own, peer_id) {
            return self.reply(token, Reply::Known, Vec::new());
        }
        let attached =
            self.connections.of_endpoint(peer_id).filter(|_| self.connections.is_attached(peer_id));
        let Some(other) = attached else {
            return self.defer(token, Deferred::Contact(peer_id));
        };
        let memory = match self.create_link_memory(own) {
            Ok(memory) => memory,
            Err(why) => return self.refuse(token, Code::NoMem, why),
        };
        // A link of the journal that this party does not hold never reached it: make it again.
        self.node.unlink(own, peer);
        match self.node.link(own, peer) {
            Ok(link) => self.make_link((token, own), (other, peer_id), link, memory),
            Err(error) => {
                self.record();
                self.end_held_link(other, peer_id, own);
                self.refuse(token, error.code(Code::DstDied), error);
            }
        }
    }

    /// Ends the link that a party still holds, and that is in the tables no more: nobody would tell
    /// the party of a later end of the other one.
    fn end_held_link(&mut self, holder: Token, holder_id: MemberId, other: MemberId) {
        if self.links.is_held(holder_id, other) {
            self.links.forget(holder_id, other);
            let event = self.missed_end(other, self.node.is_stand_in(other));
            self.send_event(holder, event, Vec::new());
        }
    }

    /// A contact by a call that does not wait for the peer to attach.
    pub(super) fn contact_now(&mut self, token: Token, peer: Address) {
        let Some(own) = self.require_endpoint(token) else { return };
        let peer_id = MemberId::new(own.vm, peer);
        self.look_for_mapping_of(peer_id);
        let lives = self.node.lookup(own.vm, Some(own.address), peer).is_ok();
        let is_ready = self.links.is_held(own, peer_id) || self.connections.is_attached(peer_id);
        if lives && !is_ready {
            let why = format!(
                "endpoint {peer} has not attached to this daemon yet; it will within a second of \
                 sleep, or at one of its next calls; try again"
            );
            return self.refuse(token, Code::Again, why);
        }
        self.contact(token, peer);
    }

    /// A contact by an endpoint that the earlier link never reached.
    pub(super) fn renew_contact(&mut self, token: Token, peer: Address) {
        if let Some(own) = self.endpoint_of(token) {
            let peer_id = MemberId::new(own.vm, peer);
            self.links.release(own, peer_id);
            // The peer dropped requests that came before its link.
            self.links.forget_copy_gate_requests(own, peer_id);
        }
        self.contact(token, peer);
    }

    fn make_link(
        &mut self,
        (token, own): (Token, MemberId),
        (other, peer): (Token, MemberId),
        link: Link,
        memory: Rc<MemberFd>,
    ) {
        self.record();
        m3ipc_sys::pause_point("daemon.link_recorded");
        let (Some(own_pages), Some(peer_pages)) = (self.peer_pages(own), self.peer_pages(peer))
        else {
            return;
        };
        let (to_peer, to_own) =
            (self.allowed_messages(own, peer), self.allowed_messages(peer, own));
        let (own_index, peer_index) = (link.requester_index, link.peer_index);
        let (Some(about_peer), Some(about_own)) = (
            self.peer_info(peer, (own_index, peer_index), to_peer, to_own),
            self.peer_info(own, (peer_index, own_index), to_own, to_peer),
        ) else {
            return;
        };
        self.links.hold(own, peer);
        self.links.hold(peer, own);
        // The peer first: it has to know the requester before the requester's first message.
        let fds = vec![Rc::clone(&memory), own_pages.0, own_pages.1];
        self.send_event(other, DaemonEvent::Contact(about_own), fds);
        m3ipc_sys::pause_point("daemon.peer_notified");
        // The event may have closed the peer's broken connection. The requester has got the death
        // then, and must not get the link after it.
        if !self.links.is_held(own, peer) {
            let (code, why) = self.why_ended(peer);
            return self.refuse(token, code, why);
        }
        let fds = vec![memory, peer_pages.0, peer_pages.1];
        self.reply(token, Reply::Contact(about_peer), fds);
        if let Some(connection) = self.connections.get_mut(token) {
            connection.know_peer(peer.address.0);
            // A requester whose time limit has passed is in another call: wake it for the link.
            connection.announce_event();
        }
        m3ipc_sys::pause_point("daemon.both_notified");
    }

    /// The memory of a link. Its descriptor counts against the requester until both have got it.
    fn create_link_memory(&mut self, requester: MemberId) -> Result<Rc<MemberFd>, String> {
        let uid = self.node.endpoint(requester).map_or(0, |endpoint| endpoint.uid);
        let charges = self.accounts.charge(uid, &[(Resource::Descriptors, 1)]);
        let charges = charges.map_err(|exceeded| exceeded.to_string())?;
        match m3ipc_sys::create_memory("m3-link", LINK_BYTES as u64) {
            Ok(memory) => Ok(Rc::new(MemberFd::charged(memory, charges))),
            Err(errno) => Err(format!("no memory for a link: {errno}; free memory or descriptors")),
        }
    }

    /// After a takeover, a member names the peers of its links. Peers that ended while no daemon
    /// ran, or before the member came back, are announced now: another endpoint may have the
    /// address.
    ///
    /// Links are in the journal before a party gets them, so this one names others only if the
    /// journal lost its end, or as an attack. It then hears of an end: nobody would tell it of a
    /// later one. Its next call makes a new link.
    pub(super) fn recall_links(&mut self, token: Token, peers: &[RecalledPeer]) {
        let Some(own) = self.require_endpoint(token) else { return };
        for recalled in peers {
            let peer = MemberId::new(own.vm, Address(recalled.address));
            let now = self.node.endpoint(peer).map(|endpoint| endpoint.life);
            if now == Some(recalled.life) && self.node.is_linked(own, peer.address) {
                // This party holds the link. The other party speaks for itself.
                self.links.hold(own, peer);
                if let Some(connection) = self.connections.get_mut(token) {
                    connection.know_peer(recalled.address);
                }
                // The predecessor may have recorded privileges without an event.
                self.send_allowed_messages(own, peer);
            // A link of this daemon replaces the recalled one, and says itself whose it is.
            } else if !self.links.is_held(own, peer) {
                let event = self.missed_end(peer, recalled.was_stand_in);
                self.send_event(token, event, Vec::new());
            }
        }
        self.reply_done(token);
    }

    /// What the peer of an endpoint hears that ended before the peer came back.
    fn missed_end(&self, id: MemberId, was_stand_in: bool) -> DaemonEvent {
        let address = id.address.0;
        if was_stand_in {
            DaemonEvent::Lost(address)
        } else if self.node.is_arriving(id) || self.node.is_stand_in(id) {
            DaemonEvent::Moved(address)
        } else {
            DaemonEvent::Died(address)
        }
    }

    /// The pages of an endpoint that its peers map.
    fn peer_pages(&self, id: MemberId) -> Option<(Rc<MemberFd>, Rc<MemberFd>)> {
        let pages = self.connections.pages_of(id)?;
        Some((Rc::clone(&pages.status_page), Rc::clone(&pages.ready_bitmap)))
    }

    /// A peer as the other party of its link sees it. `indexes`: at the other party, at the peer.
    fn peer_info(
        &self,
        peer: MemberId,
        indexes: (u32, u32),
        may_send: u32,
        may_receive: u32,
    ) -> Option<PeerInfo> {
        let endpoint = self.node.endpoint(peer)?;
        Some(PeerInfo {
            address: peer.address.0,
            pid: endpoint.member.pid,
            life: endpoint.life,
            uid: endpoint.uid,
            gid: endpoint.gid,
            index_here: indexes.0,
            index_there: indexes.1,
            may_send,
            may_receive,
        })
    }

    /// The messages that one endpoint may send to another: a bit per kind.
    pub(super) fn allowed_messages(&self, from: MemberId, to: MemberId) -> u32 {
        let bit = |verb, bit: u32| match self.node.check_verb(from, Some(to.address), verb) {
            Ok(()) => bit,
            Err(_denied) => 0,
        };
        bit(Verb::Notify, PeerInfo::MAY_NOTIFY)
            | bit(Verb::Send, 1 << MessageKind::Send as u32)
            | bit(Verb::Sendrec, 1 << MessageKind::Request as u32)
            | bit(Verb::Reply, 1 << MessageKind::Reply as u32)
            | bit(Verb::Relay, 1 << MessageKind::Relay as u32)
            | if self.node.is_stand_in(to) { PeerInfo::MAY_HOLD } else { 0 }
    }
}
