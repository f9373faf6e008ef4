//! Tracing: rings of stamped records for who may look at a VM.
//!
//! The ring of an endpoint goes to its member first; when that has mapped it, it is sealed against any
//! other writer and goes to the tracer. One tracer a VM: its connection is the tracing, so whatever ends
//! it (its own word, its death, ours) ends the stamping. A member that hears nothing holds at most one
//! ring on its way, however often somebody begins and ends.

use crate::server::Server;
use m3ipc_abi::Code;
use m3ipc_link::trace_bytes;
use m3ipc_model::tables::{Credentials, MemberId};
use m3ipc_wire::{DaemonEvent, TraceEvent, TraceRequest};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Memory that the rings of all tracings of one user may take, root's apart.
const USER_BYTES: u64 = 256 << 20;

/// One VM that is traced.
#[derive(Debug)]
struct Tracing {
    /// The connection that asked for it.
    tracer: u64,
    uid: u32,
    slots: u32,
    sharp: bool,
    /// Tells it from former ones of the VM.
    number: u64,
    /// Memory of its rings.
    bytes: u64,
}

/// All VMs that are traced.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    by_vm: BTreeMap<i32, Tracing>,
    /// Rings given to members that have not mapped them yet, by connection: of which tracing.
    on_their_way: HashMap<u64, (u64, Rc<OwnedFd>)>,
    latest: u64,
}

impl Server {
    pub(super) fn trace(&mut self, token: u64, cred: &Credentials, request: TraceRequest) {
        match request {
            TraceRequest::Begin { vm, slots, sharp } => {
                self.begin_trace(token, cred, vm, slots, sharp)
            }
            TraceRequest::End => {
                self.end_traces_of(token);
                self.done(token);
            }
            TraceRequest::Mapped => self.ring_mapped(token),
        }
    }

    fn begin_trace(&mut self, token: u64, cred: &Credentials, vm: i32, slots: u32, sharp: bool) {
        let owner = match self.node.vm_info(vm, &Credentials::new(0, 0, 0)) {
            Ok(info) => info.spec.owner_uid,
            Err(error) => return self.refuse(token, error.code(), error),
        };
        if !cred.is_root() && cred.uid != owner {
            let why = "only the VM's owner and root may trace it";
            return self.refuse(token, Code::Privileges, why);
        }
        if let Some(other) = self.traces.by_vm.get(&vm) {
            let pid =
                self.connections.get(&other.tracer).map_or(0, |connection| connection.cred.pid);
            return self.refuse(
                token,
                Code::Busy,
                format_args!("process {pid} traces this VM already"),
            );
        }
        self.traces.latest += 1;
        let number = self.traces.latest;
        let tracing = Tracing { tracer: token, uid: cred.uid, slots, sharp, number, bytes: 0 };
        self.traces.by_vm.insert(vm, tracing);
        tracing::info!(vm, pid = cred.pid, uid = cred.uid, "traced");
        self.done(token);
        let there: Vec<(MemberId, u64)> = self
            .present
            .range(MemberId::new(vm, m3ipc_abi::Address(i32::MIN))..)
            .take_while(|(place, _)| place.vm == vm)
            .map(|(place, member)| (*place, *member))
            .collect();
        for (place, member) in there {
            if self.has_come(place) {
                self.trace_member(place, member);
            }
        }
    }

    /// An endpoint has come (back): where its VM is traced it gets a ring.
    pub(super) fn trace_newcomer(&mut self, place: MemberId) {
        if self.traces.by_vm.contains_key(&place.vm)
            && let Some(member) = self.present.get(&place).copied()
        {
            self.trace_member(place, member);
        }
    }

    fn trace_member(&mut self, place: MemberId, member: u64) {
        // It has not heard of the former tracing: when it has, it gets a ring of this one.
        if self.traces.on_their_way.contains_key(&member) {
            return;
        }
        let Some(tracing) = self.traces.by_vm.get(&place.vm) else { return };
        let bytes = trace_bytes(tracing.slots);
        let (uid, number, sharp) = (tracing.uid, tracing.number, tracing.sharp);
        let used: u64 = self
            .traces
            .by_vm
            .values()
            .filter(|other| other.uid == uid)
            .map(|other| other.bytes)
            .sum();
        if uid != 0 && used + bytes > USER_BYTES {
            tracing::warn!(
                vm = place.vm,
                uid,
                "an endpoint is not traced: its user's rings are large enough"
            );
            return;
        }
        match m3ipc_sys::create_memory("m3-trace", bytes) {
            Ok(memory) => {
                let memory = Rc::new(memory);
                if let Some(tracing) = self.traces.by_vm.get_mut(&place.vm) {
                    tracing.bytes += bytes;
                }
                self.traces.on_their_way.insert(member, (number, Rc::clone(&memory)));
                self.tell(member, DaemonEvent::Trace(TraceEvent::On { sharp }), vec![memory]);
            }
            Err(errno) => {
                tracing::warn!(vm = place.vm, %errno, "an endpoint is not traced: no memory")
            }
        }
    }

    /// A member has mapped its ring: from now on nobody else can write it, and the tracer may read it.
    fn ring_mapped(&mut self, member: u64) {
        let Some((number, memory)) = self.traces.on_their_way.remove(&member) else { return };
        let Some(connection) = self.connections.get(&member) else { return };
        let (Some(place), pid) = (connection.place, connection.cred.pid) else { return };
        let Some(tracing) = self.traces.by_vm.get(&place.vm) else { return };
        if tracing.number != number {
            return self.trace_member(place, member);
        }
        let tracer = tracing.tracer;
        if let Err(errno) = m3ipc_sys::seal_against_new_writers(&memory) {
            return tracing::error!(%errno, "a ring cannot be sealed");
        }
        let ring = TraceEvent::Ring { address: place.address.0, pid };
        self.tell(tracer, DaemonEvent::Trace(ring), vec![memory]);
    }

    /// An endpoint has gone: its tracer is told, and what it wrote last can still be read.
    pub(crate) fn trace_gone(&mut self, place: MemberId) {
        if let Some(member) = self.present.get(&place) {
            self.traces.on_their_way.remove(member);
        }
        if let Some(tracing) = self.traces.by_vm.get_mut(&place.vm) {
            let tracer = tracing.tracer;
            tracing.bytes = tracing.bytes.saturating_sub(trace_bytes(tracing.slots));
            self.tell(
                tracer,
                DaemonEvent::Trace(TraceEvent::Gone { address: place.address.0 }),
                Vec::new(),
            );
        }
    }

    /// A connection ends, or says so: what it traces is traced no more.
    pub(crate) fn end_traces_of(&mut self, token: u64) {
        self.traces.on_their_way.remove(&token);
        let vms: Vec<i32> = self
            .traces
            .by_vm
            .iter()
            .filter(|(_, tracing)| tracing.tracer == token)
            .map(|(vm, _)| *vm)
            .collect();
        for vm in vms {
            self.traces.by_vm.remove(&vm);
            tracing::info!(vm, "traced no more");
            let members: Vec<u64> = self
                .present
                .iter()
                .filter(|(place, _)| place.vm == vm)
                .map(|(_, member)| *member)
                .collect();
            for member in members {
                self.tell(member, DaemonEvent::Trace(TraceEvent::Off), Vec::new());
            }
        }
    }

    /// A VM has ended.
    pub(crate) fn forget_trace(&mut self, vm: i32) {
        self.traces.by_vm.remove(&vm);
    }
}
