//! Open or create: the VM of a name, which is made if there is none.

use crate::server::Server;
use crate::state::connection::Deferred;
use crate::tables::{Credentials, VmAccess, VmError, VmSpec, VmState};
use crate::token::Token;
use m3ipc_wire::{VmLife, VmParams};

impl Server {
    /// Gives the caller the VM of this name, if it has these parameters, or makes it. Waits until a
    /// VM of the name that is ending has ended.
    pub(super) fn vm_open(&mut self, token: Token, cred: &Credentials, params: VmParams) {
        if let Ok(id) = self.node.vm_by_name(&params.name) {
            self.see_deaths_of(id);
        }
        let Ok(id) = self.node.vm_by_name(&params.name) else {
            return self.vm_init(token, cred, params);
        };
        let checked = self.node.vm(id).and_then(|vm| {
            let owner = vm.spec().owner_uid;
            // Root too: a user that takes a name first must not get a service of root into its VM.
            if cred.uid != owner {
                let name = params.name.clone();
                return Err(match vm.spec().allows(cred, VmAccess::See) {
                    true => VmError::Foreign { name, owner },
                    false => VmError::ForeignHidden(name),
                });
            }
            match vm.state() {
                VmState::Ending => Ok(VmState::Ending),
                VmState::Running => same_parameters(vm.spec(), &params).map(|()| VmState::Running),
            }
        });
        match checked {
            Ok(VmState::Running) => self.vm_info(token, &Credentials::administrator(0), id),
            Ok(VmState::Ending) => {
                if let Some(connection) = self.connections.get_mut(token) {
                    connection.vm_to_open = Some(params);
                }
                self.defer(token, Deferred::VmOpen(id));
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    /// Serves the callers that waited for the end of a VM to have its name.
    pub(crate) fn open_again(&mut self, vm: i32) {
        for token in self.connections.deferred_until(Deferred::VmOpen(vm)) {
            let Some(connection) = self.connections.get_mut(token) else { continue };
            connection.deferred = None;
            let cred = connection.cred.clone();
            let Some(params) = connection.vm_to_open.take() else { continue };
            let request = m3ipc_wire::Request::VmOpen(params);
            if self.reserve_record(token, &request)
                && let m3ipc_wire::Request::VmOpen(params) = request
            {
                self.vm_open(token, &cred, params);
            }
        }
    }
}

/// Compares a VM with the parameters that a caller wants. A parameter that the caller leaves to the
/// daemon fits every VM.
fn same_parameters(spec: &VmSpec, wanted: &VmParams) -> Result<(), VmError> {
    let number = |wanted: Option<i32>, found: i32| {
        wanted
            .filter(|wanted| *wanted != found)
            .map(|wanted| (found.to_string(), wanted.to_string()))
    };
    let mode = (spec.mode.0 != wanted.mode)
        .then(|| (format!("{:03o}", spec.mode.0), format!("{:03o}", wanted.mode)));
    let group = wanted.gid.filter(|gid| *gid != spec.owner_gid);
    let group = group.map(|gid| (spec.owner_gid.to_string(), gid.to_string()));
    let text = |is_same: bool, found: String, wanted: String| (!is_same).then_some((found, wanted));
    let differences = [
        ("id", wanted.id.and_then(|id| number(Some(id), spec.id.unwrap_or(id)))),
        ("process slots", number(wanted.procs, spec.limits.procs)),
        ("task slots", number(wanted.tasks, spec.limits.tasks)),
        ("mode", mode),
        ("group", group),
        (
            "grace time",
            text(
                spec.grace_ms == wanted.grace_ms,
                format!("{} ms", spec.grace_ms),
                format!("{} ms", wanted.grace_ms),
            ),
        ),
        (
            "copies",
            text(
                spec.copy_granted == wanted.copy_granted,
                copies(spec.copy_granted).to_owned(),
                copies(wanted.copy_granted).to_owned(),
            ),
        ),
        (
            "an end",
            text(spec.life == wanted.life, end(spec.life).to_owned(), end(wanted.life).to_owned()),
        ),
        (
            "domains",
            text(
                spec.domains == wanted.domains,
                format!("{:?}", spec.domains),
                format!("{:?}", wanted.domains),
            ),
        ),
        (
            "users of domains",
            text(
                spec.domain_users == wanted.domain_users,
                format!("{:?}", spec.domain_users),
                format!("{:?}", wanted.domain_users),
            ),
        ),
    ];
    let first = differences.into_iter().find_map(|(parameter, difference)| {
        let (found, wanted) = difference?;
        Some(VmError::Differs { name: spec.name.clone(), parameter, found, wanted })
    });
    first.map_or(Ok(()), Err)
}

const fn copies(granted: bool) -> &'static str {
    if granted { "of granted memory" } else { "of all memory" }
}

const fn end(life: VmLife) -> &'static str {
    match life {
        VmLife::UntilEnded => "by request alone",
        VmLife::Creator => "with its creator",
        VmLife::Members => "with its last member",
    }
}
