//! Com-sockets: domains, ports, and who is connected with whom.
//!
//! The daemon introduces and is not needed afterwards: a connection is a socket of the kernel's between two
//! processes and a slot in memory that only they map. Nothing here is in the journal: parties that come back to
//! a successor join their domain again. So that nobody takes a domain meanwhile, a file of its name and its
//! user's lies in the runtime directory as long as it has parties.

mod connect;
mod datagram;
mod pair;
mod port;
mod stat;

use crate::server::Server;
use m3ipc_abi::Code;
use m3ipc_model::tables::{Credentials, VmState};
use m3ipc_sys::Errno;
use m3ipc_wire::{Reply, SockKind, SockReply, SockRequest};
use pair::Pair;
use port::Bound;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The network of all domains: what an address consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// Its address, without a host.
    pub address: u32,
    /// Leading bits that are the network's.
    pub bits: u8,
}

impl Network {
    /// 192.168.0.0 with 253 domains, as in the paper of com-sockets.
    pub const DEFAULT: Self = Self { address: 0xc0a8_0000, bits: 24 };

    /// Reads `A.B.C.D/BITS`; at least 2 and at most 16 bits are left for domains.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let (address, bits): (std::net::Ipv4Addr, u8) = (address.parse().ok()?, bits.parse().ok()?);
        let network = Self { address: u32::from(address), bits };
        ((16..=30).contains(&bits) && network.address & network.hosts() == 0).then_some(network)
    }

    fn hosts(self) -> u32 {
        u32::MAX.checked_shr(u32::from(self.bits)).unwrap_or(0)
    }

    /// The highest domain.
    pub(crate) fn last(self) -> u32 {
        self.hosts() - 3
    }

    pub(crate) fn address_of(self, domain: u32) -> u32 {
        self.address + domain + 2
    }

    /// The address of all.
    pub(crate) fn broadcast(self) -> u32 {
        self.address + self.hosts()
    }

    pub(crate) fn domain_of(self, address: u32) -> Option<u32> {
        let domain = address.checked_sub(self.address)?.checked_sub(2)?;
        (domain <= self.last()).then_some(domain)
    }
}

/// A domain of a VM: its number.
pub(crate) type Home = (i32, u32);

#[derive(Debug)]
struct Domain {
    uid: u32,
    parties: BTreeSet<u64>,
}

/// All that the daemon knows of com-sockets. Parties are named by the tokens of their connections.
#[derive(Debug, Default)]
pub(crate) struct Socks {
    domains: BTreeMap<Home, Domain>,
    homes: HashMap<u64, Home>,
    ports: BTreeMap<(Home, SockKind, u16), Bound>,
    next_port: u16,
    pairs: BTreeMap<u64, Pair>,
    /// Pairs of two parties, the one that asked for them first.
    between: BTreeMap<(u64, u64), Vec<u64>>,
    next_pair: u64,
    /// Names given to ways to datagram sockets.
    next_way: u64,
    /// Domains of before a takeover, and whose they were.
    kept: BTreeMap<Home, u32>,
}

impl Socks {
    /// Knows the domains that a killed predecessor left.
    pub(crate) fn new(directory: &std::path::Path) -> Self {
        let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let kept = names.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let mut parts = name.strip_prefix("domain.")?.split('.');
            let (vm, domain, uid) = (parts.next()?, parts.next()?, parts.next()?);
            Some(((vm.parse().ok()?, domain.parse().ok()?), uid.parse().ok()?))
        });
        // Pairs are numbered on, not anew: members still name those of the predecessor.
        Self { kept: kept.collect(), next_pair: m3ipc_sys::monotonic_ns(), ..Self::default() }
    }
}

/// Why a request is refused: a number of errno, and the cause for people.
pub(crate) struct Failure(Errno, String);

fn fail<T>(errno: Errno, why: impl Into<String>) -> Result<T, Failure> {
    Err(Failure(errno, why.into()))
}

