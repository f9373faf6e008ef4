//! Takeover: a daemon watches the members that a killed predecessor left in the journal.

use crate::server::Server;
use crate::state::timers::Timer;
use crate::tables::VmState;
use m3ipc_sys::Errno;

/// The pause before a new attempt to watch a process or thread.
const RETRY_NS: u64 = 100_000_000;

impl Server {
    /// Watches the living members of the journal, and announces the deaths of the others.
    pub(crate) fn take_over(&mut self) {
        // The proxy begins a new life with this daemon.
        self.end_stand_ins(None);
        let vms: Vec<i32> = self.node.vms().map(|vm| vm.id()).collect();
        for vm in vms {
            let members: Vec<_> = self.node.endpoints(vm).map(|endpoint| endpoint.member).collect();
            for member in members {
                if !self.watch_if_alive(member.pid, member.started) {
                    let deaths = self.node.exit(member.pid);
                    self.announce_deaths(&deaths);
                } else if let Some(tid) = member.tid {
                    self.watch_thread_again(member.pid, tid);
                }
            }
            self.leave_areas_of_the_dead(vm);
            if self.node.vm(vm).is_ok_and(|vm| vm.state() == VmState::Ending) {
                self.end_members(vm, None);
            }
        }
        self.take_over_lives();
    }

    /// Watches a process of the journal; `false` if it has died.
    pub(crate) fn watch_if_alive(&mut self, pid: i32, started: u64) -> bool {
        let fd = m3ipc_sys::open_process(pid);
        // Read the start time after the open: it proves that the descriptor is of this process.
        let watched = match m3ipc_sys::process_start_ticks(pid) {
            Ok(ticks) if ticks != started => return false,
            Ok(_) => fd.and_then(|fd| self.watch_process(pid, fd)),
            Err(errno) => Err(errno),
        };
        match watched {
            Ok(()) => true,
            Err(Errno::SRCH) => false,
            // The system lacks a descriptor. That does not prove a death.
            Err(errno) => {
                tracing::warn!(pid, %errno, "a member cannot be watched yet; trying again shortly");
                self.sources.set_timer(RETRY_NS, Timer::WatchProcess(pid));
                true
            }
        }
    }

    /// Watches a thread of the journal, now or when the system has a descriptor for it.
    pub(crate) fn watch_thread_again(&mut self, pid: i32, tid: i32) {
        let is_bound = self.node.endpoint_of_thread(pid, tid).is_some();
        if !is_bound || self.deaths.has_thread(pid, tid) {
            return;
        }
        match self.watch_thread(pid, tid) {
            Ok(()) => {}
            Err(Errno::SRCH) => self.thread_died(pid, tid),
            Err(errno) => {
                tracing::warn!(
                    pid, tid, %errno, "a thread cannot be watched yet; trying again shortly"
                );
                self.sources.set_timer(RETRY_NS, Timer::WatchThread(pid, tid));
            }
        }
    }

    /// Watches a process after an earlier attempt failed.
    pub(crate) fn watch_process_again(&mut self, pid: i32) {
        // A creator and a member may be two processes that had the number one after the other.
        if let Ok(ticks) = m3ipc_sys::process_start_ticks(pid) {
            self.end_vms_of_earlier(pid, ticks);
            let id = self.node.endpoint_of_process(pid);
            let member = id.and_then(|id| self.node.endpoint(id)).map(|endpoint| endpoint.member);
            let is_watched = self.deaths.has_process(pid);
            if !is_watched && member.is_some_and(|member| member.started != ticks) {
                self.release_process(pid);
            }
        }
        let id = self.node.endpoint_of_process(pid);
        let endpoint = id.and_then(|id| self.node.endpoint(id));
        let started = endpoint.map(|endpoint| endpoint.member.started);
        let Some(started) = started.or_else(|| self.start_of_creator(pid)) else { return };
        if !self.deaths.has_process(pid) && !self.watch_if_alive(pid, started) {
            self.process_died(pid);
        }
    }
}
