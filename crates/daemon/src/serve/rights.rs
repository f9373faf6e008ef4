//! Rights: privileges, and calls that reach into another's waiting.

use crate::server::Server;
use m3ipc_abi::{ANY, Address, Code};
use m3ipc_link::{ControlPageView, FLAG_WOKEN, WaitCall as Call};
use m3ipc_model::deadlock::{self, Blocked, Verb as Waits};
use m3ipc_model::tables::{Credentials, MemberId, Privileges as Rights, SlotSet, Traps, Verb};
use m3ipc_wire::{DaemonEvent, Privileges, Reply};

impl Server {
    pub(super) fn set_privileges(
        &mut self,
        token: u64,
        cred: &Credentials,
        place: MemberId,
        privileges: Privileges,
    ) {
        let set = |slots: Option<Vec<i32>>| match slots {
            Some(slots) => SlotSet::Only(slots.into_iter().collect()),
            None => SlotSet::All,
        };
        let traps = privileges.traps;
        let rights = Rights {
            traps: Traps(traps),
            to: set(privileges.ipc_to),
            from: set(privileges.ipc_from),
            level: privileges.level,
        };
        if let Err(error) = self.node.set_priv(place, rights, cred) {
            return self.refuse(token, error.code(), error);
        }
        self.record();
        if let Some(owner) = self.present.get(&place).copied() {
            self.tell(owner, DaemonEvent::Traps(traps), Vec::new());
        }
        for peer in self.node.peers(place) {
            let there = MemberId::new(place.vm, peer.address);
            self.tell_allowed(place, there);
            self.tell_allowed(there, place);
        }
        self.done(token);
    }

    /// Tells an endpoint what may be said over its link with a peer from now on.
    fn tell_allowed(&mut self, here: MemberId, there: MemberId) {
        let (may_send, may_receive) = (self.allowed(here, there), self.allowed(there, here));
        if let Some(token) = self.present.get(&here).copied() {
            let news = DaemonEvent::Allowed { address: there.address.0, may_send, may_receive };
            self.tell(token, news, Vec::new());
        }
    }