impl Server {
    pub(super) fn serve_sock(&mut self, token: u64, cred: &Credentials, request: SockRequest) {
        let done = match request {
            SockRequest::Join { vm, domain } => return self.join_domain(token, cred, vm, domain),
            SockRequest::List { vm, from } => return self.list_socks(token, cred, vm, from),
            _ if !self.socks.homes.contains_key(&token) => {
                fail(Errno::NETDOWN, "the caller is in no domain")
            }
            SockRequest::Bind { kind, port } => self.bind_port(token, kind, port),
            SockRequest::Listen { port, backlog } => self.listen_at(token, port, backlog),
            SockRequest::Connect { address, port, from, prepared: spares } => {
                self.connect_to(token, (address, port), from, spares)
            }
            SockRequest::PeerPool { pair, side } => self.peer_pool(token, pair, side),
            SockRequest::Forget { pair, side } => self.forget_pair(token, pair, side),
            SockRequest::Route { from, address, port } => self.reach(token, from, address, port),
            SockRequest::DatagramAddresses { port } => self.everybody(token, port),
            SockRequest::Keep { port } => self.keep_port(token, port),
            SockRequest::Release { kind, port } => return self.release_port(token, kind, port),
            SockRequest::Mapped { pair, side } => return self.pair_mapped(token, pair, side),
            SockRequest::Closed { pair, side, slot } => {
                return self.side_closed(token, pair, side, slot);
            }
        };
        match done {
            Ok((reply, fds)) => self.reply(token, reply, fds),
            Err(failure) => self.fail_sock(token, failure),
        }
    }

    fn fail_sock(&mut self, token: u64, Failure(errno, why): Failure) {
        tracing::debug!(%errno, why, "a socket is refused");
        let failed = SockReply::Failed { errno: errno.raw_os_error(), why };
        self.reply(token, Reply::Sock(failed), Vec::new());
    }

    fn join_domain(&mut self, token: u64, cred: &Credentials, vm: i32, wanted: Option<u32>) {
        if let Err(error) = self.node.check_join(vm, cred) {
            return self.refuse(token, error.code(), error);
        }
        let state = self.node.vm_info(vm, &Credentials::new(0, 0, 0)).map(|info| info.state);
        if state != Ok(VmState::Running) {
            return self.refuse(token, Code::VmNotRun, format_args!("VM {vm} is not running"));
        }
        if self.socks.homes.contains_key(&token) {
            return self.refuse(token, Code::RscBusy, "the caller is in a domain already");
        }
        let network = self.settings.sock_network;
        let domain = match wanted {
            Some(domain) if domain > network.last() => {
                let why = format!(
                    "domain {domain} is beyond {}, the last of the network",
                    network.last()
                );
                return self.fail_sock(token, Failure(Errno::ADDRNOTAVAIL, why));
            }
            Some(domain) => Some(domain),
            None => self.own_domain(vm, cred),
        };
        let Some(domain) = domain else {
            let why = "every domain of the network is taken; a wider one is a setting of the daemon (sock-network)";
            return self.fail_sock(token, Failure(Errno::ADDRNOTAVAIL, why.to_owned()));
        };
        let home = (vm, domain);
        let owner = self.socks.domains.get(&home).map(|there| there.uid);
        if let Some(uid) =
            owner.or(self.socks.kept.get(&home).copied()).filter(|uid| *uid != cred.uid)
        {
            let why = format!(
                "domain {domain} is of user {uid}; a domain is shared by processes of one user"
            );
            return self.fail_sock(token, Failure(Errno::ACCESS, why));
        }
        if owner.is_none()
            && let Err(cause) = std::fs::write(self.home.domain(home, cred.uid), "")
        {
            return self.refuse(
                token,
                Code::NoMem,
                format_args!("the runtime directory has no room for a domain: {cause}"),
            );
        }
        self.socks.kept.remove(&home);
        let fresh = || Domain { uid: cred.uid, parties: BTreeSet::new() };
        self.socks.domains.entry(home).or_insert_with(fresh).parties.insert(token);
        self.socks.homes.insert(token, home);
        let joined = SockReply::Joined { domain, network: network.address, bits: network.bits };
        self.reply(token, Reply::Sock(joined), Vec::new());
    }

