//! Who is who in the VM that is traced, also after they have gone.

use m3ipc::{Address, Node};
use std::collections::HashMap;

/// An endpoint as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name, or its slot.
    pub name: String,
    /// Its process.
    pub pid: i32,
}

/// Everybody who was ever seen.
#[derive(Debug, Default)]
pub struct Names(HashMap<i32, Named>);

impl Names {
    /// Looks who is there; where the caller may not, numbers have to do.
    pub fn look(&mut self, node: &mut Node, vm: i32) {
        for member in node.endpoints(vm).unwrap_or_default() {
            let name = member
                .names
                .first()
                .map_or_else(|| format!("slot {}", member.slot), |name| shown(name));
            self.0.insert(member.address, Named { name, pid: member.pid });
        }
    }

    /// Whether this endpoint was ever seen.
    pub fn knows(&self, address: Address) -> bool {
        self.0.contains_key(&address.0)
    }

    /// What it is called.
    pub fn name(&self, address: Address) -> String {
        self.0.get(&address.0).map_or_else(|| address.to_string(), |named| named.name.clone())
    }

    /// Its process; 0 where it is not known.
    pub fn pid(&self, address: Address) -> i32 {
        self.0.get(&address.0).map_or(0, |named| named.pid)
    }
}

/// A name without anything that a terminal takes for an order.
fn shown(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_no_orders_to_a_terminal() {
        assert_eq!(shown("a\x1b[2Jb\u{9b}c"), "a?[2Jb?c");
    }

    #[test]
    fn who_is_not_known_is_a_number() {
        let names = Names::default();
        assert_eq!((names.name(Address(29)), names.pid(Address(29))), ("29".to_owned(), 0));
    }
}
