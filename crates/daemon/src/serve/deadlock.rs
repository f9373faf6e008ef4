//! Deadlock: whether the caller's wait has closed a cycle of waiting endpoints.

use crate::server::Server;
use crate::tables::MemberId;
use crate::tables::deadlock::{self, Blocked, BlockedIn};
use crate::token::Token;
use m3ipc_link::WaitCall;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// No deadlock, or another member of the cycle is younger.
const NO_DEADLOCK: i32 = 0;
/// The caller's call closed a cycle.
const DEADLOCK: i32 = 1;
/// A cycle seems closed, but a member of it was awake, or not all were looked at: the caller has to
/// ask again soon.
const ASK_AGAIN: i32 = 2;

/// The number of members whose threads one request looks at in /proc.
const SLEEPERS_MAX: usize = 64;

impl Server {
    /// Answers whether the caller is the youngest member of a cycle.
    pub(super) fn is_deadlock(&mut self, token: Token) {
        let Some(own) = self.require_endpoint(token) else { return };
        let records = self.chain_of(own);
        let cycle = deadlock::cycle_through(own.address, &records);
        let answer = match cycle.filter(|cycle| cycle.closer == own.address) {
            None => NO_DEADLOCK,
            Some(_) => self.check_sleepers(token, own, &records),
        };
        self.reply_number(token, answer);
    }

    /// Checks whether all other members of a closed cycle sleep. One request looks at a bounded
    /// number of them, and the next one goes on if the cycle is still the same.
    fn check_sleepers(&mut self, token: Token, own: MemberId, cycle: &[Blocked]) -> i32 {
        let mut hasher = DefaultHasher::new();
        for record in cycle {
            (record.endpoint.0, record.peer.0, record.since).hash(&mut hasher);
        }
        let key = hasher.finish();
        let Some(connection) = self.connections.get_mut(token) else { return NO_DEADLOCK };
        let checked = connection.checked_cycle.take();
        let from = checked.filter(|(known, _)| *known == key).map_or(0, |(_, checked)| checked);
        // The caller itself waits for this answer, and does not sleep in its call yet.
        let others: Vec<&Blocked> =
            cycle.iter().filter(|record| record.endpoint != own.address).collect();
        let part = others.iter().skip(from).take(SLEEPERS_MAX);
        if !part.clone().all(|record| self.sleeps_unchanged(own.vm, record)) {
            return ASK_AGAIN;
        }
        let to = from + part.count();
        if to == others.len() {
            return DEADLOCK;
        }
        if let Some(connection) = self.connections.get_mut(token) {
            connection.checked_cycle = Some((key, to));
        }
        ASK_AGAIN
    }

    /// The chain of waits from an endpoint on. It ends at an endpoint that runs, that waits for
    /// ANY, or that is in the chain already.
    fn chain_of(&self, first: MemberId) -> Vec<Blocked> {
        let mut chain: Vec<Blocked> = Vec::new();
        let mut visited = HashSet::new();
        let mut next = first.address;
        while let Some(record) = self.wait_of(MemberId::new(first.vm, next)) {
            if !visited.insert(record.endpoint) {
                break;
            }
            next = record.peer;
            chain.push(record);
        }
        chain
    }

    /// Whether an endpoint sleeps and still waits as its record says. An endpoint whose wait has
    /// ended, but that has not run since, has the same record and is runnable.
    fn sleeps_unchanged(&self, vm: i32, record: &Blocked) -> bool {
        let id = MemberId::new(vm, record.endpoint);
        let Some(pages) = self.connections.pages_of(id) else { return false };
        let tid = pages.control_page.blocked().tid;
        let pid = self.node.endpoint(id).map_or(0, |endpoint| endpoint.member.pid);
        // Thread id 0: the endpoint is in a request to the daemon at this moment.
        let asleep = tid != 0 && m3ipc_sys::thread_sleeps(pid, tid.cast_signed()).unwrap_or(true);
        asleep && self.wait_of(id).is_some_and(|now| now == *record)
    }

    /// The wait of an endpoint for one other endpoint.
    fn wait_of(&self, id: MemberId) -> Option<Blocked> {
        let blocked = self.connections.pages_of(id)?.control_page.blocked();
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