    pub(super) fn get_privileges(&mut self, token: u64, cred: &Credentials, place: MemberId) {
        if let Err(error) = self.node.check_see(place.vm, cred) {
            return self.refuse(token, error.code(), error);
        }
        let list = |slots: &SlotSet| match slots {
            SlotSet::All => None,
            SlotSet::Only(slots) => Some(slots.iter().copied().collect()),
        };
        match self.node.get_priv(place) {
            Ok(rights) => {
                let privileges = Privileges {
                    traps: rights.traps.0,
                    ipc_to: list(&rights.to),
                    ipc_from: list(&rights.from),
                    level: rights.level,
                };
                self.reply(token, Reply::Privileges(privileges), Vec::new());
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    /// Ends another's receive(ANY), or is remembered for its next one.
    pub(super) fn wakeup(&mut self, token: u64, cred: &Credentials, place: MemberId) {
        let own = self.connections.get(&token).and_then(|connection| connection.place);
        if own == Some(place) {
            return self.refuse(token, Code::Endpoint, "an endpoint cannot wake itself");
        }
        if let Err(error) = self.node.may_unbind(place, cred) {
            // As for every verb that has a destination.
            let code = if error.code() == Code::NotBind { Code::DstDied } else { error.code() };
            return self.refuse(token, code, error);
        }
        if let Some(own) = own
            && let Err(denied) = self.node.may(own, Some(place.address), Verb::Wakeup)
        {
            return self.refuse(token, denied.code(), denied);
        }
        let other = self.present.get(&place).copied();
        let Some(pages) = other.and_then(|other| self.connections.get(&other)?.pages.as_ref())
        else {
            return self.refuse(token, Code::ProcRun, "it is not connected; the wakeup is lost");
        };
        let blocked = pages.desk.blocked();
        pages.desk.raise(FLAG_WOKEN);
        // As a frame too: who sleeps at its bell looks at the connection, not at the desk.
        if let Some(other) = other {
            self.tell(other, DaemonEvent::Wakeup, Vec::new());
        }
        match blocked.call {
            Call::Receive | Call::Rcvrqst if blocked.peer == ANY => self.done(token),
            Call::None => self.refuse(token, Code::ProcRun, "it runs; the wakeup is remembered"),
            _ => self.refuse(
                token,
                Code::ProcSts,
                "it waits for something else; the wakeup is remembered",
            ),
        }
    }

    /// src_notify: for the VM's owner and root, and who has the privilege for it.
    pub(super) fn notify_for(
        &mut self,
        token: u64,
        cred: &Credentials,
        source: Address,
        destination: Address,
    ) {
        let Some(own) = self.own_place(token) else { return };
        if let Err(denied) = self.node.may(own, None, Verb::SrcNotify) {
            return self.refuse(token, denied.code(), denied);
        }
        let owner =
            self.node.vm_info(own.vm, &Credentials::new(0, 0, 0)).map(|info| info.spec.owner_uid);
        if !cred.is_root() && owner != Ok(cred.uid) {
            let why = "only the VM's owner may notify in another's name";
            return self.refuse(token, Code::Privileges, why);
        }
        for (address, died) in [(destination, Code::DstDied), (source, Code::SrcDied)] {
            if let Err(error) = self.node.lookup(own.vm, None, address) {
                // HARDWARE, SYSTEM and CLOCK need not be bound to be named as a source.
                if address == source && (-35..0).contains(&address.0) {
                    continue;
                }
                return self.refuse(token, error.code(died), error);
            }
        }
        self.note(MemberId::new(own.vm, destination), source, 0, None);
        self.done(token);
    }

    /// Whether the caller's waiting has closed a circle of which it is the youngest.
    pub(super) fn is_deadlock(&mut self, token: u64) {
        let Some(own) = self.own_place(token) else { return };
        let mut records: Vec<Blocked> = Vec::new();
        let mut next = own.address;
        // The chain from the caller on; it ends at who runs, waits for ANY, or was seen before.
        while let Some(record) = self.waiting(MemberId::new(own.vm, next)) {
            next = record.waits_for;
            let seen = records.iter().any(|other| other.who == record.who);
            if seen {
                break;
            }
            records.push(record);
        }
        let circle = deadlock::closes_cycle(own.address, &records);
        let answer = match circle.filter(|circle| circle.closer == own.address) {
            None => 0,
            Some(circle) => {
                // The caller waits for this answer, and may not yet sleep for it.
                let mut others = circle.members.iter().filter(|member| **member != own.address);
                if others.all(|member| self.sleeps(MemberId::new(own.vm, *member), &records)) {
                    1
                } else {
                    2
                }
            }
        };
        self.reply_number(token, answer);
    }

    /// Whether an endpoint sleeps and still waits as its record says. One
    /// that was served but has not run yet says the same, but is runnable.
    fn sleeps(&self, place: MemberId, records: &[Blocked]) -> bool {
        let Some(desk) = self.desk(place) else { return false };
        let tid = desk.blocked().tid;
        let pid = self.node.endpoint(place).map_or(0, |endpoint| endpoint.member.pid);
        // No thread: it is just asking us something itself.
        let asleep = tid != 0 && m3ipc_sys::thread_sleeps(pid, tid.cast_signed()).unwrap_or(true);
        let unchanged = self.waiting(place).is_some_and(|now| records.contains(&now));
        asleep && unchanged
    }

    fn desk(&self, place: MemberId) -> Option<&ControlPageView> {
        let token = self.present.get(&place)?;
        Some(&self.connections.get(token)?.pages.as_ref()?.desk)
    }

    fn waiting(&self, place: MemberId) -> Option<Blocked> {
        let blocked = self.desk(place)?.blocked();
        let verb = match blocked.call {
            Call::Send | Call::SendRec => Waits::Sending,
            Call::Await | Call::Receive => Waits::Receiving,
            Call::None | Call::Rcvrqst | Call::Wait => return None,
        };
        let specific = !blocked.peer.is_reserved();
        specific.then_some(Blocked {
            who: place.address,
            waits_for: blocked.peer,
            verb,
            since: blocked.since_ns,
        })
    }
}
