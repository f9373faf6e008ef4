//! Names of services that their first request starts.
//!
//! The supervisor holds such a name with an endpoint of its own, and takes nothing from it. A link
//! at that endpoint is a client. The endpoint then ends, so the client's request was not taken: a
//! client that repeats what was not taken reaches the service.

use super::node::NodeSession;
use crate::log::say;
use crate::policy::Ns;
use m3ipc::{Endpoint, SYSTEM, Source, Vm};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

/// A client may come between the bind of the name and the first wait. The names are looked at
/// again after this time.
const LOOK_NS: Ns = 500_000_000;

/// The names that are held, by service.
#[derive(Default)]
pub(super) struct HeldNames {
    endpoints: BTreeMap<String, Endpoint>,
    /// Names that could not be held. Each look tries again.
    not_held: BTreeMap<String, String>,
    looked_ns: Ns,
}

impl HeldNames {
    /// Holds the name of a service, now or as soon as that can be done.
    ///
    /// # Errors
    /// Why it is not held now.
    pub(super) fn hold(&mut self, service: &str, name: &str, vm: &Vm) -> Result<(), String> {
        match endpoint_with(name, vm) {
            Ok(endpoint) => {
                self.endpoints.insert(service.to_owned(), endpoint);
                self.not_held.remove(service);
                self.looked_ns = 0;
                Ok(())
            }
            Err(why) => {
                self.not_held.insert(service.to_owned(), name.to_owned());
                Err(why)
            }
        }
    }

    /// Ends the endpoint of a name.
    pub(super) fn free(&mut self, service: &str) {
        self.endpoints.remove(service);
        self.not_held.remove(service);
    }

    /// The descriptors that become readable when a client comes.
    pub(super) fn fds(&mut self) -> Vec<BorrowedFd<'_>> {
        self.endpoints.values_mut().filter_map(|endpoint| endpoint.fd().ok()).collect()
    }

    /// When the next look is due.
    pub(super) fn due_ns(&self, now_ns: Ns) -> Option<Ns> {
        let is_idle = self.endpoints.is_empty() && self.not_held.is_empty();
        (!is_idle).then(|| self.looked_ns.saturating_add(LOOK_NS).max(now_ns))
    }

    /// The services whose clients have come.
    pub(super) fn requested(&mut self, node: &mut NodeSession) -> Vec<String> {
        let now_ns = m3ipc_sys::monotonic_ns();
        let is_due = now_ns.saturating_sub(self.looked_ns) >= LOOK_NS;
        if is_due {
            for (service, name) in self.not_held.clone() {
                // The first try has told the reason.
                let _ = self.hold(&service, &name, node.vm());
            }
        }
        let mut found = Vec::new();
        for (service, endpoint) in &mut self.endpoints {
            let mut is_readable = || {
                let fd = endpoint.fd().ok()?;
                m3ipc_sys::wait_readable(&[fd], 0).ok()
            };
            if !is_due && is_readable() != Some(true) {
                continue;
            }
            match node.links(endpoint.address()) {
                Ok(0) => arm(endpoint),
                Ok(_) => found.push(service.clone()),
                Err(why) => say(&format!("{service}: its name is not watched: {why}")),
            }
        }
        if is_due {
            self.looked_ns = now_ns;
        }
        found
    }
}

/// An endpoint of the supervisor with this name, which becomes readable when a client comes.
fn endpoint_with(name: &str, vm: &Vm) -> Result<Endpoint, String> {
    let mut endpoint = vm.bind_additional(None).map_err(|error| error.to_string())?;
    endpoint.name_attach(name).map_err(|error| error.to_string())?;
    endpoint.fd().map_err(|error| error.to_string())?;
    arm(&mut endpoint);
    Ok(endpoint)
}

/// Lets clients make the descriptor readable. Takes nothing: SYSTEM sends nothing here.
fn arm(endpoint: &mut Endpoint) {
    let _ = endpoint.try_receive(Source::From(SYSTEM));
}
