//! Deadlock: whether the caller's wait has closed a cycle of waiting endpoints.

use crate::server::Server;
use crate::tables::MemberId;
use crate::tables::deadlock::{self, Blocked, BlockedIn};
use m3ipc_link::WaitCall;

/// No deadlock, or another member of the cycle is younger.
const NO_DEADLOCK: i32 = 0;
/// The caller's call closed a cycle.
const DEADLOCK: i32 = 1;
/// A cycle seems closed, but a member of it was awake: the caller has to ask again soon.
const ASK_AGAIN: i32 = 2;

impl Server {
    /// Answers whether the caller is the youngest member of a cycle.
    pub(super) fn is_deadlock(&mut self, token: u64) {
        let Some(own) = self.require_endpoint(token) else { return };
        let records = self.chain_of(own);
        let cycle = deadlock::cycle_through(own.address, &records);
        let answer = match cycle.filter(|cycle| cycle.closer == own.address) {
            None => NO_DEADLOCK,
            Some(cycle) => {
                // The caller itself waits for this answer, and does not sleep in its call yet.
                let mut others = cycle.members.iter().filter(|member| **member != own.address);
                let all_sleep = others
                    .all(|member| self.sleeps_unchanged(MemberId::new(own.vm, *member), &records));
                if all_sleep { DEADLOCK } else { ASK_AGAIN }
            }
        };
        self.reply_number(token, answer);
    }

    /// The chain of waits from an endpoint on. It ends at an endpoint that runs, that waits for
    /// ANY, or that is in the chain already.
    fn chain_of(&self, first: MemberId) -> Vec<Blocked> {
        let mut chain: Vec<Blocked> = Vec::new();
        let mut next = first.address;
        while let Some(record) = self.wait_of(MemberId::new(first.vm, next)) {
            if chain.iter().any(|other| other.endpoint == record.endpoint) {
                break;
            }
            next = record.peer;
            chain.push(record);
        }
        chain
    }

    /// Whether an endpoint sleeps and still waits as its record says. An endpoint whose wait has
    /// ended, but that has not run since, has the same record and is runnable.
    fn sleeps_unchanged(&self, id: MemberId, records: &[Blocked]) -> bool {
        let Some(pages) = self.pages_of(id) else { return false };
        let tid = pages.control_page.blocked().tid;
        let pid = self.node.endpoint(id).map_or(0, |endpoint| endpoint.member.pid);
        // Thread id 0: the endpoint is in a request to the daemon at this moment.
        let asleep = tid != 0 && m3ipc_sys::thread_sleeps(pid, tid.cast_signed()).unwrap_or(true);
        asleep && self.wait_of(id).is_some_and(|now| records.contains(&now))
    }

    /// The wait of an endpoint for one other endpoint.
    fn wait_of(&self, id: MemberId) -> Option<Blocked> {
        let blocked = self.pages_of(id)?.control_page.blocked();
        let call = match blocked.call {
            WaitCall::Send | WaitCall::SendRec => BlockedIn::Send,
            WaitCall::Await | WaitCall::Receive => BlockedIn::Receive,
            WaitCall::None | WaitCall::Rcvrqst | WaitCall::Wait => return None,
        };
        let record =
            Blocked { endpoint: id.address, peer: blocked.peer, call, since: blocked.since_ns };
        (!blocked.peer.is_reserved()).then_some(record)
    }
}
