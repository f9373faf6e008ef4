//! Wait chains: endpoints that wait for endpoints that wait.

use m3ipc::EndpointInfo;
use std::collections::{BTreeMap, BTreeSet};

/// The chains of at least two waits in one VM, as `29 -> 30 -> 31`.
///
/// A chain starts at an endpoint for which no other waits. A cycle starts at its lowest address.
pub fn wait_chains(endpoints: &[EndpointInfo]) -> Vec<String> {
    let waits: BTreeMap<i32, i32> = endpoints
        .iter()
        .filter(|endpoint| waits_for_partner(endpoint))
        .map(|endpoint| (endpoint.address, endpoint.wait.peer))
        .collect();
    let awaited: BTreeSet<i32> = waits.values().copied().collect();
    let mut drawn = BTreeSet::new();
    let mut chains = Vec::new();
    let starts = waits.keys().filter(|address| !awaited.contains(address));
    // All waits that no chain has drawn yet belong to cycles.
    for start in starts.chain(waits.keys()) {
        if drawn.contains(start) {
            continue;
        }
        let mut chain = vec![*start];
        let mut at = *start;
        let mut cycle = false;
        while let Some(next) = waits.get(&at) {
            cycle = chain.contains(next);
            chain.push(*next);
            if cycle {
                break;
            }
            at = *next;
        }
        drawn.extend(chain.iter().copied());
        if chain.len() > 2 {
            let parts: Vec<String> =
                chain.iter().map(|address| name(endpoints, *address)).collect();
            chains.push(format!(
                "{}{}",
                parts.join(" -> "),
                if cycle { "  (a cycle)" } else { "" }
            ));
        }
    }
    chains
}

/// Whether the endpoint waits for one partner, not for any.
fn waits_for_partner(endpoint: &EndpointInfo) -> bool {
    endpoint.wait.state.waits() && !m3ipc::Address(endpoint.wait.peer).is_reserved()
}

/// The slot, which is unique within a VM, and the name.
fn name(endpoints: &[EndpointInfo], address: i32) -> String {
    let found = endpoints.iter().find(|endpoint| endpoint.address == address);
    let slot = m3ipc::Address(address).slot();
    match found.and_then(|endpoint| endpoint.names.first()) {
        Some(name) => format!("{slot} ({name})"),
        None => slot.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use m3ipc::{WaitInfo, WaitState};

    fn endpoint(address: i32, state: WaitState, peer: i32) -> EndpointInfo {
        EndpointInfo {
            vm: 0,
            slot: address,
            address,
            pid: 1,
            tid: 0,
            uid: 0,
            gid: 0,
            names: Vec::new(),
            wait: WaitInfo { state, peer, for_ns: 1 },
            links: 0,
            sent: 0,
            received: 0,
            slept: 0,
            copies_direct: 0,
            copies_shared: 0,
            copies_served: 0,
            node: None,
            connected: true,
        }
    }

    #[test]
    fn a_chain_is_drawn_once_from_its_start() {
        let endpoints = [
            endpoint(3, WaitState::Receive, m3ipc::ANY.0),
            endpoint(1, WaitState::SendRec, 2),
            endpoint(2, WaitState::Await, 3),
            endpoint(4, WaitState::Running, 1),
        ];
        assert_eq!(wait_chains(&endpoints), ["1 -> 2 -> 3"]);
    }

    #[test]
    fn a_cycle_is_marked() {
        let endpoints = [
            endpoint(1, WaitState::Send, 2),
            endpoint(2, WaitState::Send, 3),
            endpoint(3, WaitState::Send, 1),
        ];
        assert_eq!(wait_chains(&endpoints), ["1 -> 2 -> 3 -> 1  (a cycle)"]);
    }

    #[test]
    fn a_single_wait_is_not_a_chain() {
        assert!(
            wait_chains(&[endpoint(1, WaitState::SendRec, 2), endpoint(2, WaitState::Running, 0)])
                .is_empty()
        );
    }
}
