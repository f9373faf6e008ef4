//! Death: processes and threads are watched by descriptors, and what goes with them.

use crate::server::{Alarm, Server, Source};
use m3ipc_link::{FLAG_ENDED, FLAG_UNBOUND};
use m3ipc_model::tables::{Death, Member, MemberId, MemberKind};
use m3ipc_sys::{Errno, Signal};
use m3ipc_wire::{DaemonEvent, Reply};
use std::os::fd::OwnedFd;

use crate::connection::Deferred;

/// How long until a process that could not be watched is tried again.
const WATCH_AGAIN_NS: u64 = 100_000_000;

/// A process or thread that is watched.
#[derive(Debug)]
pub(crate) struct Watch {
    fd: OwnedFd,
    token: u64,
}

impl Server {
    /// Watches a process through a descriptor that the kernel vouches for.
    pub(crate) fn watch_process(&mut self, pid: i32, fd: OwnedFd) -> Result<(), Errno> {
        if self.processes.contains_key(&pid) {
            return Ok(());
        }
        let token = self.new_token();
        self.poll.add(&fd, token)?;
        self.sources.insert(token, Source::Process(pid));
        self.processes.insert(pid, Watch { fd, token });
        Ok(())
    }

    /// Watches a thread; on kernels before 6.9 only its process is watched.
    pub(crate) fn watch_thread(&mut self, pid: i32, tid: i32) -> Result<(), Errno> {
        let fd = match m3ipc_sys::open_thread(tid) {
            Ok(fd) => fd,
            Err(Errno::INVAL) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        let token = self.new_token();
        self.poll.add(&fd, token)?;
        self.sources.insert(token, Source::Thread(pid, tid));
        self.threads.insert((pid, tid), Watch { fd, token });
        Ok(())
    }

    fn unwatch(&mut self, watch: Option<Watch>) {
        if let Some(watch) = watch {
            let _ = self.poll.remove(&watch.fd);
            self.sources.remove(&watch.token);
        }
    }

    /// A process has died, with all its endpoints.
    pub(crate) fn process_died(&mut self, pid: i32) {
        let deaths = self.node.exit(pid);
        self.bury(&deaths);
        let watch = self.processes.remove(&pid);
        self.unwatch(watch);
        // Its sockets may be held open by a child; they are of no use any more.
        let tokens: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, other)| other.cred.pid == pid)
            .map(|(token, _)| *token)
            .collect();
        for token in tokens {
            self.close(token);
        }
        self.rest();
    }

    /// A thread has ended; its process goes on.
    pub(crate) fn thread_died(&mut self, pid: i32, tid: i32) {
        let deaths: Vec<Death> = self.node.exit_thread(pid, tid).into_iter().collect();
        self.bury(&deaths);
        let watch = self.threads.remove(&(pid, tid));
        self.unwatch(watch);
    }

    /// The endpoint of this connection ends with its process or thread, as the ward has seen.
    pub(crate) fn pulse_stopped(&mut self, token: u64) {
        let Some(connection) = self.connections.get(&token) else { return };
        let place = connection.place.and_then(|place| self.node.endpoint(place));
        match place.map(|endpoint| endpoint.member) {
            Some(Member { pid, tid: Some(tid), .. }) => self.thread_died(pid, tid),
            Some(Member { pid, tid: None, .. }) => self.process_died(pid),
            None => {}
        }
    }

    /// Stops watching whom nothing is left of.
    pub(crate) fn forget_processes(&mut self, deaths: &[Death]) {
        for death in deaths {
            if let Some(tid) = death.member.tid {
                let watch = self.threads.remove(&(death.member.pid, tid));
                self.unwatch(watch);
            }
            self.forget_process(death.member.pid);
        }
    }

    /// Stops watching a process that has no endpoint.
    pub(crate) fn forget_process(&mut self, pid: i32) {
        if self.node.place_of(pid).is_none() {
            let watch = self.processes.remove(&pid);
            self.unwatch(watch);
        }
    }

    /// After a kill of the daemon: who of the journal still lives is watched, the others are buried.
    pub(crate) fn take_over(&mut self) {
        let vms: Vec<i32> = self
            .node
            .list(&m3ipc_model::tables::Credentials::new(0, 0, 0))
            .iter()
            .map(|vm| vm.id)
            .collect();
        for vm in vms {
            let members: Vec<_> = self.node.endpoints(vm).map(|endpoint| endpoint.member).collect();
            for member in members {
                if !self.watch_again_if_alive(member.pid, member.token) {
                    let deaths = self.node.exit(member.pid);
                    self.bury(&deaths);
                } else if let Some(tid) = member.tid {
                    self.watch_thread_again(member.pid, tid);
                }
            }
            self.leave_areas_of_the_dead(vm);
            if self
                .node
                .vm_info(vm, &m3ipc_model::tables::Credentials::new(0, 0, 0))
                .is_ok_and(|info| info.state == m3ipc_model::tables::VmState::Ending)
            {
                self.end_members(vm, None);
            }
        }
    }

    /// Watches a process that a predecessor watched; `false` where it has gone.
    fn watch_again_if_alive(&mut self, pid: i32, started: u64) -> bool {
        let fd = m3ipc_sys::open_process(pid);
        // Checked after opening: the number cannot have passed to another meanwhile.
        let watched = match m3ipc_sys::process_start_ticks(pid) {
            Ok(ticks) if ticks != started => return false,
            Ok(_) => fd.and_then(|fd| self.watch_process(pid, fd)),
            Err(errno) => Err(errno),
        };
        match watched {
            Ok(()) => true,
            Err(Errno::SRCH) => false,
            // The system has no descriptor for that: it is no reason to call anybody dead.
            Err(errno) => {
                tracing::warn!(pid, %errno, "a member cannot be watched yet");
                self.set_alarm(WATCH_AGAIN_NS, Alarm::Watch(pid));
                true
            }
        }
    }

    /// Watches a thread that a predecessor watched, now or when there is a descriptor for that.
    pub(crate) fn watch_thread_again(&mut self, pid: i32, tid: i32) {
        let waits = self.node.place_of_thread(pid, tid).is_some()
            && !self.threads.contains_key(&(pid, tid));
        match waits.then(|| self.watch_thread(pid, tid)) {
            None | Some(Ok(())) => {}
            Some(Err(Errno::SRCH)) => self.thread_died(pid, tid),
            Some(Err(errno)) => {
                tracing::warn!(pid, tid, %errno, "a member's thread cannot be watched yet");
                self.set_alarm(WATCH_AGAIN_NS, Alarm::WatchThread(pid, tid));
            }
        }
    }

    /// Watches a process that could not be watched before.
    pub(crate) fn watch_again(&mut self, pid: i32) {
        let Some(endpoint) = self.node.place_of(pid).and_then(|place| self.node.endpoint(place))
        else {
            return;
        };
        let started = endpoint.member.token;
        if !self.processes.contains_key(&pid) && !self.watch_again_if_alive(pid, started) {
            self.process_died(pid);
        }
    }

    /// Asks the members of a VM to leave: SIGPIPE to all but the one who ends it.
    pub(crate) fn end_members(&mut self, vm: i32, asker_pid: Option<i32>) {
        let members: Vec<_> =
            self.node.endpoints(vm).map(|endpoint| (endpoint.address, endpoint.member)).collect();
        for (address, member) in &members {
            let place = MemberId::new(vm, *address);
            if let Some(token) = self.present.get(&place).copied() {
                if let Some(pages) =
                    self.connections.get(&token).and_then(|connection| connection.pages.as_ref())
                {
                    pages.desk.raise(FLAG_ENDED);
                }
                self.tell(token, DaemonEvent::Ended, Vec::new());
            }
            if Some(member.pid) != asker_pid
                && let Some(watch) = self.processes.get(&member.pid)
            {
                let _ = m3ipc_sys::signal(&watch.fd, Signal::PIPE);
            }
        }
        // Before the asker leaves: with the last member the VM ends at once, and its alarm with it.
        let grace_ms = self.grace_ms.get(&vm).copied().unwrap_or(1_000);
        self.set_alarm(u64::from(grace_ms) * 1_000_000, Alarm::VmGrace(vm));
        if let Some(pid) = asker_pid {
            let deaths = self.exit_from(vm, pid);
            self.bury(&deaths);
        }
        self.finish_vm_if_empty(vm);
    }

    fn exit_from(&mut self, vm: i32, pid: i32) -> Vec<Death> {
        match self.node.place_of(pid) {
            Some(place) if place.vm == vm => self.node.exit(pid),
            _ => Vec::new(),
        }
    }

    /// The grace time is over: SIGKILL to whoever is still there.
    pub(crate) fn kill_members(&mut self, vm: i32) {
        let pids: Vec<i32> = self.node.endpoints(vm).map(|endpoint| endpoint.member.pid).collect();
        for pid in pids {
            if let Some(watch) = self.processes.get(&pid) {
                tracing::info!(vm, pid, "killed: it did not leave its ending VM in time");
                let _ = m3ipc_sys::signal(&watch.fd, Signal::KILL);
            }
        }
        self.finish_vm_if_empty(vm);
    }

    /// An endpoint has left: whoever waited for that goes on.
    pub(crate) fn left(&mut self, place: MemberId) {
        for token in self.waiting_for(Deferred::Unbind(place)) {
            self.reply(token, Reply::Done, Vec::new());
        }
        self.finish_vm_if_empty(place.vm);
    }

    fn finish_vm_if_empty(&mut self, vm: i32) {
        let info = self.node.vm_info(vm, &m3ipc_model::tables::Credentials::new(0, 0, 0));
        let done = info.is_ok_and(|info| {
            info.bound == 0 && info.state == m3ipc_model::tables::VmState::Ending
        });
        if !done || self.node.finish_end(vm).is_err() {
            return;
        }
        self.record();
        self.areas.retain(|(of, _), _| *of != vm);
        self.forget_trace(vm);
        self.end_socks(vm);
        self.deserted.retain(|(of, ..), _| *of != vm);
        self.grace_ms.remove(&vm);
        // The next VM of this id is not to be killed for it.
        self.cancel_alarm(Alarm::VmGrace(vm));
        tracing::info!(vm, "VM ended");
        for token in self.waiting_for(Deferred::VmEnd(vm)) {
            self.reply(token, Reply::Done, Vec::new());
        }
        if self.has_no_vms() {
            self.finish_node();
        }
        self.rest();
    }

    /// Where drvs_end waits for the last VM: it has ended.
    pub(crate) fn finish_node(&mut self) {
        for token in self.waiting_for(Deferred::NodeEnd) {
            self.reply(token, Reply::Done, Vec::new());
            self.leaving = true;
        }
    }

    /// Asks another's endpoint to leave.
    pub(crate) fn ask_to_leave(&mut self, place: MemberId) {
        if let Some(token) = self.present.get(&place).copied() {
            if let Some(pages) =
                self.connections.get(&token).and_then(|connection| connection.pages.as_ref())
            {
                pages.desk.raise(FLAG_UNBOUND);
            }
            self.tell(token, DaemonEvent::Unbound, Vec::new());
        }
        let Some((pid, kind)) =
            self.node.endpoint(place).map(|endpoint| (endpoint.member.pid, endpoint.kind))
        else {
            return;
        };
        // A thread cannot be told by a signal to its process, which would end all of it.
        if kind != MemberKind::Thread
            && let Some(watch) = self.processes.get(&pid)
        {
            let _ = m3ipc_sys::signal(&watch.fd, Signal::PIPE);
        }
        let holder = self.present.get(&place).copied();
        self.set_alarm(1_000_000_000, Alarm::UnbindGrace(place, holder));
    }

    /// It did not leave by itself: its slot is free all the same.
    pub(crate) fn force_unbind(&mut self, place: MemberId) {
        if let Ok(deaths) = self.node.unbind(place) {
            self.bury(&deaths);
        }
    }
}
