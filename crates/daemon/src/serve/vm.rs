//! VMs: init, end, info, list.

use crate::server::Server;
use crate::state::connection::Deferred;
use crate::tables::{Creator, Credentials, Vm, VmMode, VmSpec, VmState};
use crate::token::Token;
use m3ipc_abi::{Code, VM_NAME_MAX_BYTES, VmLimits};
use m3ipc_wire::{Reply, VM_DOMAINS_MAX, VmInfo, VmLife, VmParams};
use std::collections::{BTreeMap, BTreeSet};

/// The longest grace time, in milliseconds.
const GRACE_MAX_MS: u32 = 600_000;

impl Server {
    pub(super) fn vm_init(&mut self, token: Token, cred: &Credentials, params: VmParams) {
        let spec = match self.spec_of(token, cred, params) {
            Ok(spec) => spec,
            Err((code, why)) => return self.refuse(token, code, why),
        };
        let charges = match spec.life {
            VmLife::Creator => match self.watch_creator(token) {
                Ok(charges) => charges,
                Err(why) => return self.refuse(token, Code::NoMem, why),
            },
            VmLife::UntilEnded | VmLife::Members => Vec::new(),
        };
        match self.node.vm_init(spec, cred) {
            Ok(id) => {
                self.record();
                m3ipc_sys::pause_point("daemon.vm_recorded");
                if !charges.is_empty() {
                    self.deaths.add_creator(id, charges);
                }
                if crate::log::admits(cred.uid) {
                    tracing::info!(vm = id, uid = cred.uid, "VM begun");
                }
                self.vm_info(token, &Credentials::administrator(0), id);
            }
            Err(error) => {
                self.unwatch_unneeded(cred.pid);
                self.refuse(token, error.code(), error);
            }
        }
    }

    /// The specification of a VM with these parameters. The node checks the rest of it.
    fn spec_of(
        &self,
        token: Token,
        cred: &Credentials,
        params: VmParams,
    ) -> Result<VmSpec, (Code, String)> {
        if !self.connections.deferred_until(Deferred::NodeEnd).is_empty() {
            let why = "the node is ending; wait until it has ended, then start it again";
            return Err((Code::DrvsInit, why.to_owned()));
        }
        let limits = self.node.limits();
        let limits = VmLimits {
            procs: params.procs.unwrap_or(limits.procs),
            tasks: params.tasks.unwrap_or(limits.tasks),
        };
        if params.mode > 0o777 || params.grace_ms > GRACE_MAX_MS {
            let why = format!(
                "the mode {:#o} or the grace time {} ms of the VM is out of range; give a mode of \
                 nine bits, and a grace time of at most {GRACE_MAX_MS} ms",
                params.mode, params.grace_ms
            );
            return Err((Code::BadValue, why));
        }
        if let Some(name) =
            params.domain_users.keys().find(|name| !params.domains.contains_key(*name))
        {
            let why = format!("domain {name:?} has a user and no number; give it a number");
            return Err((Code::BadValue, why));
        }
        self.check_domains(&params.domains).map_err(|why| (Code::BadValue, why))?;
        let mut spec = VmSpec::new(params.name, limits, cred);
        (spec.domains, spec.domain_users) = (params.domains, params.domain_users);
        spec.id = params.id;
        spec.mode = VmMode(params.mode);
        spec.copy_granted = params.copy_granted;
        (spec.grace_ms, spec.life) = (params.grace_ms, params.life);
        let started = self.connections.get(token).map_or(0, |connection| connection.started);
        spec.creator = Creator { pid: cred.pid, started };
        if let Some(gid) = params.gid {
            if cred.gid != gid && !cred.groups.contains(&gid) && !cred.owns_all() {
                let why = format!("user {} is not in group {gid}; give a group of it", cred.uid);
                return Err((Code::Perm, why));
            }
            spec.owner_gid = gid;
        }
        Ok(spec)
    }

    pub(super) fn vm_end(&mut self, token: Token, cred: &Credentials, vm: i32) {
        match self.node.begin_end(vm, cred) {
            Ok(ending) => {
                self.record();
                self.defer(token, Deferred::VmEnd(vm));
                self.complete_tickets(&ending.tickets, Code::VmNotRun.number());
                self.end_members(vm, Some(cred.pid));
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    pub(super) fn vm_info(&mut self, token: Token, cred: &Credentials, vm: i32) {
        match self.node.visible_vm(vm, cred).map(|vm| self.info_of(vm)) {
            Ok(info) => self.reply(token, Reply::Vm(info), Vec::new()),
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    pub(super) fn vm_find(&mut self, token: Token, cred: &Credentials, name: &str) {
        match self.node.vm_by_name(name) {
            Ok(vm) => self.vm_info(token, cred, vm),
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    pub(super) fn vm_list(&mut self, token: Token, cred: &Credentials) {
        // Without the names of domains a thousand VMs fit into one packet.
        let short = |vm: &Vm| VmInfo { domains: BTreeMap::new(), ..self.info_of(vm) };
        let list = self.node.visible_vms(cred).map(short).collect();
        self.reply(token, Reply::Vms(list), Vec::new());
    }

    /// Checks the named domains of a VM. A name has 1 to [`VM_NAME_MAX_BYTES`] bytes; each domain
    /// has a number of its own within the network.
    fn check_domains(&self, domains: &BTreeMap<String, u32>) -> Result<(), String> {
        if domains.len() > VM_DOMAINS_MAX {
            return Err(format!("give the VM at most {VM_DOMAINS_MAX} named domains"));
        }
        let last = self.settings.sock_network.last();
        let mut numbers = BTreeSet::new();
        for (name, number) in domains {
            let is_plain = !name.chars().any(char::is_control) && name.parse::<u32>().is_err();
            if name.is_empty() || name.len() > VM_NAME_MAX_BYTES || !is_plain {
                return Err(format!(
                    "no domain can be named {name:?}; give 1 to {VM_NAME_MAX_BYTES} bytes that \
                     are not a number"
                ));
            }
            if *number > last {
                return Err(format!(
                    "domain {name:?} has number {number}; the last number of the network is {last}"
                ));
            }
            if !numbers.insert(*number) {
                return Err(format!(
                    "domain {name:?} has number {number}, as another domain of the VM; give each \
                     its own number"
                ));
            }
        }
        Ok(())
    }

    fn info_of(&self, vm: &Vm) -> VmInfo {
        let spec = vm.spec();
        VmInfo {
            id: vm.id(),
            name: spec.name.clone(),
            uid: spec.owner_uid,
            gid: spec.owner_gid,
            mode: spec.mode.0,
            procs: spec.limits.procs,
            tasks: spec.limits.tasks,
            grace_ms: spec.grace_ms,
            copy_granted: spec.copy_granted,
            endpoints: u32::try_from(vm.endpoint_count()).unwrap_or(u32::MAX),
            ending: vm.state() == VmState::Ending,
            domains: spec.domains.clone(),
            life: spec.life,
            creator_pid: spec.creator.pid,
        }
    }
}
