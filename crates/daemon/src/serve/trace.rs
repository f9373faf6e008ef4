//! Tracing: rings of stamped records for the owner of a VM and for `CAP_SYS_PTRACE`.
//!
//! A member gets its ring first. Once it has mapped the ring, the daemon seals it against any other
//! writer and gives it to the tracer. A VM has one tracer. The end of the tracer's connection ends
//! the trace, for whatever reason: its request, its death, or the daemon's. A member that does not
//! read its connection has at most one ring on its way, however often a trace begins and ends.

use crate::quota::Resource;
use crate::server::Server;
use crate::state::member_fd::MemberFd;
use crate::state::traces::SentRing;
use crate::tables::{Credentials, MemberId};
use crate::token::Token;
use m3ipc_abi::Code;
use m3ipc_link::trace_bytes;
use m3ipc_wire::{DaemonEvent, TraceEvent, TraceRequest};
use std::rc::Rc;

/// Memory for the rings of one user's traces, in bytes. Root has no such limit.
const USER_BYTES: u64 = 256 << 20;

impl Server {
    pub(super) fn serve_trace(&mut self, token: Token, cred: &Credentials, request: TraceRequest) {
        match request {
            TraceRequest::Begin { vm, slots, sharp } => {
                self.begin_trace(token, cred, vm, slots, sharp);
            }
            TraceRequest::End => {
                self.end_traces_of(token);
                self.reply_done(token);
            }
            TraceRequest::Mapped => self.ring_mapped(token),
        }
    }

    fn begin_trace(&mut self, token: Token, cred: &Credentials, vm: i32, slots: u32, sharp: bool) {
        let owner = match self.node.vm(vm) {
            Ok(vm) => vm.spec().owner_uid,
            Err(error) => return self.refuse(token, error.code(), error),
        };
        if cred.uid != owner && !cred.may_trace() {
            let why = "only the VM's owner and a process with CAP_SYS_PTRACE in the user and PID \
                       namespace of the daemon may trace it; ask one of them";
            return self.refuse(token, Code::Privileges, why);
        }
        if let Some(trace) = self.traces.get(vm) {
            let tracer = self.connections.get(trace.tracer);
            let pid = tracer.map_or(0, |connection| connection.cred.pid);
            let why = format!("process {pid} traces this VM already; end that trace first");
            return self.refuse(token, Code::Busy, why);
        }
        self.traces.begin(vm, token, cred.uid, slots, sharp);
        if crate::log::admits(cred.uid) {
            tracing::info!(vm, pid = cred.pid, uid = cred.uid, "trace begun");
        }
        self.reply_done(token);
        for (id, member) in self.connections.attached_in(vm) {
            self.look_for_mapping(member);
            if self.connections.is_attached(id) {
                self.send_ring(id, member);
            }
        }
    }

    /// Gives a ring to a member that attached, if its VM is traced.
    pub(super) fn trace_new_member(&mut self, id: MemberId) {
        if let Some(member) = self.connections.of_endpoint(id) {
            self.send_ring(id, member);
        }
    }

    fn send_ring(&mut self, id: MemberId, member: Token) {
        // The member gets a ring of this trace once it has mapped that of the former one.
        if self.traces.has_sent_ring(member) {
            return;
        }
        let Some(trace) = self.traces.get(id.vm) else { return };
        let (bytes, uid, sharp) = (trace_bytes(trace.slots), trace.uid, trace.sharp);
        let (vm, address) = (id.vm, id.address.0);
        let has_room = uid == 0 || self.traces.bytes_of(uid) + bytes <= USER_BYTES;
        let charges = self.accounts.charge(uid, &[(Resource::Descriptors, 1)]);
        let (true, Ok(charges)) = (has_room, charges) else {
            if crate::log::admits(uid) {
                tracing::warn!(
                    vm,
                    address,
                    uid,
                    "an endpoint is not traced: its tracer's quota is used up"
                );
            }
            return;
        };
        match m3ipc_sys::create_sealable_memory("m3-trace", bytes) {
            Ok(ring) => {
                let ring = Rc::new(MemberFd::charged(ring, charges));
                self.traces.add_sent_ring(id, member, Rc::clone(&ring));
                let event = DaemonEvent::Trace(TraceEvent::On { sharp });
                self.send_event(member, event, vec![ring]);
            }
            Err(errno) => {
                tracing::warn!(vm, address, %errno, "an endpoint is not traced: no memory")
            }
        }
    }

    /// A member has mapped its ring, or cannot: the daemon seals it and gives it to the tracer.
    fn ring_mapped(&mut self, member: Token) {
        let Some(SentRing { number, ring, .. }) = self.traces.take_sent_ring(member) else {
            return;
        };
        let Some(connection) = self.connections.get(member) else { return };
        let (Some(id), pid) = (connection.id, connection.cred.pid) else { return };
        let Some(trace) = self.traces.get(id.vm) else { return };
        if trace.number != number {
            return self.send_ring(id, member);
        }
        let tracer = trace.tracer;
        if let Err(errno) = m3ipc_sys::seal_against_new_writers(&ring) {
            if crate::log::admits(connection.cred.uid) {
                tracing::error!(%errno, "a trace ring cannot be sealed; no tracer gets it");
            }
            return;
        }
        let event = TraceEvent::Ring { address: id.address.0, pid };
        self.send_event(tracer, DaemonEvent::Trace(event), vec![ring]);
    }

    /// Reports the end of an endpoint to its tracer, which can still read the last records.
    pub(crate) fn end_member_trace(&mut self, id: MemberId) {
        let member = self.connections.of_endpoint(id);
        if let Some(tracer) = self.traces.remove_member(id, member) {
            let event = TraceEvent::Gone { address: id.address.0 };
            self.send_event(tracer, DaemonEvent::Trace(event), Vec::new());
        }
    }

    /// Ends the traces of a connection.
    pub(crate) fn end_traces_of(&mut self, token: Token) {
        for vm in self.traces.remove_tracer(token) {
            tracing::debug!(vm, "trace ended");
            for (_, member) in self.connections.attached_in(vm) {
                self.send_event(member, DaemonEvent::Trace(TraceEvent::Off), Vec::new());
            }
        }
    }
}
