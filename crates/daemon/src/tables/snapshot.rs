//! A snapshot: the shortest journal that makes an equal node.

use m3ipc_abi::Address;

use super::area::LatestArea;
use super::identity::MemberId;
use super::link_table::LinkEntry;
use super::node::Node;
use super::record::Record;
use super::reservation::Reservation;
use super::vm::{Endpoint, Vm, VmState};

impl Node {
    /// The records of a snapshot. Their replay gives an equal node; a new journal starts with them.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Record> {
        let (nodeid, limits, terms) = (self.nodeid(), self.limits(), self.terms().clone());
        let mut records = vec![Record::Node { nodeid, limits, terms }];
        records.push(Record::Lives(self.state.lives));
        for vm in self.state.vms.values() {
            snapshot_vm(vm, &mut records);
        }
        records
    }
}

fn snapshot_vm(vm: &Vm, records: &mut Vec<Record>) {
    records.push(Record::VmInit(vm.spec.clone()));
    let dead = vm.latest.iter().filter(|(slot, _)| !vm.slots.contains_key(slot));
    records.extend(dead.map(|(_, address)| Record::Generation(MemberId::new(vm.id, *address))));
    let (processes, others): (Vec<_>, Vec<_>) =
        vm.slots.values().partition(|endpoint| endpoint.kind.is_process());
    for endpoint in processes.into_iter().chain(others) {
        snapshot_endpoint(vm, endpoint, records);
    }
    records.extend(vm.slots.values().flat_map(|endpoint| requested_links(vm, endpoint)));
    let reserved = |(name, it): (&String, &Reservation)| Record::Reserve {
        id: MemberId::new(vm.id, it.holder),
        name: name.clone(),
        key: Some(it.key),
    };
    records.extend(vm.reserved.iter().map(reserved));
    records.extend(vm.areas.values().map(|area| Record::Area { vm: vm.id, area: area.clone() }));
    if vm.latest_area != LatestArea::default() {
        records.push(Record::LatestArea { vm: vm.id, latest: vm.latest_area });
    }
    if vm.state == VmState::Ending {
        records.push(Record::VmEnding(vm.id));
    }
}

fn snapshot_endpoint(vm: &Vm, endpoint: &Endpoint, records: &mut Vec<Record>) {
    let id = MemberId::new(vm.id, endpoint.address);
    let Endpoint { member, kind, uid, gid, nonce, life, .. } = *endpoint;
    records.push(Record::Bind { id, member, kind, uid, gid, nonce, life });
    records.extend(endpoint.names.iter().map(|name| Record::Name { id, name: name.clone() }));
    if endpoint.privileges != vm.spec.privileges {
        records.push(Record::Priv { id, privileges: endpoint.privileges.clone() });
    }
}

fn requested_links(vm: &Vm, endpoint: &Endpoint) -> Vec<Record> {
    let requester = MemberId::new(vm.id, endpoint.address);
    let requested = endpoint.links.peers().filter(|(_, entry)| entry.pays);
    let record = |(peer, entry): (Address, LinkEntry)| {
        let there = vm.living(peer)?.links.get(endpoint.address)?;
        let (requester_index, peer_index) = (entry.index, there.index);
        Some(Record::Link { requester, requester_index, peer, peer_index })
    };
    requested.filter_map(record).collect()
}
