//! From the form of a file to its services: the defaults, and what single tables may not say.

use super::check;
use super::form::{File, Service, Span, Start, VmLife};
use super::wrong::Wrong;
use crate::policy::{Ns, Ping, Policy};
use crate::spec::{Config, Program, ReadyBy, Spec};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;

/// The slot of the reincarnation server of Minix.
const SUPERVISOR_SLOT: i32 = 2;

/// The services of a file.
pub(super) fn config_of(form: File, folder: &Path) -> Result<Config, Wrong> {
    check::vm_name(&form.vm)?;
    check::services(&form.service)?;
    let slot = form.supervisor.slot.as_ref().map_or(SUPERVISOR_SLOT, |slot| *slot.get_ref());
    check::slots(slot, &form.service)?;
    check::needs(&form.service)?;
    let name = match form.supervisor.name {
        Some(name) => {
            check::name(&name)?;
            name.into_inner()
        }
        None => "supervisor".to_owned(),
    };
    check::names(&name, &form.service)?;
    let mode = check::mode(form.vm_mode.as_ref())?;
    let mut services = BTreeMap::new();
    for (key, service) in form.service {
        let at = service.span().start;
        let spec = spec_of(service.into_inner(), &key, at, folder)?;
        services.insert(key, spec);
    }
    Ok(Config {
        vm: form.vm.into_inner(),
        mode,
        vm_ends_with_supervisor: form.vm_life == VmLife::Supervisor,
        slot,
        name,
        services,
    })
}

fn spec_of(service: Service, key: &str, at: usize, folder: &Path) -> Result<Spec, Wrong> {
    let policy = policy_of(&service, at)?;
    let mut words = service.run.into_inner();
    // A path with a slash is relative to the file, a bare name is searched in PATH.
    if let Some(program) = words.first_mut().filter(|program| program.contains('/')) {
        *program = folder.join(&*program).to_string_lossy().into_owned();
    }
    let directory = folder.join(service.directory.unwrap_or_default());
    let program = Program {
        words,
        directory,
        environment: service.environment,
        slot: service.slot.map(Spanned::into_inner),
        name: service.name.map_or_else(|| key.to_owned(), Spanned::into_inner),
        ready: service.ready,
    };
    let needs = service.needs.into_iter().map(Spanned::into_inner).collect();
    Ok(Spec { program, policy, needs, when_needs_restart: service.when_needs_restart })
}

fn policy_of(service: &Service, at: usize) -> Result<Policy, Wrong> {
    let or = |span: Option<Span>, default_ms: Ns| span.map_or(default_ms * 1_000_000, |it| it.0);
    let ping = match (service.ping, service.ping_limit) {
        (Some(every), limit) => {
            Some(Ping { every_ns: every.0.max(1_000_000), limit_ns: or(limit, 3_000) })
        }
        (None, Some(_)) => {
            let what = "ping-limit without ping";
            return Err(Wrong::new(at, what, "add `ping = \"1s\"`, or remove ping-limit"));
        }
        (None, None) => None,
    };
    if ping.is_some() && service.ready == ReadyBy::Start {
        let next = "use ready = \"name\" or \"bind\", which give the endpoint to ping";
        return Err(Wrong::new(at, "ping with ready = \"start\"", next));
    }
    let on_request = service.start == Start::Request;
    if on_request && service.ready != ReadyBy::Name {
        let next = "remove the key ready: the requests come to the name";
        return Err(Wrong::new(at, "start = \"request\" needs ready = \"name\"", next));
    }
    let policy = Policy {
        restart: service.restart,
        on_request,
        backoff_ns: or(service.backoff, 10),
        backoff_max_ns: or(service.backoff_max, 5_000),
        stable_ns: or(service.stable, 10_000),
        restarts_max: service.restarts.unwrap_or(10),
        window_ns: or(service.within, 60_000),
        start_limit_ns: or(service.start_limit, 10_000),
        stop_limit_ns: or(service.stop_limit, 5_000),
        ping,
    };
    let limits = [
        ("start-limit", policy.start_limit_ns),
        ("within", policy.window_ns),
        ("ping-limit", ping.map_or(1, |ping| ping.limit_ns)),
    ];
    match limits.iter().find(|(_, ns)| *ns == 0) {
        Some((key, _)) => Err(Wrong::new(at, format!("{key} is 0"), "write a duration above 0")),
        None => Ok(policy),
    }
}
