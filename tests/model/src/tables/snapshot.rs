//! A short journal: the records that make an equal node, history left out.

use super::identity::{MemberId, MemberKind};
use super::journal::Record;
use super::node::Node;
use super::vm::{Endpoint, Vm, VmState};

impl Node {
    /// Records whose replay gives an equal node: to begin a new journal with.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Record> {
        let mut records = vec![Record::Node { nodeid: self.nodeid(), limits: self.limits() }];
        for vm in self.tables.vms.values() {
            snapshot_vm(vm, &mut records);
        }
        records
    }
}

fn snapshot_vm(vm: &Vm, records: &mut Vec<Record>) {
    records.push(Record::VmInit(vm.spec.clone()));
    let dead = vm.latest.iter().filter(|(slot, _)| !vm.slots.contains_key(slot));
    records.extend(dead.map(|(_, address)| Record::Generation(MemberId::new(vm.id, *address))));
    let (threads, processes): (Vec<_>, Vec<_>) =
        vm.slots.values().partition(|endpoint| endpoint.kind == MemberKind::Thread);
    for endpoint in processes.into_iter().chain(threads) {
        snapshot_endpoint(vm, endpoint, records);
    }
    records.extend(vm.slots.values().flat_map(|endpoint| links_asked_for(vm, endpoint)));
    records.extend(vm.areas.values().map(|area| Record::Area { vm: vm.id, area: area.clone() }));
    if vm.state == VmState::Ending {
        records.push(Record::VmEnding(vm.id));
    }
}

fn snapshot_endpoint(vm: &Vm, endpoint: &Endpoint, records: &mut Vec<Record>) {
    let place = MemberId::new(vm.id, endpoint.address);
    let Endpoint { member, kind, uid, gid, .. } = *endpoint;
    records.push(Record::Bind { place, member, kind, uid, gid });
    records.extend(endpoint.names.iter().map(|name| Record::Name { place, name: name.clone() }));
    if endpoint.privileges != vm.spec.privileges {
        records.push(Record::Priv { place, privileges: endpoint.privileges.clone() });
    }
}

fn links_asked_for(vm: &Vm, endpoint: &Endpoint) -> Vec<Record> {
    let asker = MemberId::new(vm.id, endpoint.address);
    let record = |side: super::links::LinkEnd| {
        let there = vm.living(side.address)?.links.get(endpoint.address)?;
        let (asker_index, peer_index) = (side.entry.index, there.index);
        side.entry.pays.then_some(Record::Link {
            asker,
            asker_index,
            peer: side.address,
            peer_index,
        })
    };
    endpoint.links.peers().into_iter().filter_map(record).collect()
}
