//! Claims of slots in etcd, beside a registry that people write.
//!
//! ```text
//! m3/CLUSTER/node/NODE    with a lease: the life of a node. Its create revision fences claims
//! m3/CLUSTER/vm/VM        without a lease: [{"node":"alpha","first":200,"last":263}, ...]
//! ```
//!
//! | event | result |
//! |---|---|
//! | two nodes claim at once | one transaction fails on the revision of the key, and looks again |
//! | a claim overlaps another, or the written registry | refused; both ranges are named |
//! | a second process begins as a node that lives | waits for one lease, then is refused; the holder is named |
//! | the process of a node was stopped, and lost its lease to another | its claims fail on the create revision |
//! | etcd is away | no claims; ranges stay, since no lease holds them |
//!
//! Ranges are never given back: a slot of a claimed range names its node for ever. So the loss of a
//! lease endangers no address.

mod client;

use crate::backend::{Backend, BackendError, Wanted};
pub use client::Address;
use client::{Client, Stored, compare, get, put};
use m3ipc_abi::{NodeLimits, Slot};
use m3ipc_fabric::{Registry, SlotRange, VmEntry};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant, SystemTime};

/// Seconds of a lease that nobody renews.
const LEASE_S: u64 = 5;
/// How long a start waits for the lease of an earlier life, and the pause between two attempts.
const PREDECESSOR: Duration = Duration::from_secs(LEASE_S + 3);
const PAUSE: Duration = Duration::from_millis(200);
/// Attempts of a claim against others.
const ATTEMPTS: usize = 16;
/// The first slot that is claimed by number: below are the servers.
const FIRST_USER_SLOT: Slot = 29;

/// A claimed range, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Claim {
    node: String,
    first: Slot,
    last: Slot,
}

/// The life of a node in this process.
#[derive(Debug)]
struct Life {
    node: String,
    lease: i64,
    created: i64,
}

/// A written registry, and the claims.
pub struct Etcd {
    written: Box<dyn Backend>,
    /// What the written registry was when it could last be read.
    last: Option<Registry>,
    client: Client,
    /// Tells this process from all others, and from its earlier lives.
    holder: String,
    life: Option<Life>,
    /// The node whose life has to begin again.
    wanted: Option<String>,
}

fn node_key(cluster: &str, node: &str) -> String {
    format!("m3/{cluster}/node/{node}")
}

fn vm_key(cluster: &str, vm: &str) -> String {
    format!("m3/{cluster}/vm/{vm}")
}

/// A text that names this process to people.
fn holder() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (host, pid) = (host.trim(), std::process::id());
    format!("process {pid} of {host}, begun at {}.{:06}", since.as_secs(), since.subsec_micros())
}

impl Etcd {
    /// Claims at this address, beside a written registry.
    ///
    /// # Errors
    /// A file for TLS cannot be read, or no member is named.
    pub fn new(written: Box<dyn Backend>, address: &Address) -> Result<Self, BackendError> {
        let client = Client::new(address)?;
        Ok(Self { written, last: None, client, holder: holder(), life: None, wanted: None })
    }

    fn content(&self, cause: m3ipc_fabric::RegistryError) -> BackendError {
        BackendError::Content { what: self.client.what(), cause }
    }

    /// The written registry. While it is away, the last one serves.
    fn written(&mut self) -> Result<Registry, BackendError> {
        match (self.written.read(), &self.last) {
            (Ok(registry), _) => Ok(self.last.insert(registry).clone()),
            (Err(error), Some(last)) if error.is_loss() => Ok(last.clone()),
            (Err(error), _) => Err(error),
        }
    }

    /// The registry with all claims, and the claims as they are stored.
    fn read_all(&mut self) -> Result<(Registry, Vec<Stored>), BackendError> {
        let registry = self.written()?;
        let stored = self.client.below(&vm_key(&registry.cluster, ""))?;
        Ok((self.with_claims(registry, &stored)?, stored))
    }

