//! The end of VMs, of single endpoints by request, and of the node.
//!
//! A VM ends in two steps. The daemon first asks its members to leave: an event, and SIGPIPE. After
//! the grace time it kills the remaining members.

use crate::server::Server;
use crate::state::connection::Deferred;
use crate::state::death_watches::SignalOutcome;
use crate::state::lifecycle::Leaving;
use crate::state::timers::Timer;
use crate::tables::{Death, MemberId, MemberKind, Vm, VmState};
use m3ipc_link::{FLAG_ENDED, FLAG_UNBOUND};
use m3ipc_sys::Signal;
use m3ipc_wire::{DaemonEvent, Reply};
use std::collections::BTreeMap;

/// The pause before another attempt to kill members that could not be examined.
const KILL_AGAIN_NS: u64 = 100_000_000;
/// The time that an endpoint has to leave after a request to unbind it.
const UNBIND_GRACE_NS: u64 = 1_000_000_000;

impl Server {
    /// Asks the members of a VM to leave. The requester gets no SIGPIPE.
    pub(crate) fn end_members(&mut self, vm: i32, requester_pid: Option<i32>) {
        let endpoints = self.node.endpoints(vm).filter(|it| it.kind != MemberKind::StandIn);
        let members: Vec<_> = endpoints.map(|it| (it.address, it.member, it.uid)).collect();
        for (address, member, uid) in &members {
            let id = MemberId::new(vm, *address);
            if let Some(pages) = self.connections.pages_of(id) {
                pages.control_page.raise(FLAG_ENDED);
            }
            self.send_event_to(id, DaemonEvent::Ended);
            if Some(member.pid) != requester_pid {
                self.deaths.signal(member.pid, *uid, Signal::PIPE);
            }
        }
        // Set the timer before any endpoint leaves: the last one ends the VM at once, and that
        // cancels the timer.
        let grace_ms = self.node.vm(vm).map_or(0, |vm| vm.spec().grace_ms);
        self.sources.set_timer(u64::from(grace_ms) * 1_000_000, Timer::VmGrace(vm));
        // The proxy serves other VMs too, and goes on.
        self.end_stand_ins(Some(vm));
        if let Some(pid) = requester_pid {
            let deaths = self.exit_from(vm, pid);
            self.announce_deaths(&deaths);
        }
        self.finish_vm_if_empty(vm);
    }

    fn exit_from(&mut self, vm: i32, pid: i32) -> Vec<Death> {
        match self.node.endpoint_of_process(pid) {
            Some(id) if id.vm == vm => self.node.exit(pid),
            _ => Vec::new(),
        }
    }

    /// Kills the remaining members of a VM after its grace time, and tries again while the system
    /// lacks the resources for that.
    pub(crate) fn kill_members(&mut self, vm: i32) {
        if self.node.vm(vm).map(Vm::state) != Ok(VmState::Ending) {
            return;
        }
        let endpoints = self.node.endpoints(vm);
        let members: BTreeMap<_, _> = endpoints.map(|it| (it.member.pid, it.uid)).collect();
        let mut is_complete = true;
        for (pid, uid) in members {
            match self.deaths.signal(pid, uid, Signal::KILL) {
                SignalOutcome::Done if crate::log::admits(uid) => {
                    tracing::info!(vm, pid, "a member did not leave its ending VM in time");
                }
                SignalOutcome::Done => {}
                // It goes on, without its endpoint.
                SignalOutcome::Refused => self.release_process(pid),
                SignalOutcome::Unknown => is_complete = false,
            }
        }
        if !is_complete {
            self.sources.set_timer(KILL_AGAIN_NS, Timer::VmGrace(vm));
        }
        self.finish_vm_if_empty(vm);
    }

    /// Finishes the end of a VM that has no members left.
    pub(crate) fn finish_vm_if_empty(&mut self, vm: i32) {
        let is_over = self
            .node
            .vm(vm)
            .is_ok_and(|vm| vm.endpoint_count() == 0 && vm.state() == VmState::Ending);
        let facts = self.node.vm(vm).map(|vm| (vm.spec().owner_uid, vm.spec().creator.pid));
        let (owner, creator) = facts.unwrap_or_default();
        if !is_over || self.node.finish_end(vm).is_err() {
            return;
        }
        self.record();
        self.areas.remove_vm(vm);
        self.traces.remove_vm(vm);
        self.end_domains(vm);
        self.deaths.remove_creator(vm);
        self.unwatch_unneeded(creator);
        // The timer must not kill members of the next VM with this id.
        self.sources.cancel_timer(Timer::VmGrace(vm));
        if crate::log::admits(owner) {
            tracing::info!(vm, "VM ended");
        }
        for token in self.connections.deferred_until(Deferred::VmEnd(vm)) {
            self.reply(token, Reply::Done, Vec::new());
        }
        // While the node ends, no VM is made anew.
        self.open_again(vm);
        self.finish_node_if_empty();
        self.start_idle_timer();
    }

    /// Answers `drvs_end` and leaves, if the last VM has ended.
    pub(crate) fn finish_node_if_empty(&mut self) {
        if !self.has_no_vms() {
            return;
        }
        for token in self.connections.deferred_until(Deferred::NodeEnd) {
            self.reply(token, Reply::Done, Vec::new());
            self.lifecycle.leave(Leaving::NodeEnds);
        }
    }

    /// Asks an endpoint to leave, on the request of another process.
    pub(crate) fn ask_to_leave(&mut self, id: MemberId) {
        if let Some(pages) = self.connections.pages_of(id) {
            pages.control_page.raise(FLAG_UNBOUND);
        }
        self.send_event_to(id, DaemonEvent::Unbound);
        let Some(endpoint) = self.node.endpoint(id) else { return };
        let (pid, uid, kind, life) =
            (endpoint.member.pid, endpoint.uid, endpoint.kind, endpoint.life);
        // A signal for one thread would end the whole process.
        if kind.is_process() {
            self.deaths.signal(pid, uid, Signal::PIPE);
        }
        self.sources.set_timer(UNBIND_GRACE_NS, Timer::UnbindGrace(id, life));
    }

    /// Repeats the requests to leave that an endpoint without pages did not get.
    pub(crate) fn ask_again_to_leave(&mut self, id: MemberId) {
        let Some(life) = self.node.endpoint(id).map(|endpoint| endpoint.life) else { return };
        let is_ending = self.node.vm(id.vm).is_ok_and(|vm| vm.state() == VmState::Ending);
        let is_unbound = self.sources.is_timer_set(Timer::UnbindGrace(id, life));
        for (is_asked, flag, event) in [
            (is_ending, FLAG_ENDED, DaemonEvent::Ended),
            (is_unbound, FLAG_UNBOUND, DaemonEvent::Unbound),
        ] {
            if is_asked && let Some(pages) = self.connections.pages_of(id) {
                pages.control_page.raise(flag);
                self.send_event_to(id, event);
            }
        }
    }
}
