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
    /// The node, if it is another one.
    pub node: Option<String>,
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
            let (pid, node) = (endpoint.pid, endpoint.node);
            self.0.insert(endpoint.address, EndpointName { name, pid, node });
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

    /// The node of an endpoint, if it is another one: this node sees the call up to its proxy.
    pub fn node(&self, address: Address) -> Option<&str> {
        self.0.get(&address.0)?.node.as_deref()
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
        let address = Address(29);
        assert_eq!((names.name(address), names.pid(address)), ("29".to_owned(), 0));
        assert_eq!(names.node(address), None);
    }
}
