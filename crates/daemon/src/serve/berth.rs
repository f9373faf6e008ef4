//! Copies between two members: who lies still for whom, and their windows.
//!
//! The daemon only introduces: it tells the party that the requester wants to
//! copy, and the requester what the party answers. From then on the two agree
//! by a word of their link, and the daemon sees nothing of their copies.

use crate::connection::Deferred;
use crate::server::Server;
use m3ipc_abi::{Address, Code};
use m3ipc_link::BOUNCE_BUFFER_BYTES;
use m3ipc_model::tables::MemberId;
use m3ipc_wire::{DaemonEvent, Reply};
use std::rc::Rc;

/// Windows that one endpoint may ask for towards one peer: one, and more where it died over it.
const WINDOWS_PER_PAIR: u32 = 8;

impl Server {
    /// An endpoint wants to copy with a peer that waits.
    pub(super) fn berth(&mut self, token: u64, peer: Address, surely: bool, window: bool) {
        let Some(here) = self.own_place(token) else { return };
        let there = MemberId::new(here.vm, peer);
        let other =
            self.present.get(&there).copied().filter(|_| self.held.contains(&(here, there)));
        let Some(other) = other else {
            return self.refuse(
                token,
                Code::ProcSts,
                format_args!("endpoint {peer} has no link with the caller, or is not back yet"),
            );
        };
        if !surely && !self.may_be_copied(other) {
            return self.refuse(
                token,
                Code::ProcSts,
                format_args!("endpoint {peer} is in no receive and no sendrec"),
            );
        }
        let memory = match window.then(|| self.make_window(here, there)).transpose() {
            Ok(memory) => memory,
            Err((code, why)) => return self.refuse(token, code, why),
        };
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.waits_for = Some(Deferred::Berth(there));
            connection.window.clone_from(&memory);
        }
        self.tell(
            other,
            DaemonEvent::CopyGate { peer: here.address.0, bounce_buffer: window },
            memory.into_iter().collect(),
        );
    }

    fn may_be_copied(&self, token: u64) -> bool {
        let connection = self.connections.get(&token);
        let blocked = connection
            .and_then(|connection| connection.pages.as_ref())
            .map(|pages| pages.desk.blocked());
        blocked.is_some_and(|blocked| blocked.call.may_be_copied())
    }

    fn make_window(
        &mut self,
        here: MemberId,
        there: MemberId,
    ) -> Result<Rc<std::os::fd::OwnedFd>, (Code, String)> {
        let made = self.windows.entry((here, there)).or_default();
        if *made >= WINDOWS_PER_PAIR {
            return Err((
                Code::NoMem,
                format!("endpoint {} has too many windows already", here.address),
            ));
        }
        *made += 1;
        let memory = m3ipc_sys::create_memory("m3-window", BOUNCE_BUFFER_BYTES as u64);
        memory
            .map(Rc::new)
            .map_err(|errno| (Code::NoMem, format!("no memory for a window: {errno}")))
    }

    /// A party lies still for a requester from now on, whenever it waits.
    pub(super) fn berthed(&mut self, token: u64, peer: Address, address: u64, probe: [u64; 2]) {
        let Some(place) = self.connections.get(&token).and_then(|connection| connection.place)
        else {
            return;
        };
        let Some(asker) = self.present.get(&MemberId::new(place.vm, peer)).copied() else { return };
        let Some(connection) = self.connections.get_mut(&asker) else { return };
        if connection.waits_for == Some(Deferred::Berth(place)) {
            let window = connection.window.take();
            self.reply(asker, Reply::CopyGate { address, probe }, window.into_iter().collect());
        }
    }
}
