//! Chains of waiting: who waits for somebody who waits for somebody.

use m3ipc::EndpointInfo;
use std::collections::{BTreeMap, BTreeSet};

/// Chains of at least two waits of one VM, longest first found, as `29 -> 30 -> 31`;
/// each is shown from its beginning, for whom nobody waits, or from anywhere on a circle.
pub fn chains(members: &[EndpointInfo]) -> Vec<String> {
    let waits: BTreeMap<i32, i32> = members
        .iter()
        .filter(|member| waits_for_one(member))
        .map(|member| (member.address, member.wait.peer))
        .collect();
    let awaited: BTreeSet<i32> = waits.values().copied().collect();
    let mut told = BTreeSet::new();
    let mut chains = Vec::new();
    let beginnings = waits.keys().filter(|address| !awaited.contains(address));
    // What is left after those lies on circles.
    for begin in beginnings.chain(waits.keys()) {
        if told.contains(begin) {
            continue;
        }
        let mut chain = vec![*begin];
        let mut at = *begin;
        let mut circle = false;
        while let Some(next) = waits.get(&at) {
            circle = chain.contains(next);
            chain.push(*next);
            if circle {
                break;
            }
            at = *next;
        }
        told.extend(chain.iter().copied());
        if chain.len() > 2 {
            let parts: Vec<String> = chain.iter().map(|address| name(members, *address)).collect();
            chains.push(format!(
                "{}{}",
                parts.join(" -> "),
                if circle { "  (a circle)" } else { "" }
            ));
        }
    }
    chains
}

/// Whether it waits in a call for one certain other.
fn waits_for_one(member: &EndpointInfo) -> bool {
    let waits = !matches!(member.wait.verb.as_str(), "running" | "absent");
    waits && members_address(member.wait.peer)
}

fn members_address(address: i32) -> bool {
    !m3ipc::Address(address).is_reserved()
}

/// The slot, which says enough within a VM.
fn name(members: &[EndpointInfo], address: i32) -> String {
    let found = members.iter().find(|member| member.address == address);
    let slot = m3ipc::Address(address).slot();
    match found.and_then(|member| member.names.first()) {
        Some(name) => format!("{slot} ({name})"),
        None => slot.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use m3ipc::WaitInfo;

    fn member(address: i32, verb: &str, peer: i32) -> EndpointInfo {
        EndpointInfo {
            vm: 0,
            slot: address,
            address,
            pid: 1,
            tid: 0,
            uid: 0,
            gid: 0,
            names: Vec::new(),
            wait: WaitInfo { verb: verb.to_owned(), peer, for_ns: 1 },
            links: 0,
            sent: 0,
            received: 0,
            slept: 0,
            copies_direct: 0,
            copies_shared: 0,
            copies_served: 0,
            connected: true,
        }
    }

    #[test]
    fn a_chain_is_drawn_once_from_its_beginning() {
        let members = [
            member(3, "receive", m3ipc::ANY.0),
            member(1, "sendrec", 2),
            member(2, "sendrec (taken)", 3),
            member(4, "running", 1),
        ];
        assert_eq!(chains(&members), ["1 -> 2 -> 3"]);
    }

    #[test]
    fn a_circle_is_named() {
        let members = [member(1, "send", 2), member(2, "send", 3), member(3, "send", 1)];
        assert_eq!(chains(&members), ["1 -> 2 -> 3 -> 1  (a circle)"]);
    }

    #[test]
    fn one_wait_alone_is_no_chain() {
        assert!(chains(&[member(1, "sendrec", 2), member(2, "running", 0)]).is_empty());
    }
}
