//! `notify`, `src_notify` and `wakeup`, as far as they need the daemon.
//!
//! A notification over a link needs no daemon. The daemon delivers notifications to endpoints that
//! have not attached yet, and notifications in the name of another endpoint.

use crate::server::Server;
use crate::state::pending_notifications::PendingNotification;
use crate::tables::{self, Credentials, MemberId};
use crate::token::Token;
use m3ipc_abi::{ANY, Address, Code, HARDWARE, SYSTEM, Verb};
use m3ipc_link::{FLAG_WOKEN, WaitCall};
use m3ipc_wire::DaemonEvent;

/// The slots of HARDWARE, SYSTEM and CLOCK: notification sources that need no bind.
const KERNEL_TASKS: core::ops::Range<i32> = -35..0;

impl Server {
    /// `notify`, if the destination has not attached yet.
    pub(super) fn notify(&mut self, token: Token, destination: Address, bits: u64) {
        let Some(own) = self.require_endpoint(token) else { return };
        let id = MemberId::new(own.vm, destination);
        // The look may end the destination, so it comes before the lookup.
        self.look_for_mapping_of(id);
        if let Err(error) = self.node.lookup(own.vm, Some(own.address), destination) {
            return self.refuse_absent(token, id, error);
        }
        if let Err(denied) = self.node.check_verb(own, Some(destination), Verb::Notify) {
            return self.refuse(token, denied.code(), denied);
        }
        if self.connections.is_attached(id) {
            let why = format!("endpoint {destination} is attached; notify it over the link");
            return self.refuse(token, Code::Again, why);
        }
        // Only HARDWARE and SYSTEM have arguments of their own.
        let bits = if [HARDWARE, SYSTEM].contains(&own.address) { bits } else { 0 };
        let source = self.node.endpoint(own);
        let by = source.map(|source| (source.member.pid, source.uid, source.gid));
        self.deliver_notification(id, own.address, bits, by);
        self.reply_done(token);
    }

    /// Delivers a notification, now or when its destination attaches.
    fn deliver_notification(
        &mut self,
        destination: MemberId,
        source: Address,
        bits: u64,
        by: Option<(i32, u32, u32)>,
    ) {
        let notification = PendingNotification { bits, by, at_ns: m3ipc_sys::monotonic_ns() };
        if self.connections.is_attached(destination) {
            self.send_notification(destination, source, notification);
        } else {
            self.pending_notifications.add(destination, source, notification);
        }
    }

    /// Delivers the pending notifications and the pending wakeup of an endpoint that attached.
    pub(super) fn send_pending_notifications(&mut self, id: MemberId) {
        if self.pending_notifications.take_wakeup(id) {
            self.raise_wakeup(id);
        }
        for (source, notification) in self.pending_notifications.take(id) {
            self.send_notification(id, source, notification);
        }
    }

    fn send_notification(
        &mut self,
        destination: MemberId,
        source: Address,
        PendingNotification { bits, by, at_ns }: PendingNotification,
    ) {
        let event = DaemonEvent::Notified { source: source.0, bits, by, at_ns };
        self.send_event_to(destination, event);
    }

    /// `src_notify`, `ntfy_value` and `hdw_notify`. A member notifies in its own name; the VM's
    /// owner and `CAP_IPC_OWNER`, with the privilege for it, in the name of any endpoint.
    pub(super) fn notify_for(
        &mut self,
        token: Token,
        cred: &Credentials,
        source: Address,
        destination: MemberId,
        bits: u64,
    ) {
        let vm = destination.vm;
        if let Err(error) = self.node.running(vm) {
            return self.refuse(token, error.code(), error);
        }
        // A caller that uses another connection has the privileges of its process.
        let own = self.endpoint_of(token).or_else(|| self.node.endpoint_of_process(cred.pid));
        let own = own.filter(|own| own.vm == vm);
        let is_own = own.is_some_and(|own| own.address == source);
        let denied = own.and_then(|own| self.node.check_verb(own, None, Verb::SrcNotify).err());
        if let Some(denied) = denied {
            return self.refuse(token, denied.code(), denied);
        }
        let owner = self.node.vm(vm).map(|vm| vm.spec().owner_uid);
        if !is_own && owner != Ok(cred.uid) && !cred.owns_all() {
            let why = format!(
                "only the VM's owner and {} may notify in the name of another endpoint",
                tables::OWNS_ALL
            );
            return self.refuse(token, Code::Privileges, why);
        }
        // The look may end the destination, so it comes before the lookup.
        self.look_for_mapping_of(destination);
        if let Err(error) = self.node.lookup(vm, Some(source), destination.address) {
            return self.refuse_absent(token, destination, error);
        }
        if let Err(error) = self.node.lookup(vm, None, source)
            && !KERNEL_TASKS.contains(&source.0)
        {
            return self.refuse(token, error.code(Code::SrcDied), error);
        }
        let denied = own.filter(|_own| is_own).and_then(|own| {
            self.node.check_verb(own, Some(destination.address), Verb::Notify).err()
        });
        if let Some(denied) = denied {
            return self.refuse(token, denied.code(), denied);
        }
        let by = is_own.then_some((cred.pid, cred.uid, cred.gid));
        self.deliver_notification(destination, source, bits, by);
        self.reply_done(token);
    }

    /// `wakeup`: ends the receive(ANY) of another endpoint, or is remembered for its next one.
    pub(super) fn wakeup(&mut self, token: Token, cred: &Credentials, id: MemberId) {
        let own = self.endpoint_of(token);
        if own == Some(id) {
            return self.refuse(token, Code::Endpoint, "an endpoint cannot wake itself");
        }
        if let Err(error) = self.node.may_unbind(id, cred) {
            if error.code() == Code::NotBind
                && let Some(why) = self.why_unreachable(id.vm, id.address)
            {
                return self.refuse(token, Code::NotConn, why);
            }
            if error.code() == Code::NotBind && self.node.is_arriving(id) {
                let (code, why) = self.why_ended(id);
                return self.refuse(token, code, why);
            }
            // A dead destination has one code for all verbs.
            let code = if error.code() == Code::NotBind { Code::DstDied } else { error.code() };
            return self.refuse(token, code, error);
        }
        if let Some(own) = own
            && let Err(denied) = self.node.check_verb(own, Some(id.address), Verb::Wakeup)
        {
            return self.refuse(token, denied.code(), denied);
        }
        if self.node.is_stand_in(id) {
            return self.wake_remote(token, own, id);
        }
        let Some(pages) = self.connections.pages_of(id) else {
            self.pending_notifications.add_wakeup(id);
            let why =
                format!("endpoint {} is not connected yet; the wakeup is remembered", id.address);
            return self.refuse(token, Code::ProcRun, why);
        };
        let blocked = pages.control_page.blocked();
        self.raise_wakeup(id);
        match blocked.call {
            WaitCall::Receive | WaitCall::Rcvrqst if blocked.peer == ANY => self.reply_done(token),
            WaitCall::None => {
                let why = format!("endpoint {} runs; the wakeup is remembered", id.address);
                self.refuse(token, Code::ProcRun, why);
            }
            _ => {
                let why = format!(
                    "endpoint {} waits in another call; the wakeup is remembered",
                    id.address
                );
                self.refuse(token, Code::ProcSts, why);
            }
        }
    }

    fn raise_wakeup(&mut self, id: MemberId) {
        if let Some(pages) = self.connections.pages_of(id) {
            pages.control_page.raise(FLAG_WOKEN);
        }
        // An endpoint that sleeps on its doorbell reads its connection, not its control page.
        self.send_event_to(id, DaemonEvent::Wakeup);
    }
}
