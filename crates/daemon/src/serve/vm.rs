//! VMs: init, end, info, list.

use crate::connection::Deferred;
use crate::server::Server;
use m3ipc_abi::{Code, VM_NAME_MAX_BYTES, VmLimits};
use m3ipc_model::tables::{Credentials, VmInfo as Info, VmMode, VmSpec, VmState};
use m3ipc_wire::{Reply, VM_DOMAINS_MAX, VmInfo, VmParams};
use std::collections::{BTreeMap, BTreeSet};

/// The grace time of a VM of before a takeover, in milliseconds.
const GRACE_DEFAULT_MS: u32 = 1_000;
/// The longest grace time, in milliseconds.
const GRACE_MAX_MS: u32 = 600_000;

impl Server {
    pub(super) fn vm_init(&mut self, token: u64, cred: &Credentials, params: VmParams) {
        let limits = self.node.limits();
        let limits = VmLimits {
            procs: params.procs.unwrap_or(limits.procs),
            tasks: params.tasks.unwrap_or(limits.tasks),
        };
        if params.mode > 0o777 || params.grace_ms > GRACE_MAX_MS {
            let why = "the mode has nine bits, the grace time is at most 600,000 ms";
            return self.refuse(token, Code::BadValue, why);
        }
        if let Err(why) = self.check_domains(&params.domains) {
            return self.refuse(token, Code::BadValue, why);
        }
        let mut spec = VmSpec::new(params.name, limits, cred);
        spec.domains = params.domains;
        spec.id = params.id;
        spec.mode = VmMode(params.mode);
        spec.copy_granted = params.copy_granted;
        if let Some(gid) = params.gid {
            if !cred.is_root() && cred.gid != gid && !cred.groups.contains(&gid) {
                let why = format!("user {} is not in group {gid}", cred.uid);
                return self.refuse(token, Code::Perm, why);
            }
            spec.owner_gid = gid;
        }
        match self.node.vm_init(spec, cred) {
            Ok(id) => {
                self.record();
                m3ipc_sys::pause_point("daemon.vm_recorded");
                self.grace_ms.insert(id, params.grace_ms);
                tracing::info!(vm = id, uid = cred.uid, "VM begun");
                self.vm_info(token, &Credentials::new(0, 0, 0), id);
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    pub(super) fn vm_end(&mut self, token: u64, cred: &Credentials, vm: i32) {
        match self.node.begin_end(vm, cred) {
            Ok(ending) => {
                self.record();
                if let Some(connection) = self.connections.get_mut(&token) {
                    connection.waits_for = Some(Deferred::VmEnd(vm));
                }
                self.tell_tickets(&ending.told, Code::VmNotRun.number());
                self.end_members(vm, Some(cred.pid));
            }
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    pub(super) fn vm_info(&mut self, token: u64, cred: &Credentials, vm: i32) {
        match self.node.vm_info(vm, cred) {
            Ok(info) => self.reply(token, Reply::Vm(self.shown_vm(&info)), Vec::new()),
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    pub(super) fn vm_find(&mut self, token: u64, cred: &Credentials, name: &str) {
        match self.node.vm_by_name(name) {
            Ok(vm) => self.vm_info(token, cred, vm),
            Err(error) => self.refuse(token, error.code(), error),
        }
    }

    pub(super) fn vm_list(&mut self, token: u64, cred: &Credentials) {
        // Without the names of domains: a thousand VMs fit into one packet.
        let shown = |info: &Info| VmInfo { domains: BTreeMap::new(), ..self.shown_vm(info) };
        let list = self.node.list(cred).iter().map(shown).collect();
        self.reply(token, Reply::Vms(list), Vec::new());
    }

    /// Whether domains can have these names: each one to [`VM_NAME_MAX_BYTES`] bytes, and a number of its own within the network.
    fn check_domains(&self, domains: &BTreeMap<String, u32>) -> Result<(), String> {
        if domains.len() > VM_DOMAINS_MAX {
            return Err(format!("a VM has {VM_DOMAINS_MAX} domains with names at most"));
        }
        let last = self.settings.sock_network.last();
        let mut numbers = BTreeSet::new();
        for (name, number) in domains {
            let sound = !name.chars().any(char::is_control) && name.parse::<u32>().is_err();
            if name.is_empty() || name.len() > VM_NAME_MAX_BYTES || !sound {
                return Err(format!(
                    "no domain can be named {name:?}: give 1 to {VM_NAME_MAX_BYTES} bytes, and no number"
                ));
            }
            if *number > last {
                return Err(format!(
                    "domain {name:?} is {number}, beyond {last}, the last of the network"
                ));
            }
            if !numbers.insert(*number) {
                return Err(format!("two domains are number {number}; one of them is {name:?}"));
            }
        }
        Ok(())
    }

    fn shown_vm(&self, info: &Info) -> VmInfo {
        VmInfo {
            id: info.id,
            name: info.spec.name.clone(),
            uid: info.spec.owner_uid,
            gid: info.spec.owner_gid,
            mode: info.spec.mode.0,
            procs: info.spec.limits.procs,
            tasks: info.spec.limits.tasks,
            grace_ms: self.grace_ms.get(&info.id).copied().unwrap_or(GRACE_DEFAULT_MS),
            copy_granted: info.spec.copy_granted,
            endpoints: u32::try_from(info.bound).unwrap_or(u32::MAX),
            ending: info.state == VmState::Ending,
            domains: info.spec.domains.clone(),
        }
    }
}
