//! Requests: each is checked, done in the tables, written down, then answered.

pub(crate) mod area;
mod ask;
mod bell;
mod berth;
mod bind;
mod contact;
mod node;
mod notes;
mod rights;
pub(crate) mod sock;
mod trace;
mod vm;
mod waits;

pub(crate) use notes::Notes;
pub(crate) use trace::Traces;

use crate::server::Server;
use m3ipc_abi::{Address, Code};
use m3ipc_model::tables::{Credentials, MemberId};
use m3ipc_wire::{AreaRequest, Reply, Request, TraceRequest, VERSION};

impl Server {
    /// Serves one request of a connection.
    pub(crate) fn serve(&mut self, token: u64, request: Request) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if !connection.greeted {
            return match request {
                Request::Hello { version: VERSION } => {
                    connection.greeted = true;
                    self.reply(token, Reply::Welcome { version: VERSION }, Vec::new());
                }
                Request::Hello { version } => {
                    self.refuse(
                        token,
                        Code::Version,
                        format_args!("this daemon speaks version {VERSION}, the library {version}"),
                    );
                    self.close(token);
                }
                _ => self.close(token),
            };
        }
        let cred = connection.cred.clone();
        // Who asks again has given up the former request; answers come in the order of requests.
        let is_word = matches!(
            request,
            Request::Left
                | Request::Forget(_)
                | Request::CopyGateReady { .. }
                | Request::Trace(TraceRequest::Mapped)
                | Request::Area(AreaRequest::Orphaned { .. })
        );
        if connection.waits_for.is_some() && !is_word {
            self.refuse(token, Code::TimedOut, "given up for another request");
        }
        if !self.initialised
            && !matches!(request, Request::NodeInit(_) | Request::NodeInfo | Request::NodeEnd)
        {
            return self.refuse(
                token,
                Code::DrvsInit,
                "the node is not initialised; call drvs_init first",
            );
        }
        if self.has_room(token, &request) {
            self.dispatch(token, &cred, request);
        }
    }

    fn dispatch(&mut self, token: u64, cred: &Credentials, request: Request) {
        match request {
            Request::Hello { .. } => self.close(token),
            Request::NodeInit(params) => self.node_init(token, &params),
            Request::NodeEnd => self.node_end(token, cred),
            Request::NodeInfo => self.node_info(token),
            Request::VmInit(params) => self.vm_init(token, cred, params),
            Request::VmEnd(vm) => self.vm_end(token, cred, vm),
            Request::VmInfo(vm) => self.vm_info(token, cred, vm),
            Request::VmFind(name) => self.vm_find(token, cred, &name),
            Request::VmList => self.vm_list(token, cred),
            Request::Bind { vm, slot, kind } => self.bind(token, cred, vm, slot, kind),
            Request::Mapped => self.mapped(token),
            Request::BindOther { vm, pid, slot } => self.bind_other(token, cred, vm, pid, slot),
            Request::Claim => self.claim(token, cred),
            Request::Reattach { vm, address, tid } => self.reattach(token, cred, vm, address, tid),
            Request::Unbind { vm, address } => self.unbind(token, cred, vm, address),
            Request::Left => self.leave(token),
            Request::Contact(address) => self.contact(token, Address(address)),
            Request::ContactNow(address) => self.contact_now(token, Address(address)),
            Request::Notify { destination, bits } => self.notify(token, Address(destination), bits),
            Request::Renew(address) => self.renew(token, Address(address)),
            Request::Recall(peers) => self.recall(token, &peers),
            Request::GetEndpoint(pid) => self.get_endpoint(token, cred, pid),
            Request::Await(what) => self.wait_for(token, cred, &what),
            Request::Forget(ticket) => self.forget(token, ticket),
            Request::NameAttach(name) => self.name_attach(token, &name),
            Request::NameLocate(name) => self.name_locate(token, &name),
            Request::Wakeup { vm, address } => self.wakeup(token, cred, place(vm, address)),
            Request::SetPrivileges { vm, address, privileges } => {
                self.set_privileges(token, cred, place(vm, address), privileges);
            }
            Request::GetPrivileges { vm, address } => {
                self.get_privileges(token, cred, place(vm, address))
            }
            Request::NotifyFor { source, destination } => {
                self.notify_for(token, cred, Address(source), Address(destination));
            }
            Request::Endpoints { vm, from } => self.endpoints(token, cred, vm, from),
            Request::OpenDoorbell => self.hang_bell(token),
            Request::DoorbellSender(address) => self.clapper(token, Address(address)),
            Request::Area(request) => self.serve_area(token, cred, request),
            Request::Sock(request) => self.serve_sock(token, cred, request),
            Request::IsDeadlock => self.is_deadlock(token),
            Request::CopyGate { peer, surely, bounce_buffer: window } => {
                self.berth(token, Address(peer), surely, window)
            }
            Request::CopyGateReady { peer, address, probe } => {
                self.berthed(token, Address(peer), address, probe)
            }
            Request::Trace(request) => self.trace(token, cred, request),
        }
    }

    /// The endpoint that a connection is for, or a refusal.
    fn own_place(&mut self, token: u64) -> Option<MemberId> {
        let place = self.connections.get(&token).and_then(|connection| connection.place);
        if place.is_none() {
            self.refuse(token, Code::NotBind, "the caller is not bound in any VM");
        }
        place
    }

    /// Answers with a number, or refuses.
    fn reply_number(&mut self, token: u64, number: i32) {
        self.reply(token, Reply::Number(number), Vec::new());
    }

    fn done(&mut self, token: u64) {
        self.record();
        self.reply(token, Reply::Done, Vec::new());
    }
}

fn place(vm: i32, address: i32) -> MemberId {
    MemberId::new(vm, Address(address))
}
