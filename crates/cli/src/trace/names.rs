//! Names of the endpoints of the traced VM, also after their end.

use m3ipc::{Address, Node};
use std::collections::HashMap;

/// The name of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointName {
    /// The attached name, or the slot.
    pub name: String,
    /// The process.
    pub pid: i32,
}

/// The names of all endpoints that the node has listed since the start.
#[derive(Debug, Default)]
pub struct EndpointNames(HashMap<i32, EndpointName>);

impl EndpointNames {
    /// Reads the endpoints of the VM. Without permission, addresses stand in for names.
    pub fn refresh(&mut self, node: &mut Node, vm: i32) {
        for endpoint in node.endpoints(vm).unwrap_or_default() {
            let name = endpoint
                .names
                .first()
                .map_or_else(|| format!("slot {}", endpoint.slot), |name| printable(name));
            self.0.insert(endpoint.address, EndpointName { name, pid: endpoint.pid });
        }
    }

    /// Whether the endpoint was ever listed.
    pub fn contains(&self, address: Address) -> bool {
        self.0.contains_key(&address.0)
    }

    /// The name of an endpoint; its address if it was never listed.
    pub fn name(&self, address: Address) -> String {
        self.0.get(&address.0).map_or_else(|| address.to_string(), |named| named.name.clone())
    }

    /// The process of an endpoint; 0 if it was never listed.
    pub fn pid(&self, address: Address) -> i32 {
        self.0.get(&address.0).map_or(0, |named| named.pid)
    }
}

/// A name without the control characters that a terminal would obey.
fn printable(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(printable("a\x1b[2Jb\u{9b}c"), "a?[2Jb?c");
    }

    #[test]
    fn an_unknown_endpoint_is_shown_by_its_address() {
        let names = EndpointNames::default();
        assert_eq!((names.name(Address(29)), names.pid(Address(29))), ("29".to_owned(), 0));
    }
}
