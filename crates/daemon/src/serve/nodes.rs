//! The proxy of this node: its registration, its stand-ins, and the events that it gets.
//!
//! A node without a proxy has no slots of other nodes, so it uses nothing of this.

use crate::server::Server;
use crate::state::connection::Deferred;
use crate::tables::{self, Credentials, Death, Member, MemberId, MemberKind};
use crate::token::Token;
use m3ipc_abi::{Address, Code};
use m3ipc_wire::{
    BACKED_SLOTS_MAX, BackedSlot, DaemonEvent, FOREIGN_RANGES_MAX, NODE_NAME_MAX_BYTES, NodesEvent,
    NodesRequest, OTHER_NODES_MAX, OtherNode, OtherNodeInfo, OtherSlots, Reply, SlotPlace,
};

impl Server {
    pub(super) fn serve_nodes(&mut self, token: Token, cred: &Credentials, request: NodesRequest) {
        if request == NodesRequest::List {
            return self.list_other_nodes(token, cred);
        }
        let proxy_user = self.settings.proxy_user.filter(|user| *user == cred.uid);
        if proxy_user.is_none() && !cred.is_daemons(m3ipc_sys::user_id()) && !cred.owns_all() {
            let why = format!(
                "only the user of the daemon, its `--proxy-user` and {} may be its proxy; run it \
                 as one of them",
                tables::OWNS_ALL
            );
            return self.refuse(token, Code::Privileges, why);
        }
        match request {
            NodesRequest::Register(slots) => self.register_proxy(token, cred.pid, slots),
            NodesRequest::Place { slot, place } => self.place(token, slot, place),
            NodesRequest::Known(nodes) => self.set_known(token, nodes),
            // Answered above, for any user.
            NodesRequest::List => {}
            NodesRequest::Reachable { node, reachable } => {
                self.set_reachable(token, node, reachable);
            }
            NodesRequest::StandIn { vm, address } => {
                self.bind_stand_in(token, cred, MemberId::new(vm, Address(address)));
            }
            NodesRequest::Died => {
                if let Some(id) = self.endpoint_of(token).filter(|id| self.node.is_stand_in(*id)) {
                    self.nodes.died.insert(id);
                }
                self.reply_done(token);
            }
            NodesRequest::Woken { number, code } => self.end_wakeup(token, number, code),
            NodesRequest::NotMoved { vm, address, code, why } => {
                let code = Code::from_number(code).unwrap_or(Code::Unknown);
                self.refuse_move(token, MemberId::new(vm, Address(address)), (code, why));
            }
        }
        self.end_missed_waits();
    }

    /// Ends the waits for endpoints that have moved and were not bound again.
    fn end_missed_waits(&mut self) {
        let tickets = self.node.take_missed();
        self.complete_tickets(&tickets, Code::Endpoint.number());
    }

    /// Wakes an endpoint of another node. The answer comes when the proxy tells the end.
    pub(super) fn wake_remote(&mut self, token: Token, own: Option<MemberId>, id: MemberId) {
        let Some(own) = own.filter(|own| own.vm == id.vm) else {
            let why = format!(
                "endpoint {} is on another node; bind an endpoint of its VM, or wake it there",
                id.address
            );
            return self.refuse(token, Code::RmtProc, why);
        };
        self.nodes.last_wakeup += 1;
        let number = self.nodes.last_wakeup;
        self.defer(token, Deferred::Wakeup(number));
        let (vm, from, address) = (id.vm, own.address.0, id.address.0);
        self.tell_proxy(NodesEvent::Wakeup { number, vm, from, address });
    }

    fn end_wakeup(&mut self, token: Token, number: u64, code: i32) {
        if self.nodes.proxy != Some(token) {
            return self.refuse(token, Code::BadProxy, "this connection is not that of the proxy");
        }
        // The caller may have gone, or asked for something else.
        for waiting in self.connections.deferred_until(Deferred::Wakeup(number)) {
            match code {
                0 => self.reply_done(waiting),
                code => {
                    let code = Code::from_number(code).unwrap_or(Code::Unknown);
                    self.refuse(waiting, code, "the node of the endpoint says so");
                }
            }
        }
        self.reply_done(token);
    }

