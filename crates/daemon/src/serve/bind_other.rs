//! `lclbind`: the bind of another process.
//!
//! The end of a VM signals its members, so nobody may be made a member against its will. The other
//! process has the rights of the caller's user alone, or of any one user if the caller has
//! `CAP_KILL`. It agrees in one of three ways: it is the caller, a child of the caller, or it
//! waits in `wait4bind`.

use crate::server::Server;
use crate::state::death_watches::INIT;
use crate::tables::{Credentials, Member, MemberKind};
use crate::token::Token;
use m3ipc_abi::Code;
use m3ipc_sys::{Errno, ProcessFacts};

impl Server {
    pub(super) fn bind_other(
        &mut self,
        token: Token,
        cred: &Credentials,
        vm: i32,
        pid: i32,
        slot: i32,
    ) {
        // The descriptor comes first: all facts are then about the process that it names.
        let opened = m3ipc_sys::open_process(pid);
        let examined = opened.and_then(|fd| Ok((m3ipc_sys::process_facts(pid, &fd)?, fd)));
        let (facts, fd) = match examined {
            Ok(examined) => examined,
            Err(errno) => return self.refuse_process(token, pid, errno),
        };
        let ProcessFacts { users, group: gid, started, .. } = facts;
        let uid = users[0];
        if pid == INIT || facts.is_kernels || users != [uid; 4] {
            let why = "only a process with the rights of one user, no thread of the kernel and not \
                       the first process of the system, can be bound by another; let it bind \
                       itself";
            return self.refuse(token, Code::Privileges, why);
        }
        // The tables refuse a process that is bound already, with a code of its own.
        let is_bound = self.node.endpoint_of_process(pid).is_some();
        if !is_bound && !self.agrees_to_bind(token, pid, &facts) {
            let why = format!(
                "process {pid} did not agree to be bound: it is no child of the caller and does \
                 not wait in wait4bind; let it call wait4bind first, or let its parent bind it"
            );
            return self.refuse(token, Code::Privileges, why);
        }
        // Ahead of the bind, which completes the tickets of waiters.
        if self.watch_process(pid, fd).is_err() {
            let why = "the process cannot be watched; free descriptors";
            return self.refuse(token, Code::NoMem, why);
        }
        let member = Member { pid, tid: None, started };
        match self.node.bind(vm, slot, member, cred, MemberKind::Foreign { uid, gid }, None) {
            Ok(bound) => {
                self.record();
                self.complete_tickets(&bound.tickets, bound.address.0);
                self.reply_number(token, bound.address.0);
            }
            Err(error) => {
                self.unwatch_unneeded(pid);
                self.refuse(token, error.code(), error);
            }
        }
    }

    /// Whether a process is the caller, a child of the caller, or waits in `wait4bind`. Number and
    /// start time identify a process: a number may be used again.
    fn agrees_to_bind(&self, token: Token, pid: i32, facts: &ProcessFacts) -> bool {
        let Some(caller) = self.connections.get(token) else { return false };
        let (own, own_started) = (caller.cred.pid, caller.started);
        if (pid, facts.started) == (own, own_started) {
            return true;
        }
        // The caller lives with this number now, so the number of the parent is the caller's.
        let is_child =
            facts.parent == own && m3ipc_sys::process_start_ticks(own) == Ok(own_started);
        is_child
            || self.node.waits_for_bind(pid).iter().any(|ticket| {
                let owner = self.connections.owner_of(*ticket);
                let waiting = owner.and_then(|owner| self.connections.get(owner));
                waiting.is_some_and(|it| (it.cred.pid, it.started) == (pid, facts.started))
            })
    }

    /// Refuses a request about a process that cannot be examined.
    pub(super) fn refuse_process(&mut self, token: Token, pid: i32, errno: Errno) {
        if errno == Errno::SRCH {
            return self.refuse(
                token,
                Code::BadProc,
                format_args!("there is no process {pid} here; give the number of a living process"),
            );
        }
        let why =
            format!("process {pid} cannot be examined now: {errno}; free descriptors or memory");
        self.refuse(token, Code::NoMem, why);
    }
}
