//! Com-sockets: the daemon introduces the parties of a connection.
//!
//! A connection is a kernel socket between two processes, and a slot in memory that only they map.
//! It needs no daemon after the introduction.

mod connect;
mod datagram;
mod list;
mod pair;
mod port;

use crate::quota::{Exceeded, Share};
use crate::server::Server;
use crate::state::sockets::{DomainId, PairEnd, SocketFailure, fail};
use crate::tables::{Credentials, VmState};
use crate::token::Token;
use m3ipc_abi::Code;
use m3ipc_sys::Errno;
use m3ipc_wire::{Reply, SockReply, SockRequest};

impl Server {
    pub(super) fn serve_socket(&mut self, token: Token, cred: &Credentials, request: SockRequest) {
        let answer = match request {
            SockRequest::Join { vm, domain } => return self.join_domain(token, cred, vm, domain),
            SockRequest::List { vm, from } => return self.list_sockets(token, cred, vm, from),
            _ if !self.sockets.is_party(token) => {
                fail(Errno::NETDOWN, "the caller is in no domain; join one first")
            }
            SockRequest::Bind { kind, port } => self.bind_port(token, kind, port),
            SockRequest::Listen { port, backlog } => self.listen_at(token, port, backlog),
            SockRequest::Connect { address, port, from, prepared } => {
                self.connect_to(token, (address, port), from, prepared)
            }
            SockRequest::PeerPool { pair, side } => {
                self.peer_pool(token, PairEnd::named(pair, side))
            }
            SockRequest::Forget { pair, side } => {
                self.forget_pair(token, PairEnd::named(pair, side))
            }
            SockRequest::Route { from, address, port } => {
                self.open_route(token, from, address, port)
            }
            SockRequest::DatagramAddresses { port } => self.list_receivers(token, port),
            SockRequest::Keep { port } => self.keep_port(token, port),
            SockRequest::Release { kind, port } => return self.release_port(token, kind, port),
            SockRequest::Mapped { pair, side } => {
                return self.pair_mapped(token, PairEnd::named(pair, side));
            }
            SockRequest::Closed { pair, side, slot } => {
                return self.side_closed(token, PairEnd::named(pair, side), slot);
            }
        };
        match answer {
            Ok((reply, fds)) => self.reply(token, reply, fds),
            Err(failure) => self.refuse_socket(token, failure),
        }
    }

    fn refuse_socket(&mut self, token: Token, SocketFailure(errno, why): SocketFailure) {
        tracing::debug!(%errno, why, "a socket request is refused");
        let failed = SockReply::Failed { errno: errno.raw_os_error(), why };
        self.reply(token, Reply::Sock(failed), Vec::new());
    }

    fn join_domain(&mut self, token: Token, cred: &Credentials, vm: i32, wanted: Option<u32>) {
        match self.node.joinable_vm(vm, cred).map(|vm| vm.state()) {
            Ok(VmState::Running) => {}
            Ok(VmState::Ending) => {
                let why = format!("VM {vm} is ending; join a domain of another VM");
                return self.refuse(token, Code::VmNotRun, why);
            }
            Err(error) => return self.refuse(token, error.code(), error),
        }
        if self.sockets.is_party(token) {
            let why = "the caller is in a domain already; use another connection";
            return self.refuse(token, Code::RscBusy, why);
        }
        let number = match self.choose_domain(vm, cred, wanted) {
            Ok(number) => number,
            Err(failure) => return self.refuse_socket(token, failure),
        };
        if let Some(exceeded) = self.exceeded_domains(vm, number, cred.uid) {
            return self.refuse(token, Code::NoMem, exceeded);
        }
        let domain = (vm, number);
        if !self.sockets.has_domain(domain)
            && let Err(cause) = std::fs::write(self.runtime_directory.domain(domain, cred.uid), "")
        {
            let why = format!(
                "the runtime directory has no room for a domain ({cause}); free some space there"
            );
            return self.refuse(token, Code::NoMem, why);
        }
        self.sockets.join(token, domain, cred.uid);
        let network = self.settings.sock_network;
        let joined =
            SockReply::Joined { domain: number, network: network.address, bits: network.bits };
        self.reply(token, Reply::Sock(joined), Vec::new());
    }

