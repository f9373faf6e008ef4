//! The file as serde reads it, and the defaults.

use super::{Config, Program, ReadyBy, Spec, WhenNeedsRestart, Wrong, check};
use crate::policy::{Ns, Ping, Policy, Restart};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// The slot of the reincarnation server of Minix.
const SUPERVISOR_SLOT: i32 = 2;

/// A duration as written: a whole number and a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span(Ns);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let written = String::deserialize(from)?;
        read_span(&written).map(Span).ok_or_else(|| {
            D::Error::custom(format!("{written:?} is no duration such as \"20ms\", \"5s\", \"1m\""))
        })
    }
}

fn read_span(written: &str) -> Option<Ns> {
    let digits = written.find(|it: char| !it.is_ascii_digit())?;
    let unit_ns = match written[digits..].trim() {
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60 * 1_000_000_000,
        "h" => 3_600 * 1_000_000_000,
        _ => return None,
    };
    written[..digits].parse::<Ns>().ok()?.checked_mul(unit_ns)
}

/// What starts a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Start {
    #[default]
    Boot,
    Request,
}

/// What ends the VM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum VmLife {
    #[default]
    Kept,
    Supervisor,
}

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct File {
    vm: Spanned<String>,
    #[serde(default)]
    vm_life: VmLife,
    vm_mode: Option<Spanned<String>>,
    #[serde(default)]
    supervisor: Supervisor,
    #[serde(default)]
    service: BTreeMap<String, Spanned<Service>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Supervisor {
    slot: Option<Spanned<i32>>,
    name: Option<Spanned<String>>,
}

/// A table of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Service {
    pub(super) run: Spanned<Vec<String>>,
    pub(super) name: Option<Spanned<String>>,
    pub(super) slot: Option<Spanned<i32>>,
    #[serde(default)]
    pub(super) needs: Vec<Spanned<String>>,
    #[serde(default)]
    when_needs_restart: WhenNeedsRestart,
    #[serde(default)]
    start: Start,
    #[serde(default)]
    ready: ReadyBy,
    #[serde(default)]
    restart: Restart,
    backoff: Option<Span>,
    backoff_max: Option<Span>,
    stable: Option<Span>,
    restarts: Option<u32>,
    within: Option<Span>,
    start_limit: Option<Span>,
    stop_limit: Option<Span>,
    ping: Option<Span>,
    ping_limit: Option<Span>,
    directory: Option<PathBuf>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
}

impl File {
    pub(super) fn into_config(self, folder: &Path) -> Result<Config, Wrong> {
        check::vm_name(&self.vm)?;
        check::services(&self.service)?;
        let slot = self.supervisor.slot.as_ref().map_or(SUPERVISOR_SLOT, |slot| *slot.get_ref());
        check::slots(slot, &self.service)?;
        check::needs(&self.service)?;
        let name = match self.supervisor.name {
            Some(name) => {
                check::name(&name)?;
                name.into_inner()
            }
            None => "supervisor".to_owned(),
        };
        check::names(&name, &self.service)?;
        let mode = check::mode(self.vm_mode.as_ref())?;
        let mut services = BTreeMap::new();
        for (key, service) in self.service {
            let at = service.span().start;
            let spec = service.into_inner().into_spec(&key, at, folder)?;
            services.insert(key, spec);
        }
        Ok(Config {
            vm: self.vm.into_inner(),
            mode,
            vm_ends_with_supervisor: self.vm_life == VmLife::Supervisor,
            slot,
            name,
            services,
        })
    }
}

impl Service {
    fn into_spec(self, key: &str, at: usize, folder: &Path) -> Result<Spec, Wrong> {
        let policy = self.policy(at)?;
        let mut words = self.run.into_inner();
        // A path with a slash is relative to the file, a bare name is searched in PATH.
        if let Some(program) = words.first_mut().filter(|program| program.contains('/')) {
            *program = folder.join(&*program).to_string_lossy().into_owned();
        }
        let directory = folder.join(self.directory.unwrap_or_default());
        let program = Program {
            words,
            directory,
            environment: self.environment,
            slot: self.slot.map(Spanned::into_inner),
            name: self.name.map_or_else(|| key.to_owned(), Spanned::into_inner),
            ready: self.ready,
        };
        let needs = self.needs.into_iter().map(Spanned::into_inner).collect();
        Ok(Spec { program, policy, needs, when_needs_restart: self.when_needs_restart })
    }

    fn policy(&self, at: usize) -> Result<Policy, Wrong> {
        let or =
            |span: Option<Span>, default_ms: Ns| span.map_or(default_ms * 1_000_000, |it| it.0);
        let ping = match (self.ping, self.ping_limit) {
            (Some(every), limit) => {
                Some(Ping { every_ns: every.0.max(1_000_000), limit_ns: or(limit, 3_000) })
            }
            (None, Some(_)) => {
                let what = "ping-limit without ping";
                return Err(Wrong::new(at, what, "add `ping = \"1s\"`, or remove ping-limit"));
            }
            (None, None) => None,
        };
        if ping.is_some() && self.ready == ReadyBy::Start {
            let next = "use ready = \"name\" or \"bind\", which give the endpoint to ping";
            return Err(Wrong::new(at, "ping with ready = \"start\"", next));
        }
        let on_request = self.start == Start::Request;
        if on_request && self.ready != ReadyBy::Name {
            let next = "remove the key ready: the requests come to the name";
            return Err(Wrong::new(at, "start = \"request\" needs ready = \"name\"", next));
        }
        let policy = Policy {
            restart: self.restart,
            on_request,
            backoff_ns: or(self.backoff, 10),
            backoff_max_ns: or(self.backoff_max, 5_000),
            stable_ns: or(self.stable, 10_000),
            restarts_max: self.restarts.unwrap_or(10),
            window_ns: or(self.within, 60_000),
            start_limit_ns: or(self.start_limit, 10_000),
            stop_limit_ns: or(self.stop_limit, 5_000),
            ping,
        };
        let limits = [
            ("start-limit", policy.start_limit_ns),
            ("within", policy.window_ns),
            ("ping-limit", ping.map_or(1, |ping| ping.limit_ns)),
        ];
        match limits.iter().find(|(_, ns)| *ns == 0) {
            Some((key, _)) => {
                Err(Wrong::new(at, format!("{key} is 0"), "write a duration above 0"))
            }
            None => Ok(policy),
        }
    }
}
