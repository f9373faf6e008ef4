//! The state of com-sockets: domains, ports, and the pairs of connected parties.
//!
//! A party is a process in a domain, named by the token of its control connection. Nothing here is
//! in the journal: parties join their domain again at a successor. A file with the domain's number
//! and user lies in the runtime directory while the domain has parties. It keeps other users out of
//! the domain until its parties return.

mod pair;
mod port;

pub(crate) use pair::{EndpointName, Pair, PairEnd, PairId};
pub(crate) use port::BoundPort;

use super::member_fd::MemberFd;
use crate::quota::{Charge, Share};
use crate::token::Token;
use m3ipc_sys::Errno;
use m3ipc_wire::{Reply, SockKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// The first and the last port that the daemon chooses itself.
const FREE_PORTS: core::ops::RangeInclusive<u16> = 32_768..=60_999;

/// A domain: its VM and its number.
pub(crate) type DomainId = (i32, u32);
/// A port: its domain, its kind and its number.
pub(crate) type PortId = (DomainId, SockKind, u16);

/// The refusal of a request: an errno, and the cause for a person.
#[derive(Debug)]
pub(crate) struct SocketFailure(pub(crate) Errno, pub(crate) String);

/// The answer to a request: a reply with descriptors, or a refusal.
pub(crate) type SocketAnswer = Result<(Reply, Vec<Rc<MemberFd>>), SocketFailure>;

pub(crate) fn fail<T>(errno: Errno, why: impl Into<String>) -> Result<T, SocketFailure> {
    Err(SocketFailure(errno, why.into()))
}

#[derive(Debug)]
struct Domain {
    uid: u32,
    parties: BTreeSet<Token>,
}

/// The domains, ports and pairs of all VMs.
#[derive(Debug)]
pub(crate) struct SocketRegistry {
    domains: BTreeMap<DomainId, Domain>,
    domain_of: HashMap<Token, DomainId>,
    pub(crate) ports: BTreeMap<PortId, BoundPort>,
    next_port: u16,
    pairs: BTreeMap<PairId, Pair>,
    /// The pairs of two parties; the connecting party comes first.
    between: BTreeMap<(Token, Token), Vec<PairId>>,
    latest_pair: PairId,
    next_route: u64,
    /// Domains of a predecessor, with their users.
    kept: BTreeMap<DomainId, u32>,
}

impl SocketRegistry {
    /// A registry with the domains that a killed predecessor left in this directory.
    pub(crate) fn new(directory: &std::path::Path) -> Self {
        let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let kept = names.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let mut parts = name.strip_prefix("domain.")?.split('.');
            let (vm, domain, uid) = (parts.next()?, parts.next()?, parts.next()?);
            Some(((vm.parse().ok()?, domain.parse().ok()?), uid.parse().ok()?))
        });
        Self {
            domains: BTreeMap::new(),
            domain_of: HashMap::new(),
            ports: BTreeMap::new(),
            next_port: 0,
            pairs: BTreeMap::new(),
            between: BTreeMap::new(),
            latest_pair: PairId::before_first(),
            next_route: 0,
            kept: kept.collect(),
        }
    }

    pub(crate) fn is_party(&self, party: Token) -> bool {
        self.domain_of.contains_key(&party)
    }

    /// The domain of a party.
    pub(crate) fn domain_of(&self, party: Token) -> Result<DomainId, SocketFailure> {
        match self.domain_of.get(&party) {
            Some(domain) => Ok(*domain),
            None => fail(Errno::NETDOWN, "the caller is in no domain; join one first"),
        }
    }

    /// Whether a domain has parties.
    pub(crate) fn has_domain(&self, domain: DomainId) -> bool {
        self.domains.contains_key(&domain)
    }

    /// Whether a domain has parties, or had parties at a predecessor.
    pub(crate) fn is_taken(&self, domain: DomainId) -> bool {
        self.has_domain(domain) || self.kept.contains_key(&domain)
    }

    /// The user of a domain, also of a predecessor's domain.
    pub(crate) fn domain_user(&self, domain: DomainId) -> Option<u32> {
        let present = self.domains.get(&domain).map(|domain| domain.uid);
        present.or(self.kept.get(&domain).copied())
    }

    /// The use of the `total` domains of a VM, by this user and by all. A predecessor's domains
    /// count.
    pub(crate) fn domain_share(&self, vm: i32, uid: u32, total: u64) -> Share {
        let of_vm = (vm, 0)..=(vm, u32::MAX);
        let present = self.domains.range(of_vm.clone()).map(|(_, domain)| domain.uid);
        let kept = self.kept.range(of_vm).map(|(_, uid)| *uid);
        let mut share = Share { total, used: 0, used_by_user: 0 };
        for owner in present.chain(kept) {
            share.used += 1;
            share.used_by_user += u64::from(owner == uid);
        }
        share
    }

    /// The domain of this VM and user with a party for which `is_own` holds.
    pub(crate) fn find_domain(
        &self,
        vm: i32,
        uid: u32,
        is_own: impl Fn(Token) -> bool,
    ) -> Option<u32> {
        let mut of_vm = self.domains.range((vm, 0)..=(vm, u32::MAX));
        let found = of_vm.find(|(_, domain)| {
            domain.uid == uid && domain.parties.iter().any(|party| is_own(*party))
        });
        found.map(|((_, number), _)| *number)
    }

    pub(crate) fn join(&mut self, party: Token, domain: DomainId, uid: u32) {
        self.kept.remove(&domain);
        let new = || Domain { uid, parties: BTreeSet::new() };
        self.domains.entry(domain).or_insert_with(new).parties.insert(party);
        self.domain_of.insert(party, domain);
    }

    /// Removes a party from its domain, with its pairs. Returns the domain; with its user if this
    /// was the last party.
    pub(crate) fn leave(&mut self, party: Token) -> Option<(DomainId, Option<u32>)> {
        let domain = self.domain_of.remove(&party)?;
        self.drop_pairs(party);
        let entry = self.domains.get_mut(&domain)?;
        entry.parties.remove(&party);
        let ended = entry.parties.is_empty().then_some(entry.uid);
        if ended.is_some() {
            self.domains.remove(&domain);
        }
        Some((domain, ended))
    }

    pub(crate) fn parties_of_vm(&self, vm: i32) -> Vec<Token> {
        let of_vm = self.domain_of.iter().filter(|(_, domain)| domain.0 == vm);
        of_vm.map(|(party, _)| *party).collect()
    }

    /// Takes the domains of a predecessor in these VMs, with their users.
    pub(crate) fn take_kept(&mut self, is_of: impl Fn(i32) -> bool) -> BTreeMap<DomainId, u32> {
        let (taken, kept) =
            std::mem::take(&mut self.kept).into_iter().partition(|((vm, _), _)| is_of(*vm));
        self.kept = kept;
        taken
    }

    /// The ports of a party.
    pub(crate) fn ports_of(&self, party: Token) -> Vec<PortId> {
        let own = self.ports.iter().filter(|(_, bound)| bound.party == party);
        own.map(|(port, _)| *port).collect()
    }

    pub(crate) fn free_port(
        &mut self,
        domain: DomainId,
        kind: SockKind,
    ) -> Result<u16, SocketFailure> {
        for _ in 0..FREE_PORTS.len() {
            let port = self.next_port.clamp(*FREE_PORTS.start(), *FREE_PORTS.end());
            self.next_port = if port == *FREE_PORTS.end() { *FREE_PORTS.start() } else { port + 1 };
            if !self.ports.contains_key(&(domain, kind, port)) {
                return Ok(port);
            }
        }
        fail(Errno::ADDRINUSE, "every free port of the domain is in use; release one")
    }

    /// A number for a new route to a datagram socket.
    pub(crate) fn new_route(&mut self) -> u64 {
        self.next_route += 1;
        self.next_route
    }

    /// A free slot in a present pair of two parties; the connecting party comes first.
    pub(crate) fn reuse_slot(
        &mut self,
        parties: [Token; 2],
        names: [EndpointName; 2],
    ) -> Option<(PairId, usize)> {
        let known = self.between.get(&(parties[0], parties[1]))?;
        for id in known {
            if let Some(at) = self.pairs.get_mut(id).and_then(|pair| pair.take_slot(names)) {
                return Some((*id, at));
            }
        }
        None
    }

    /// A new pair of two parties, with a slot for a connection.
    pub(crate) fn add_pair(
        &mut self,
        parties: [Token; 2],
        names: [EndpointName; 2],
        charges: Vec<Charge>,
        held: [Vec<Charge>; 3],
    ) -> Result<(PairId, usize), Errno> {
        let mut pair = Pair::new(parties, charges, held)?;
        let at = pair.take_slot(names).ok_or(Errno::NOBUFS)?;
        let id = self.latest_pair.next();
        self.latest_pair = id;
        self.pairs.insert(id, pair);
        self.between.entry((parties[0], parties[1])).or_default().push(id);
        Ok((id, at))
    }

    /// The pair of this number.
    pub(crate) fn pair(&self, id: PairId) -> Option<&Pair> {
        self.pairs.get(&id)
    }

    /// The pair of this number, to be changed.
    pub(crate) fn pair_mut(&mut self, id: PairId) -> Option<&mut Pair> {
        self.pairs.get_mut(&id)
    }

    /// All pairs.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = &Pair> {
        self.pairs.values()
    }

    /// One end of a pair, if it belongs to this party.
    pub(crate) fn pair_end(&mut self, party: Token, end: PairEnd) -> Option<&mut Pair> {
        let pair = self.pairs.get_mut(&end.pair())?;
        (pair.parties.get(end.side()) == Some(&party)).then_some(pair)
    }

    pub(crate) fn remove_pair(&mut self, id: PairId) {
        let Some(pair) = self.pairs.remove(&id) else { return };
        if let Some(known) = self.between.get_mut(&(pair.parties[0], pair.parties[1])) {
            known.retain(|other| *other != id);
        }
    }

    /// Drops the pairs of a party that leaves. Both parties keep their mappings, but get no further
    /// connections.
    fn drop_pairs(&mut self, party: Token) {
        for pair in self.pairs.values().filter(|pair| pair.parties.contains(&party)) {
            pair.forbid_opening();
        }
        self.pairs.retain(|_, pair| !pair.parties.contains(&party));
        self.between.retain(|(one, other), _| *one != party && *other != party);
    }
}