    /// The domain for a party of this user: the wanted one, if the user may have it, else a free
    /// one.
    fn choose_domain(
        &self,
        vm: i32,
        cred: &Credentials,
        wanted: Option<u32>,
    ) -> Result<u32, SocketFailure> {
        let last = self.settings.sock_network.last();
        let number = match wanted {
            Some(number) if number > last => {
                let why = format!("domain {number} is out of range; give 0 to {last}");
                return fail(Errno::ADDRNOTAVAIL, why);
            }
            Some(number) => number,
            None => match self.default_domain(vm, cred) {
                Some(number) => number,
                None => {
                    let why = "every domain of the network is taken; start the daemon with a \
                               wider network (--sock-network)";
                    return fail(Errno::ADDRNOTAVAIL, why);
                }
            },
        };
        let named_for = self.node.vm(vm).ok().and_then(|vm| vm.spec().domain_user(number));
        if let Some(uid) = named_for.filter(|uid| *uid != cred.uid && !cred.owns_all()) {
            let why = format!(
                "domain {number} has a name and is for user {uid}, as the configuration of the VM \
                 says; join another one, or make the VM with --domain NAME={number}:USER"
            );
            return fail(Errno::ACCESS, why);
        }
        match self.sockets.domain_user((vm, number)) {
            Some(uid) if uid != cred.uid => fail(
                Errno::ACCESS,
                format!(
                    "domain {number} belongs to user {uid}, and only processes of one user share \
                     a domain; join another one"
                ),
            ),
            _ => Ok(number),
        }
    }

    /// The quota of domains, if this one would exceed it. The VM's owner has no share, and a domain
    /// that the VM names for the user is free.
    fn exceeded_domains(&self, vm: i32, number: u32, uid: u32) -> Option<Exceeded> {
        let spec = self.node.vm(vm).ok()?.spec();
        let is_for_user = spec.domain_user(number) == Some(uid);
        if self.sockets.is_taken((vm, number)) || is_for_user {
            return None;
        }
        let share = self.domain_share(vm, uid);
        let is_privileged = self.accounts.is_privileged(uid) || spec.owner_uid == uid;
        let (used, limit) = (share.used_by_user, Share::of_user(share.total));
        (!share.admits(1, is_privileged)).then_some(Exceeded { uid, name: "domains", used, limit })
    }

    /// The use of the domains of a VM, by this user and by all.
    pub(super) fn domain_share(&self, vm: i32, uid: u32) -> Share {
        self.sockets.domain_share(vm, uid, u64::from(self.settings.sock_network.last()) + 1)
    }

    /// The domain of a process that names none. In this order: its present domain, the number of
    /// its slot, the first free one. Named domains of the VM are only for processes that ask for
    /// them.
    ///
    /// After a takeover the search starts at the last domain: members that have not returned yet
    /// had the first ones.
    fn default_domain(&self, vm: i32, cred: &Credentials) -> Option<u32> {
        let is_own =
            |party| self.connections.get(party).is_some_and(|other| other.cred.pid == cred.pid);
        if let Some(number) = self.sockets.find_domain(vm, cred.uid, is_own) {
            return Some(number);
        }
        let named = self.node.vm(vm).ok().map(|vm| &vm.spec().domains);
        let is_free = |number: &u32| {
            !named.is_some_and(|named| named.values().any(|named| named == number))
                && !self.sockets.is_taken((vm, *number))
        };
        let last = self.settings.sock_network.last();
        let id = self.node.endpoint_of_process(cred.pid).filter(|id| id.vm == vm);
        let slot = id.and_then(|id| u32::try_from(id.address.slot()).ok());
        slot.filter(|number| *number <= last && is_free(number)).or_else(|| {
            let mut all = 0..=last;
            if self.lifecycle.has_taken_over() {
                all.rev().find(is_free)
            } else {
                all.find(is_free)
            }
        })
    }

    /// Removes a party, with its ports and pairs. Its domain ends with its last party.
    pub(crate) fn leave_domain(&mut self, token: Token) {
        for port in self.sockets.ports_of(token) {
            self.drop_port(port);
        }
        if let Some((domain, Some(uid))) = self.sockets.leave(token) {
            self.release_domain(domain, uid);
        }
    }

    fn release_domain(&self, domain: DomainId, uid: u32) {
        // Without its file the domain is free for every user of the next daemon.
        let _ = std::fs::remove_file(self.runtime_directory.domain(domain, uid));
    }

    /// Ends the domains of a VM. Present connections belong to their parties and stay.
    pub(crate) fn end_domains(&mut self, vm: i32) {
        for party in self.sockets.parties_of_vm(vm) {
            self.leave_domain(party);
        }
        for (domain, uid) in self.sockets.take_kept(|of| of == vm) {
            self.release_domain(domain, uid);
        }
    }
}
