//! Bells: for endpoints that sleep in poll, or have too many links to sleep on.

use crate::server::Server;
use m3ipc_abi::{Address, Code};
use m3ipc_model::tables::MemberId;
use m3ipc_sys::{DoorbellReceiver, DoorbellSender};
use m3ipc_wire::Reply;
use std::rc::Rc;

impl Server {
    pub(super) fn hang_bell(&mut self, token: u64) {
        let Some(place) = self.own_place(token) else { return };
        let path = self.home.bell(place.vm, place.address.0);
        // A bell of before a takeover, or of a reattached owner, is replaced.
        let _ = std::fs::remove_file(&path);
        match DoorbellReceiver::bind(&path) {
            Ok(bell) => {
                if let Some(connection) = self.connections.get_mut(&token) {
                    connection.has_bell = true;
                }
                self.reply(token, Reply::Done, vec![Rc::new(bell)]);
            }
            Err(errno) => {
                self.refuse(token, Code::NoMem, format_args!("no bell can be hung: {errno}"))
            }
        }
    }

    pub(super) fn clapper(&mut self, token: u64, peer: Address) {
        let Some(own) = self.own_place(token) else { return };
        let place = MemberId::new(own.vm, peer);
        let linked = self.node.peers(own).iter().any(|known| known.address == peer);
        if !linked {
            return self.refuse(token, Code::DstDied, "there is no link with that endpoint");
        }
        match DoorbellSender::connect(&self.home.bell(place.vm, place.address.0)) {
            Ok(clapper) => self.reply(token, Reply::Done, vec![Rc::new(clapper)]),
            Err(errno) => {
                self.refuse(
                    token,
                    Code::NotConn,
                    format_args!("its bell cannot be reached: {errno}"),
                );
            }
        }
    }
}