    fn register_proxy(&mut self, token: Token, pid: i32, slots: OtherSlots) {
        if self.nodes.proxy.is_some_and(|proxy| proxy != token) {
            let why = "this node has a proxy already; end that m3-proxy first";
            return self.refuse(token, Code::RscBusy, why);
        }
        if slots.foreign.len() > FOREIGN_RANGES_MAX || slots.backed.len() > BACKED_SLOTS_MAX {
            let why = format!(
                "more than {FOREIGN_RANGES_MAX} ranges of slots, or {BACKED_SLOTS_MAX} slots with \
                 a backup; join ranges, or name fewer backups"
            );
            return self.refuse(token, Code::BadValue, why);
        }
        let (is_new, connections) = (self.nodes.proxy.is_none(), &self.connections);
        let registered = self.node.set_foreign(slots, is_new, |id| connections.is_attached(id));
        let left_over = match registered {
            Ok(left_over) => left_over,
            Err((id, node)) => {
                let why = format!(
                    "endpoint {} of VM {} has a slot of the node {node}; end that program, or \
                     give its slot to this node in the registry",
                    id.address, id.vm
                );
                return self.refuse(token, Code::SlotUsed, why);
            }
        };
        left_over.into_iter().for_each(|id| self.end_replaced(id));
        (self.nodes.proxy, self.nodes.proxy_pid) = (Some(token), pid);
        let own: Vec<MemberId> = self.node.own_endpoints().collect();
        for id in own {
            // Others follow when they have mapped their pages.
            if self.connections.is_attached(id) {
                self.tell_proxy_bound(id);
            }
        }
        tracing::info!("a proxy registered: endpoints of other nodes can be called");
        self.reply_done(token);
        for (id, tickets) in self.node.places_are_known() {
            self.complete_tickets(&tickets, id.address.0);
        }
    }

