//! Names of services that only their processes can take, from their first start to their end.
//!
//! Between two processes of a service, another member of the VM could take its name, and get the
//! requests for it.

use crate::log::say;
use m3ipc::Endpoint;
use std::collections::BTreeMap;

/// The reserved names by service, with the keys of their processes.
#[derive(Debug, Default)]
pub(super) struct ReservedNames(BTreeMap<String, (String, u64)>);

impl ReservedNames {
    /// The key for the processes of a service. `None` if its name cannot be reserved: the service
    /// runs all the same.
    pub(super) fn key(&mut self, service: &str, name: &str, own: &mut Endpoint) -> Option<u64> {
        match self.0.get(service) {
            Some((reserved, key)) if reserved == name => return Some(*key),
            Some(_) => self.retain(|other| other != service, own),
            None => {}
        }
        match own.name_reserve(name) {
            Ok(key) => {
                self.0.insert(service.to_owned(), (name.to_owned(), key));
                Some(key)
            }
            Err(error) => {
                say(&format!("{service}: its name is not reserved: {error}"));
                None
            }
        }
    }

    /// Ends the reservations of the other services.
    pub(super) fn retain(&mut self, lives: impl Fn(&str) -> bool, own: &mut Endpoint) {
        self.0.retain(|service, (name, _)| {
            let stays = lives(service);
            // An endpoint that has ended reserves nothing any more.
            if !stays && let Err(error) = own.name_release(name) {
                say(&format!("{service}: its name stays reserved: {error}"));
            }
            stays
        });
    }
}
