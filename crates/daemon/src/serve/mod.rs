//! Requests. The daemon checks each one, changes the tables, records the change, and answers.

mod area;
mod area_leave;
mod bind;
mod bind_other;
mod contact;
mod copy_gate;
mod deadlock;
mod doorbell;
mod endpoints;
mod node;
mod nodes;
mod notify;
mod privileges;
mod socket;
mod tickets;
mod trace;
mod usage;
mod vm;
mod vm_open;

#[cfg(test)]
mod tests;

use crate::server::Server;
use crate::tables::{Credentials, MemberId, TicketId};
use crate::token::Token;
use m3ipc_abi::{Address, Code};
use m3ipc_wire::{AreaRequest, Request, TraceRequest, VERSION};

impl Server {
    /// Serves one request of a connection. Before it gives the pages of the caller to a peer, it
    /// seals them.
    pub(crate) fn serve(&mut self, token: Token, request: Request) {
        let mapped = self.seal_if_mapped(token);
        self.serve_request(token, request);
        // After the answer: this wakes the watcher thread, and maps a page.
        if let Some(id) = mapped.filter(|id| self.endpoint_of(token) == Some(*id)) {
            self.begin_contacts(token, id, true);
            self.add_end_mark(token);
        }
    }

    fn serve_request(&mut self, token: Token, request: Request) {
        let Some(connection) = self.connections.get(token) else { return };
        if !connection.greeted {
            return self.greet(token, &request);
        }
        let cred = connection.cred.clone();
        // A new request gives up the deferred one. Answers come in the order of the requests.
        let has_answer = !matches!(
            request,
            Request::Left
                | Request::MappedNoReply
                | Request::CopyGateReady { .. }
                | Request::Trace(TraceRequest::Mapped)
                | Request::Area(AreaRequest::Orphaned { .. })
        );
        if connection.deferred.is_some() && has_answer {
            if let Some(connection) = self.connections.get_mut(token) {
                connection.bounce_buffer = None;
            }
            self.refuse(token, Code::TimedOut, "the caller gave up this request for another one");
        }
        let needs_node = !matches!(
            request,
            Request::NodeInit(_) | Request::NodeInfo | Request::NodeEnd | Request::Usage { .. }
        );
        if !self.lifecycle.is_initialised() && needs_node {
            let why = "the node is not initialised; call drvs_init first";
            return self.refuse(token, Code::DrvsInit, why);
        }
        if self.reserve_record(token, &request) {
            self.dispatch(token, &cred, request);
        }
    }

    fn greet(&mut self, token: Token, request: &Request) {
        match request {
            Request::Hello { version: VERSION } => {
                if let Some(connection) = self.connections.get_mut(token) {
                    connection.greeted = true;
                }
                let welcome = m3ipc_wire::Reply::Welcome { version: VERSION };
                self.reply(token, welcome, Vec::new());
            }
            Request::Hello { version } => {
                let why = format!(
                    "this daemon speaks version {VERSION}, the library version {version}; use \
                     both of one release"
                );
                self.refuse(token, Code::Version, why);
                self.close(token);
            }
            _ => self.close(token),
        }
    }

    fn dispatch(&mut self, token: Token, cred: &Credentials, request: Request) {
        match request {
            Request::Hello { .. } => self.close(token),
            Request::NodeInit(params) => self.node_init(token, &params),
            Request::NodeEnd => self.node_end(token, cred),
            Request::NodeInfo => self.node_info(token),
            Request::VmInit(params) => self.vm_init(token, cred, params),
            Request::VmOpen(params) => self.vm_open(token, cred, params),
            Request::VmEnd(vm) => self.vm_end(token, cred, vm),
            Request::VmInfo(vm) => self.vm_info(token, cred, vm),
            Request::VmFind(name) => self.vm_find(token, cred, &name),
            Request::VmList => self.vm_list(token, cred),
            Request::Bind { vm, slot, kind, nonce } => {
                self.bind(token, cred, (vm, slot), kind, nonce)
            }
            Request::Mapped => self.mapped(token),
            Request::MappedNoReply => self.mapped_no_reply(token),
            Request::BindOther { vm, pid, slot } => self.bind_other(token, cred, vm, pid, slot),
            Request::Claim => self.claim(token, cred),
            Request::Reattach { vm, address, tid } => {
                self.attach(token, cred, member_id(vm, address), tid);
            }
            Request::Unbind { vm, address } => self.unbind(token, cred, member_id(vm, address)),
            Request::Left => self.left(token),
            Request::Contact(address) => self.contact(token, Address(address)),
            Request::ContactNow(address) => self.contact_now(token, Address(address)),
            Request::Notify { destination, bits } => self.notify(token, Address(destination), bits),
            Request::Renew(address) => self.renew_contact(token, Address(address)),
            Request::Recall(peers) => self.recall_links(token, &peers),
            Request::GetEndpoint(pid) => self.get_endpoint(token, cred, pid),
            Request::Await(event) => self.wait_for(token, cred, &event),
            Request::Forget(ticket) => self.cancel_ticket(token, TicketId(ticket)),
            Request::NameAttach { name, key } => self.name_attach(token, &name, key),
            Request::NameReserve { name, key } => self.name_reserve(token, cred, &name, key),
            Request::NameLocate(name) => self.name_locate(token, &name),
            Request::Wakeup { vm, address } => self.wakeup(token, cred, member_id(vm, address)),
            Request::SetPrivileges { vm, address, privileges } => {
                self.set_privileges(token, cred, member_id(vm, address), privileges);
            }
            Request::GetPrivileges { vm, address } => {
                self.get_privileges(token, cred, member_id(vm, address));
            }
            Request::NotifyFor { vm, source, destination, bits } => {
                let destination = member_id(vm, destination);
                self.notify_for(token, cred, Address(source), destination, bits);
            }
            Request::Endpoints { vm, from } => self.list_endpoints(token, cred, vm, from),
            Request::OpenDoorbell => self.open_doorbell(token),
            Request::DoorbellSender(address) => self.connect_doorbell(token, Address(address)),
            Request::Area(request) => self.serve_area(token, cred, request),
            Request::Sock(request) => self.serve_socket(token, cred, request),
            Request::IsDeadlock => self.is_deadlock(token),
            Request::CopyGate { peer, surely, bounce_buffer } => {
                self.request_copy_gate(token, Address(peer), surely, bounce_buffer);
            }
            Request::CopyGateReady { peer, address, probe } => {
                self.copy_gate_ready(token, Address(peer), address, probe);
            }
            Request::Trace(request) => self.serve_trace(token, cred, request),
            Request::Usage { from } => self.usage(token, cred, from),
            Request::Nodes(request) => self.serve_nodes(token, cred, request),
            Request::Move => self.move_endpoint(token),
        }
    }
}

fn member_id(vm: i32, address: i32) -> MemberId {
    MemberId::new(vm, Address(address))
}
