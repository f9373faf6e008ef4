//! Notifications for those who have not come (back) yet.
//!
//! A notification never waits, and is remembered until it is received. Where its
//! destination lives and has no pages here (it is just being bound, or it has
//! not noticed a takeover yet), there is no link to remember it in: the daemon does.

use crate::server::Server;
use m3ipc_abi::{Address, Code};
use m3ipc_model::tables::{LookupError, MemberId, Verb};
use m3ipc_wire::DaemonEvent;
use std::collections::BTreeMap;

/// For each destination the sources, with what is pending.
pub(crate) type Notes = BTreeMap<MemberId, BTreeMap<i32, Note>>;

/// One notification, coalesced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    bits: u64,
    by: Option<(i32, u32, u32)>,
}

impl Server {
    /// notify, of one whose destination has not come (back) yet.
    pub(super) fn notify(&mut self, token: u64, destination: Address, bits: u64) {
        let Some(here) = self.own_place(token) else { return };
        let there = MemberId::new(here.vm, destination);
        if let Err(error) = self.node.lookup(here.vm, Some(here.address), destination) {
            let died = matches!(error, LookupError::Dead(_));
            let code = if died { Code::DstDied } else { error.code(Code::DstDied) };
            return self.refuse(token, code, error);
        }
        if let Err(denied) = self.node.may(here, Some(destination), Verb::Notify) {
            return self.refuse(token, denied.code(), denied);
        }
        if self.has_come(there) {
            return self.refuse(token, Code::Again, "it is there; the link is the way");
        }
        let by = self.node.endpoint(here).map(|source| (source.member.pid, source.uid, source.gid));
        self.note(there, here.address, bits, by);
        self.done(token);
    }

    /// Tells of a notification, now or when its destination is there.
    pub(super) fn note(
        &mut self,
        there: MemberId,
        source: Address,
        bits: u64,
        by: Option<(i32, u32, u32)>,
    ) {
        if let Some(other) = self.present.get(&there).copied().filter(|_| self.has_come(there)) {
            return self.tell(
                other,
                DaemonEvent::Notified { source: source.0, bits, by },
                Vec::new(),
            );
        }
        let note =
            self.notes.entry(there).or_default().entry(source.0).or_insert(Note { bits: 0, by });
        (note.bits, note.by) = (note.bits | bits, by);
    }

    /// Whether this endpoint has its pages from this daemon.
    pub(super) fn has_come(&self, place: MemberId) -> bool {
        let connection = self.present.get(&place).and_then(|token| self.connections.get(token));
        connection
            .and_then(|connection| connection.pages.as_ref())
            .is_some_and(|pages| pages.sealed)
    }

    /// An endpoint has come (back): it hears what was kept for it.
    pub(super) fn tell_notes(&mut self, there: MemberId) {
        for (source, Note { bits, by }) in self.notes.remove(&there).unwrap_or_default() {
            if let Some(other) = self.present.get(&there).copied() {
                self.tell(other, DaemonEvent::Notified { source, bits, by }, Vec::new());
            }
        }
    }

    /// An endpoint has gone, with what was kept for it and of it.
    pub(crate) fn forget_notes(&mut self, gone: MemberId) {
        self.notes.remove(&gone);
        for (there, notes) in &mut self.notes {
            if there.vm == gone.vm {
                notes.remove(&gone.address.0);
            }
        }
        self.notes.retain(|_, notes| !notes.is_empty());
    }
}