    /// The written registry with these claims.
    fn with_claims(
        &self,
        mut registry: Registry,
        stored: &[Stored],
    ) -> Result<Registry, BackendError> {
        let prefix = vm_key(&registry.cluster, "");
        for it in stored {
            let vm = it.key.strip_prefix(&prefix).unwrap_or_default();
            for claim in claims_of(&self.client, it)? {
                let given = registry.give(vm, &claim.node, (claim.first, claim.last));
                given.map_err(|cause| self.content(cause))?;
            }
        }
        Ok(registry)
    }

    /// Puts the key of the node, if it is not there. Returns its holder otherwise.
    fn try_begin(&mut self, node: &str) -> Result<Option<String>, BackendError> {
        let cluster = self.written()?.cluster;
        let key = node_key(&cluster, node);
        let lease = self.client.grant(LEASE_S)?;
        let begun = self.client.commit(
            &[compare(&key, "CREATE", 0)],
            &[put(&key, &self.holder, Some(lease))],
            &[get(&key)],
        );
        let begun = begun?;
        if begun.succeeded {
            let created = begun.revision;
            self.life = Some(Life { node: node.to_owned(), lease, created });
            self.wanted = None;
            return Ok(None);
        }
        let _ = self.client.revoke(lease);
        let holder = begun.found.into_iter().next();
        Ok(Some(holder.map_or_else(|| "a life that has just ended".to_owned(), |it| it.value)))
    }

    /// The ranges that a claim adds.
    fn choose(
        &self,
        registry: &Registry,
        (node, vm): (&str, &VmEntry),
        wanted: Wanted,
    ) -> Result<Vec<SlotRange>, BackendError> {
        let count = match wanted {
            Wanted::Range(first, last) => {
                let mut with = registry.clone();
                let given = with.give(&vm.name, node, (first, last));
                given.map_err(|cause| self.content(cause))?;
                let range = SlotRange::new(first, last);
                return Ok(vec![range.map_err(|cause| self.content(cause.into()))?]);
            }
            Wanted::InAll(count) => count,
        };
        let own = registry.node(node).map(|it| it.id);
        let own = own.into_iter().flat_map(|id| registry.owners.of_node(id));
        let own = own.filter(|(of, _)| *of == vm.id).map(|(_, range)| length(range));
        let mut lack = count.saturating_sub(own.sum());
        let end = vm.parameters.procs.or(registry.parameters.procs);
        let end = end.unwrap_or(NodeLimits::DEFAULT.procs);
        let all = SlotRange::new(FIRST_USER_SLOT, end - 1);
        let free = all.map(|all| registry.owners.unclaimed(vm.id, all)).unwrap_or_default();
        let available: u32 = free.iter().copied().map(length).sum();
        if available < lack {
            let vm = vm.name.clone();
            return Err(BackendError::Full { vm, free: available, end, wanted: lack });
        }
        let mut chosen = Vec::new();
        for range in free {
            let taken = length(range).min(lack);
            if taken > 0 {
                let last = range.first + i32::try_from(taken).unwrap_or(0) - 1;
                chosen.push(SlotRange { first: range.first, last });
                lack -= taken;
            }
        }
        Ok(chosen)
    }

