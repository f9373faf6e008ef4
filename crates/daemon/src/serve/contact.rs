//! First contact: a link between two endpoints, and what may be said over it.

use crate::connection::Deferred;
use crate::server::Server;
use m3ipc_abi::{Address, Code};
use m3ipc_link::{LINK_BYTES, MessageKind};
use m3ipc_model::tables::{Link, LookupError, MemberId, Verb};
use m3ipc_wire::{DaemonEvent, PeerInfo, Reply};
use std::rc::Rc;

impl Server {
    /// Makes a link, or lets the caller wait for a peer that has not (re)appeared yet.
    pub(crate) fn contact(&mut self, token: u64, peer: Address) {
        let Some(here) = self.own_place(token) else { return };
        let there = MemberId::new(here.vm, peer);
        if let Err(error) = self.node.lookup(here.vm, Some(here.address), peer) {
            let died = matches!(error, LookupError::Dead(_));
            let code = if died { Code::DstDied } else { error.code(Code::DstDied) };
            return self.refuse(token, code, error);
        }
        if self.held.contains(&(here, there)) {
            return self.reply(token, Reply::Known, Vec::new());
        }
        let ready = self.present.get(&there).copied().filter(|other| {
            let pages =
                self.connections.get(other).and_then(|connection| connection.pages.as_ref());
            pages.is_some_and(|pages| pages.sealed)
        });
        let Some(other) = ready else {
            if let Some(connection) = self.connections.get_mut(&token) {
                connection.waits_for = Some(Deferred::Contact(there));
            }
            return;
        };
        // A link of before a takeover that its party does not hold never reached it: made anew.
        self.node.unlink(here, peer);
        match self.node.link(here, peer) {
            Ok(link) => self.make_link(token, here, other, there, link),
            Err(error) => self.refuse(token, error.code(Code::DstDied), error),
        }
    }

    /// A contact of one who does not wait for the other to come (back).
    pub(super) fn contact_now(&mut self, token: u64, peer: Address) {
        let Some(here) = self.own_place(token) else { return };
        let there = MemberId::new(here.vm, peer);
        let lives = self.node.lookup(here.vm, Some(here.address), peer).is_ok();
        if lives && !self.held.contains(&(here, there)) && !self.has_come(there) {
            return self.refuse(
                token,
                Code::Again,
                format_args!(
                    "endpoint {peer} has not come to this daemon yet; it will within a second of \
                                    sleep, or at one of its next calls"
                ),
            );
        }
        self.contact(token, peer);
    }

    /// A contact of one whom the former link never reached.
    pub(super) fn renew(&mut self, token: u64, peer: Address) {
        if let Some(here) = self.connections.get(&token).and_then(|connection| connection.place) {
            self.held.remove(&(here, MemberId::new(here.vm, peer)));
        }
        self.contact(token, peer);
    }

    fn make_link(&mut self, token: u64, here: MemberId, other: u64, there: MemberId, link: Link) {
        let memory = match m3ipc_sys::create_memory("m3ipc-link", LINK_BYTES as u64) {
            Ok(memory) => Rc::new(memory),
            Err(errno) => {
                self.node.unlink(here, there.address);
                return self.refuse(
                    token,
                    Code::NoMem,
                    format_args!("no memory for a link: {errno}"),
                );
            }
        };
        self.record();
        m3ipc_sys::pause_point("daemon.link_recorded");
        let (Some(mine), Some(theirs)) = (self.pages_of(token), self.pages_of(other)) else {
            return;
        };
        let (to_peer, to_me) = (self.allowed(here, there), self.allowed(there, here));
        let of_peer = self.peer_info(there, link.asker_index, link.peer_index, to_peer, to_me);
        let of_me = self.peer_info(here, link.peer_index, link.asker_index, to_me, to_peer);
        let (Some(of_peer), Some(of_me)) = (of_peer, of_me) else { return };
        self.held.extend([(here, there), (there, here)]);
        // The peer first: what the caller posts at once must not find a stranger.
        let fds = vec![Rc::clone(&memory), mine.0, mine.1];
        self.tell(other, DaemonEvent::Contact(of_me), fds);
        m3ipc_sys::pause_point("daemon.peer_told");
        // It may turn out to be dead by that; the caller has been told of the death then,
        // and must not get the link of a dead one after it.
        if !self.held.contains(&(here, there)) {
            return self.refuse(
                token,
                Code::DstDied,
                format_args!("endpoint {} died", there.address),
            );
        }
        self.reply(token, Reply::Contact(of_peer), vec![memory, theirs.0, theirs.1]);
        // As news, too: a caller whose limit has passed is in another call, and must hear of the link there.
        if let Some(connection) = self.connections.get(&token) {
            connection.announce();
        }
        m3ipc_sys::pause_point("daemon.both_told");
    }

    /// After a takeover: whoever died while no daemon lived is told of now.
    pub(super) fn recall(&mut self, token: u64, peers: &[i32]) {
        let Some(here) = self.own_place(token) else { return };
        for peer in peers {
            let there = MemberId::new(here.vm, Address(*peer));
            if self.node.endpoint(there).is_some() {
                // Held by this party; whether the other holds it too it says itself.
                self.held.insert((here, there));
            } else {
                self.tell(token, DaemonEvent::Died(*peer), Vec::new());
            }
        }
        self.done(token);
    }

    /// Forgets the links of one that has gone.
    pub(crate) fn forget_links(
        &mut self,
        place: MemberId,
        peers: &[m3ipc_model::tables::LinkedPeer],
    ) {
        for peer in peers {
            let other = MemberId::new(place.vm, peer.address);
            self.held.remove(&(place, other));
            self.held.remove(&(other, place));
            self.windows.remove(&(place, other));
            self.windows.remove(&(other, place));
        }
    }

    fn pages_of(&self, token: u64) -> Option<(Rc<std::os::fd::OwnedFd>, Rc<std::os::fd::OwnedFd>)> {
        let pages = self.connections.get(&token)?.pages.as_ref()?;
        Some((Rc::clone(&pages.status), Rc::clone(&pages.hints)))
    }

    fn peer_info(
        &self,
        peer: MemberId,
        index_here: u32,
        index_there: u32,
        may_send: u32,
        may_receive: u32,
    ) -> Option<PeerInfo> {
        let endpoint = self.node.endpoint(peer)?;
        Some(PeerInfo {
            address: peer.address.0,
            pid: endpoint.member.pid,
            uid: endpoint.uid,
            gid: endpoint.gid,
            index_here,
            index_there,
            may_send,
            may_receive,
        })
    }

    /// What one endpoint may say to another: a bit per kind of message.
    pub(crate) fn allowed(&self, from: MemberId, to: MemberId) -> u32 {
        let may = |verb, bit: u32| match self.node.may(from, Some(to.address), verb) {
            Ok(()) => bit,
            Err(_denied) => 0,
        };
        may(Verb::Notify, PeerInfo::MAY_NOTIFY)
            | may(Verb::Send, 1 << MessageKind::Send as u32)
            | may(Verb::Sendrec, 1 << MessageKind::Request as u32)
            | may(Verb::Reply, 1 << MessageKind::Reply as u32)
            | may(Verb::Relay, 1 << MessageKind::Relay as u32)
    }
}
