//! Requests about pairs: slots for connections, pools, closes.

use crate::quota::Resource;
use crate::server::Server;
use crate::state::sockets::{EndpointName, Pair, PairEnd, PairId, SocketAnswer, fail};
use crate::token::Token;
use m3ipc_sys::Errno;
use m3ipc_wire::Reply;

/// The refusal of a request about a pair that does not exist.
const NO_PAIR: &str = "there is no such pair, or a party of it left; connect again";

impl Server {
    /// A slot for a connection between two parties; the connecting party comes first. Returns the
    /// pair and the slot's index.
    pub(super) fn take_slot(
        &mut self,
        parties: [Token; 2],
        names: [EndpointName; 2],
    ) -> Result<(PairId, usize), Errno> {
        if let Some(found) = self.sockets.reuse_slot(parties, names) {
            return Ok(found);
        }
        let uid = self.user_of_party(parties[0]);
        // The party that connects pays; the other one cannot prevent it.
        let amounts =
            [(Resource::Pairs, 1), (Resource::Mappings, 1), (Resource::Memory, Pair::BYTES)];
        let mut charge = |amounts: &[_]| {
            self.accounts.charge(uid, amounts).map_err(|exceeded| {
                tracing::debug!(%exceeded, "no pair is made");
                Errno::NOBUFS
            })
        };
        let one = [(Resource::Descriptors, 1)];
        let (charges, held) = (charge(&amounts)?, [charge(&one)?, charge(&one)?, charge(&one)?]);
        self.sockets.add_pair(parties, names, charges, held)
    }

    pub(super) fn pair_mapped(&mut self, token: Token, end: PairEnd) {
        let Some(pair) = self.sockets.pair_end(token, end) else { return };
        if let Err(errno) = pair.mapped(end.side())
            && crate::log::admits(self.user_of_party(token))
        {
            tracing::error!(%errno, "a pool cannot be sealed; the kernel alone carries its bytes");
        }
    }

    pub(super) fn peer_pool(&mut self, token: Token, end: PairEnd) -> SocketAnswer {
        let Some(pair) = self.sockets.pair_end(token, end) else {
            return fail(Errno::NOENT, NO_PAIR);
        };
        let other = 1 - end.side();
        if !pair.is_mapped_by(other) {
            return fail(Errno::AGAIN, "the other side has not mapped its pool yet; try again");
        }
        match pair.take_pool(other) {
            Some(pool) => Ok((Reply::Done, vec![pool])),
            None => fail(Errno::ALREADY, "the caller has the other side's pool already; use it"),
        }
    }

    pub(super) fn forget_pair(&mut self, token: Token, end: PairEnd) -> SocketAnswer {
        let Some(pair) = self.sockets.pair_end(token, end) else {
            return fail(Errno::NOENT, NO_PAIR);
        };
        if pair.has_used_slots() {
            return fail(Errno::BUSY, "a connection of the pair is in use; close it first");
        }
        self.sockets.remove_pair(end.pair());
        Ok((Reply::Done, Vec::new()))
    }

    pub(super) fn side_closed(&mut self, token: Token, end: PairEnd, slot: u16) {
        if let Some(pair) = self.sockets.pair_end(token, end) {
            pair.side_closed(end.side(), usize::from(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::{Accounts, PAIRS};
    use crate::test_server::TestServer;

    const NAMES: [EndpointName; 2] = [(0, 0); 2];

    #[test]
    fn a_pair_counts_against_the_user_that_connects() {
        let mut test = TestServer::new("pairs");
        let [(hostile, _h), (other, _o), (third, _t)] =
            [(7, 1), (8, 2), (9, 3)].map(|(uid, pid)| test.connect(uid, pid));
        let server = &mut test.server;
        server.accounts = Accounts::new(None, 1_000);
        let (pair, _) = server.take_slot([hostile, other], NAMES).unwrap();
        let used = |server: &Server| [7, 8].map(|uid| server.accounts.used(uid, Resource::Pairs));
        assert_eq!(used(server), [1, 0]);
        let _rest = server.accounts.charge(7, &[(Resource::Pairs, PAIRS - 1)]).unwrap();
        assert_eq!(server.take_slot([hostile, third], NAMES), Err(Errno::NOBUFS));
        assert!(server.take_slot([hostile, other], NAMES).is_ok(), "a slot of a present pair");
        assert!(server.take_slot([other, hostile], NAMES).is_ok());
        assert!(server.take_slot([other, third], NAMES).is_ok());
        server.sockets.remove_pair(pair);
        assert_eq!(used(server), [PAIRS - 1, 2]);
    }
}