    /// One attempt of a claim. `None`: another claim came between.
    fn try_claim(
        &mut self,
        node: &str,
        vm: &str,
        wanted: Wanted,
    ) -> Result<Option<Vec<SlotRange>>, BackendError> {
        let (registry, stored) = self.read_all()?;
        let unknown = || m3ipc_fabric::RegistryError::UnknownVm(vm.to_owned());
        let entry = registry.vm(vm).ok_or_else(|| self.content(unknown()))?;
        let chosen = self.choose(&registry, (node, entry), wanted)?;
        if chosen.is_empty() {
            return Ok(Some(chosen));
        }
        let key = vm_key(&registry.cluster, vm);
        let before = stored.iter().find(|it| it.key == key);
        let mut claims = before.map_or(Ok(Vec::new()), |it| claims_of(&self.client, it))?;
        claims.extend(chosen.iter().map(|range| Claim {
            node: node.to_owned(),
            first: range.first,
            last: range.last,
        }));
        join(&mut claims);
        let text = serde_json::to_string(&claims).map_err(|cause| BackendError::Refused {
            what: self.client.what(),
            cause: cause.to_string(),
        })?;
        let changed = Stored { key: key.clone(), value: text.clone(), created: 0, changed: 0 };
        let others = stored.iter().filter(|it| it.key != key).cloned();
        let next: Vec<Stored> = others.chain([changed]).collect();
        let written = self.written()?;
        let next = self.with_claims(written, &next)?;
        next.check_ranges().map_err(|cause| self.content(cause))?;
        let mut compares = vec![compare(&key, "MOD", before.map_or(0, |it| it.changed))];
        let mut look = Vec::new();
        if let Some(life) = self.life.as_ref().filter(|life| life.node == node) {
            let own = node_key(&registry.cluster, node);
            compares.push(compare(&own, "CREATE", life.created));
            look.push(get(&own));
        }
        let claimed = self.client.commit(&compares, &[put(&key, &text, None)], &look)?;
        if claimed.succeeded {
            return Ok(Some(chosen));
        }
        match (self.life.as_ref(), claimed.found.into_iter().next()) {
            (Some(life), Some(other)) if other.created != life.created => {
                Err(BackendError::SecondLife { node: node.to_owned(), holder: other.value })
            }
            (Some(_), None) if !look.is_empty() => Err(BackendError::Lost {
                what: self.client.what(),
                cause: format!("the lease of node `{node}` has ended; it begins anew"),
            }),
            _ => Ok(None),
        }
    }
}

/// Joins claims of a node that touch each other.
fn join(claims: &mut Vec<Claim>) {
    claims.sort_unstable_by_key(|claim| claim.first);
    claims.dedup_by(|next, before| {
        let touches = next.node == before.node && before.last.checked_add(1) == Some(next.first);
        if touches {
            before.last = next.last;
        }
        touches
    });
}

fn length(range: SlotRange) -> u32 {
    u32::try_from(i64::from(range.last) - i64::from(range.first) + 1).unwrap_or(0)
}

fn claims_of(client: &Client, stored: &Stored) -> Result<Vec<Claim>, BackendError> {
    serde_json::from_str(&stored.value).map_err(|cause| BackendError::Entry {
        what: client.what(),
        entry: stored.key.clone(),
        wrong: format!("a value that is no list of claims: {cause}"),
    })
}

impl Backend for Etcd {
    fn read(&mut self) -> Result<Registry, BackendError> {
        Ok(self.read_all()?.0)
    }

    fn begin(&mut self, node: &str) -> Result<(), BackendError> {
        self.wanted = Some(node.to_owned());
        let until = Instant::now() + PREDECESSOR;
        loop {
            let Some(holder) = self.try_begin(node)? else { return Ok(()) };
            if Instant::now() >= until {
                return Err(BackendError::SecondLife { node: node.to_owned(), holder });
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn keep(&mut self) -> Result<(), BackendError> {
        if let Some(life) = &self.life {
            if self.client.renew(life.lease)? {
                return Ok(());
            }
            self.wanted = self.life.take().map(|life| life.node);
        }
        let Some(node) = self.wanted.clone() else { return Ok(()) };
        match self.try_begin(&node)? {
            None => Ok(()),
            Some(holder) => Err(BackendError::SecondLife { node, holder }),
        }
    }

    fn end(&mut self) {
        self.wanted = None;
        if let Some(life) = self.life.take() {
            let _ = self.client.revoke(life.lease);
        }
    }

    fn claim(
        &mut self,
        node: &str,
        vm: &str,
        wanted: Wanted,
    ) -> Result<Vec<SlotRange>, BackendError> {
        for _ in 0..ATTEMPTS {
            if let Some(ranges) = self.try_claim(node, vm, wanted)? {
                return Ok(ranges);
            }
        }
        Err(BackendError::Contended(vm.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_of_a_node_that_touch_are_joined() {
        let claim = |node: &str, first, last| Claim { node: node.to_owned(), first, last };
        let mut claims = vec![
            claim("alpha", 40, 49),
            claim("alpha", 20, 29),
            claim("beta", 50, 59),
            claim("alpha", 30, 39),
            claim("alpha", 61, 61),
            claim("alpha", 60, 60),
        ];
        join(&mut claims);
        let joined = [claim("alpha", 20, 49), claim("beta", 50, 59), claim("alpha", 60, 61)];
        assert_eq!(claims, joined);
    }
}