    /// A slot with a backup is at another node than before.
    fn place(&mut self, token: Token, BackedSlot { vm, slot }: BackedSlot, place: SlotPlace) {
        if self.nodes.proxy != Some(token) {
            return self.refuse(token, Code::BadProxy, "this connection is not that of the proxy");
        }
        let is_move = matches!(place, SlotPlace::Moved { .. });
        if let SlotPlace::Moved { address, .. } = &place
            && !self.awaits_move(MemberId::new(vm, Address(*address)))
        {
            let why = "the owner of the endpoint waits for no move any more: it stays";
            return self.refuse(token, Code::NotBind, why);
        }
        match self.node.place((vm, slot), place) {
            Ok((ended, tickets)) => {
                m3ipc_sys::pause_point("daemon.placed");
                match ended {
                    // The proxy has dropped a stand-in already, unless its endpoint moves here.
                    Some(id) if is_move || self.node.is_stand_in(id) => self.end_moved(id),
                    Some(id) => self.end_replaced(id),
                    None => {}
                }
                self.reply_done(token);
                self.complete_tickets(&tickets, slot);
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    /// Ends an endpoint in whose place another node has one. It hears of it as of an unbind.
    fn end_replaced(&mut self, id: MemberId) {
        let node = self.node.node_of(id.vm, id.address).unwrap_or("another node").to_owned();
        let address = id.address.0;
        if crate::log::admits(self.node.endpoint(id).map_or(0, |endpoint| endpoint.uid)) {
            let vm = id.vm;
            tracing::info!(vm, address, node, "an endpoint ends: another node has its slot");
        }
        self.ask_to_leave(id);
        self.unbind_endpoint(id);
    }

    /// The endpoint of this connection wants to move. The proxy decides.
    pub(super) fn move_endpoint(&mut self, token: Token) {
        let Some(id) = self.require_endpoint(token) else { return };
        if self.nodes.proxy.is_none() || self.node.is_stand_in(id) {
            let why = "no proxy runs here, so there is no other node; start `m3-proxy run`";
            return self.refuse(token, Code::NoProxy, why);
        }
        if !self.node.has_backup(id) {
            let why = "the registry names no backup for the slot; name one, and start all proxies \
                       anew";
            return self.refuse(token, Code::NoNode, why);
        }
        self.defer(token, Deferred::Move(id));
        // An owner that asks again meanwhile costs the proxy nothing.
        if self.nodes.asked.insert(id) {
            self.tell_proxy(NodesEvent::Move { vm: id.vm, address: id.address.0 });
        }
    }

    /// Whether the owner of an endpoint waits for its move. An owner that gave it up has been told
    /// that nothing moves. The proxy has heard of the wish, so a later one is new to it.
    fn awaits_move(&mut self, id: MemberId) -> bool {
        self.nodes.asked.remove(&id);
        !self.connections.deferred_until(Deferred::Move(id)).is_empty()
    }

    /// Ends an endpoint that moves: its peers may call again.
    fn end_moved(&mut self, id: MemberId) {
        let mover = self.connections.deferred_until(Deferred::Move(id));
        self.nodes.moved.insert(id);
        self.unbind_endpoint(id);
        self.nodes.moved.remove(&id);
        m3ipc_sys::pause_point("daemon.move_ended");
        mover.into_iter().for_each(|token| self.reply_done(token));
    }

    fn refuse_move(&mut self, token: Token, id: MemberId, (code, why): (Code, String)) {
        if self.nodes.proxy != Some(token) {
            return self.refuse(token, Code::BadProxy, "this connection is not that of the proxy");
        }
        self.nodes.asked.remove(&id);
        for waiting in self.connections.deferred_until(Deferred::Move(id)) {
            self.refuse(waiting, code, why.as_str());
        }
        self.reply_done(token);
    }

    fn set_reachable(&mut self, token: Token, node: String, reachable: bool) {
        if self.nodes.proxy != Some(token) {
            return self.refuse(token, Code::BadProxy, "this connection is not that of the proxy");
        }
        if crate::log::admits(self.connections.get(token).map_or(0, |it| it.cred.uid)) {
            tracing::info!(node, reachable, "another node");
        }
        if reachable {
            self.nodes.reachable.insert(node);
        } else {
            self.nodes.reachable.remove(&node);
        }
        self.reply_done(token);
    }

    fn set_known(&mut self, token: Token, nodes: Vec<OtherNode>) {
        if self.nodes.proxy != Some(token) {
            return self.refuse(token, Code::BadProxy, "this connection is not that of the proxy");
        }
        let is_named = |it: &OtherNode| it.name.len() <= NODE_NAME_MAX_BYTES;
        if nodes.len() > OTHER_NODES_MAX || !nodes.iter().all(is_named) {
            let why = format!("more than {OTHER_NODES_MAX} nodes, or a name that is too long");
            return self.refuse(token, Code::BadValue, why);
        }
        self.nodes.known = nodes;
        self.reply_done(token);
    }

    fn list_other_nodes(&mut self, token: Token, cred: &Credentials) {
        let info = |other: &OtherNode| {
            let has_slots = |vm: i32| self.node.has_slots_of(vm, &other.name);
            let may_see = |vm: &i32| self.node.visible_vm(*vm, cred).is_ok();
            let all = self.node.vm_ids().into_iter();
            let vms: Vec<i32> = all.filter(|vm| has_slots(*vm)).filter(may_see).collect();
            let stands_for = |id: &MemberId| {
                vms.contains(&id.vm)
                    && self.node.node_of(id.vm, id.address) == Some(other.name.as_str())
            };
            let endpoints = self.node.stand_ins().iter().filter(|id| stands_for(id)).count();
            OtherNodeInfo {
                id: other.id,
                name: other.name.clone(),
                reachable: self.nodes.reachable.contains(&other.name),
                vms,
                endpoints: u32::try_from(endpoints).unwrap_or(u32::MAX),
            }
        };
        let list = self.nodes.known.iter().map(info).collect();
        let proxy_pid = self.nodes.proxy.map(|_| self.nodes.proxy_pid);
        self.reply(token, Reply::OtherNodes { proxy_pid, list }, Vec::new());
    }

    fn bind_stand_in(&mut self, token: Token, cred: &Credentials, id: MemberId) {
        let Some(connection) = self.connections.get(token) else { return };
        if connection.id.is_some() {
            let why = "this connection has an endpoint already; use another connection";
            return self.refuse(token, Code::SlotUsed, why);
        }
        let member = Member { pid: cred.pid, tid: None, started: connection.started };
        match self.node.bind_stand_in(id, member, cred) {
            Ok(bound) => {
                self.record();
                self.give_pages(token, id, bound.tickets, false);
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    /// The connection of the proxy has closed: nothing of other nodes can be reached.
    pub(crate) fn note_closed_proxy(&mut self, token: Token) {
        if self.nodes.proxy == Some(token) {
            self.nodes.proxy = None;
            self.node.proxy_left();
            self.end_missed_waits();
            for waiting in self.connections.waking() {
                let why = "the proxy has left; the endpoint may have been woken";
                self.refuse(waiting, Code::Unknown, why);
            }
            for waiting in self.connections.moving() {
                self.refuse(waiting, Code::NoProxy, "the proxy has left; nothing has moved");
            }
            self.nodes.asked.clear();
            self.nodes.reachable.clear();
            self.nodes.known.clear();
            tracing::info!("the proxy has left: endpoints of other nodes cannot be called");
        }
    }

    /// The answer to a contact with an endpoint that nobody stands in for, because its node cannot
    /// be reached.
    pub(super) fn is_unreachable(&mut self, token: Token, vm: i32, peer: Address) -> bool {
        let Some(why) = self.why_unreachable(vm, peer) else { return false };
        self.reply(token, Reply::Unreachable(why), Vec::new());
        true
    }

    /// Why nothing reaches the node of this endpoint; `None` if it is reached, or is this node.
    pub(super) fn why_unreachable(&self, vm: i32, peer: Address) -> Option<String> {
        let node = self.node.node_of(vm, peer)?;
        if self.nodes.proxy.is_some() && self.nodes.reachable.contains(node) {
            return None;
        }
        Some(match self.nodes.proxy {
            None => format!(
                "slot {} belongs to node {node}, and no proxy runs here; start it with \
                 `m3 node join`",
                peer.slot()
            ),
            Some(_) => format!(
                "slot {} belongs to node {node}, which cannot be reached; see why with \
                 `m3 node ls`",
                peer.slot()
            ),
        })
    }

    /// A bind has taken effect. The endpoint may have names: it had them at an earlier daemon, or
    /// before this proxy.
    pub(super) fn tell_proxy_bound(&mut self, id: MemberId) {
        if self.nodes.proxy.is_none() || self.node.is_stand_in(id) {
            return;
        }
        self.tell_proxy(NodesEvent::Bound { vm: id.vm, address: id.address.0 });
        let names = self.node.endpoint(id).map(|endpoint| endpoint.names.clone());
        for name in names.into_iter().flatten() {
            self.tell_proxy_named(id, &name);
        }
    }

    /// An endpoint has attached a name.
    pub(super) fn tell_proxy_named(&mut self, id: MemberId, name: &str) {
        if self.nodes.proxy.is_some() && !self.node.is_stand_in(id) {
            let (vm, address, name) = (id.vm, id.address.0, name.to_owned());
            self.tell_proxy(NodesEvent::Named { vm, address, name });
        }
    }

    /// An endpoint has ended; its peers have their events.
    pub(crate) fn tell_proxy_ended(&mut self, death: &Death) {
        if death.kind != MemberKind::StandIn {
            let MemberId { vm, address } = death.id;
            self.tell_proxy(NodesEvent::Ended { vm, address: address.0 });
        }
    }

    fn tell_proxy(&mut self, event: NodesEvent) {
        if let Some(proxy) = self.nodes.proxy {
            self.send_event(proxy, DaemonEvent::Nodes(event), Vec::new());
        }
    }

    /// What the peers of a dead endpoint hear.
    pub(crate) fn end_event(&mut self, death: &Death) -> DaemonEvent {
        let address = death.id.address.0;
        if self.nodes.moved.contains(&death.id) {
            DaemonEvent::Moved(address)
        } else if death.kind == MemberKind::StandIn && !self.nodes.died.remove(&death.id) {
            DaemonEvent::Lost(address)
        } else {
            DaemonEvent::Died(address)
        }
    }

    /// Ends the stand-ins of a VM that ends, or all. The proxy makes new ones when it can.
    pub(crate) fn end_stand_ins(&mut self, of_vm: Option<i32>) {
        let all = self.node.stand_ins().into_iter();
        for id in all.filter(|id| of_vm.is_none_or(|vm| vm == id.vm)) {
            self.unbind_endpoint(id);
        }
    }
}