    /// The domain of a process that names none: its own already, that of its slot, or the first that is free. None that the
    /// VM's configuration names: those are for who asks for them.
    /// After a takeover the last ones first: the first are those of members that have not come back yet.
    fn own_domain(&self, vm: i32, cred: &Credentials) -> Option<u32> {
        let mine = |token: &u64| {
            self.connections.get(token).is_some_and(|other| other.cred.pid == cred.pid)
        };
        let own = self.socks.domains.range((vm, 0)..=(vm, u32::MAX));
        let own = own
            .into_iter()
            .find(|(_, there)| there.uid == cred.uid && there.parties.iter().any(mine));
        let named = self
            .node
            .vm_info(vm, &Credentials::new(0, 0, 0))
            .map(|info| info.spec.domains)
            .unwrap_or_default();
        let free = |domain: &u32| {
            !named.values().any(|number| number == domain)
                && !self.socks.domains.contains_key(&(vm, *domain))
                && !self.socks.kept.contains_key(&(vm, *domain))
        };
        let last = self.settings.sock_network.last();
        let slot = self.node.place_of(cred.pid).filter(|place| place.vm == vm);
        let slot = slot.and_then(|place| u32::try_from(place.address.slot()).ok());
        let slot = slot.filter(|domain| *domain <= last).filter(free);
        own.map(|((_, domain), _)| *domain).or(slot).or_else(|| {
            if self.takeovers > 0 { (0..=last).rev().find(free) } else { (0..=last).find(free) }
        })
    }

    /// A party has gone, or its process: its ports, its pairs, and its domain with the last of them.
    pub(crate) fn leave_socks(&mut self, token: u64) {
        let Some(home) = self.socks.homes.remove(&token) else { return };
        let ports = self.socks.ports.iter().filter(|(_, bound)| bound.token == token);
        let ports: Vec<_> = ports.map(|((_, kind, port), _)| (*kind, *port)).collect();
        for (kind, port) in ports {
            self.drop_port(home, kind, port);
        }
        self.drop_pairs(token);
        let Some(domain) = self.socks.domains.get_mut(&home) else { return };
        domain.parties.remove(&token);
        if domain.parties.is_empty() {
            let _ = std::fs::remove_file(self.home.domain(home, domain.uid));
            self.socks.domains.remove(&home);
        }
    }

    /// A VM has ended: nobody is reached in it any more. Connections are their parties' own.
    pub(crate) fn end_socks(&mut self, vm: i32) {
        let parties: Vec<u64> = self
            .socks
            .homes
            .iter()
            .filter(|(_, home)| home.0 == vm)
            .map(|(token, _)| *token)
            .collect();
        for token in parties {
            self.leave_socks(token);
        }
        self.socks.kept.retain(|home, _| home.0 != vm);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_paper() {
        let network = Network::DEFAULT;
        assert_eq!(network.address_of(3), u32::from(std::net::Ipv4Addr::new(192, 168, 0, 5)));
        assert_eq!(network.broadcast(), u32::from(std::net::Ipv4Addr::new(192, 168, 0, 255)));
        assert_eq!((network.domain_of(network.address_of(252)), network.last()), (Some(252), 252));
        assert_eq!(network.domain_of(network.broadcast()), None);
        assert_eq!((network.domain_of(network.address + 1), network.domain_of(0)), (None, None));
    }

    #[test]
    fn a_network_is_written_as_usual() {
        assert_eq!(Network::parse("192.168.0.0/24"), Some(Network::DEFAULT));
        let wide = Network::parse("10.7.0.0/16").unwrap();
        assert_eq!((wide.last(), wide.domain_of(wide.address_of(65_532))), (65_532, Some(65_532)));
        for wrong in
            ["", "10.0.0.0", "10.0.0.0/31", "10.0.0.0/15", "10.0.0.1/24", "x/24", "10.0.0.0/x"]
        {
            assert_eq!(Network::parse(wrong), None, "{wrong}");
        }
    }
}
