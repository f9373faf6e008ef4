//! VMs: vm_init, vm_end, getvminfo, vm_dump.
//!
//! # Safety
//! Pointers of C go through [`crate::memory`] alone.
#![allow(unsafe_code)]

use crate::guard::{Refused, call};
use crate::memory;
use crate::node::{self, SERVERS};
use crate::records::{VmUsr, bytes_of, name_of};
use crate::{current, records};
use core::ffi::{c_int, c_uint, c_ulong};
use m3ipc::{Code, NONE, NodeInfo, VmConfig, VmInfo};

/// `PROC_NO_PID`: no process; as a VM, the caller's.
pub(crate) const PROC_NO_PID: c_int = -1;
/// `VM_FREE`.
const VM_FREE: c_int = 1 << 1;
/// `M3_COPY_OPEN` and `M3_COPY_GRANTED`.
const COPY_OPEN: c_uint = 0;
const COPY_GRANTED: c_uint = 1;
const DEFAULT_MODE: u32 = 0o750;
const DEFAULT_GRACE_MS: u32 = 1_000;

/// `mnx_vm_init`: starts a VM.
///
/// # Safety
/// `params` is a `VM_usr_t` that nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_vm_init(params: *mut VmUsr) -> c_int {
    call(|| {
        let (mut node, info) = node::reach_with_info()?;
        let wanted = memory::read(params)?;
        memory::check_write(params)?;
        let vm = node.vm_init(&config_of(&wanted, &info)?)?;
        memory::write(params, shown(vm.info(), &info))?;
        Ok(info.nodeid)
    })
}

/// `mnx_vm_end`: ends a VM, and returns when its last member has left.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_vm_end(vmid: c_int) -> c_int {
    call(|| {
        node::reach()?.vm_end(vmid)?;
        // Where the caller was a member, the node has unbound it before it asked the others to leave.
        drop(current::take());
        Ok(0)
    })
}

/// `mnx_getvminfo`: the parameters of a VM.
///
/// # Safety
/// `info` is a `VM_usr_t` that nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_getvminfo(vmid: c_int, info: *mut VmUsr) -> c_int {
    call(|| {
        let (mut node, about) = node::reach_with_info()?;
        let found = match node.vm(id_of(vmid)?) {
            Ok(vm) if !vm.info().ending => shown(vm.info(), &about),
            Err(error) if error.code != Code::VmNotRun => return Err(error.into()),
            _ => VmUsr { vm_flags: VM_FREE, ..VmUsr::default() },
        };
        memory::write(info, found)?;
        Ok(0)
    })
}

/// `mnx_vm_dump`: prints the VMs of the node to standard error.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_vm_dump() -> c_int {
    call(|| {
        eprintln!("  vm name            procs tasks members mode    uid    gid");
        for vm in node::reach()?.vms()? {
            eprintln!(
                "{:4} {:15} {:6} {:5} {:7} {:04o} {:6} {:6}{}",
                vm.id,
                vm.name,
                vm.procs,
                vm.tasks,
                vm.endpoints,
                vm.mode,
                vm.uid,
                vm.gid,
                if vm.ending { " ending" } else { "" }
            );
        }
        Ok(0)
    })
}

/// The id that is meant: `PROC_NO_PID` is the caller's own VM.
pub(crate) fn id_of(vmid: c_int) -> Result<c_int, Refused> {
    match vmid {
        PROC_NO_PID => current::place().map(|(vm, _)| vm).ok_or(Refused(Code::BadVmId)),
        vmid => Ok(vmid),
    }
}

/// Checks what the node daemon does not know of, and asks it for the rest.
fn config_of(wanted: &VmUsr, node: &NodeInfo) -> Result<VmConfig, Refused> {
    if !(0..node.vms).contains(&wanted.vm_vmid) {
        return Err(Code::BadVmId.into());
    }
    let name = bytes_of(&wanted.vm_name).ok_or(Code::NameSize)?;
    let name = String::from_utf8(name).map_err(|_no_text| Code::BadValue)?;
    let name = if name.is_empty() { format!("VM{}", wanted.vm_vmid) } else { name };
    let (procs, tasks) = (wanted.vm_nr_procs, wanted.vm_nr_tasks);
    let most = [
        (procs, node.procs),
        (tasks, node.tasks),
        (wanted.vm_nr_sysprocs, node.tasks.saturating_add(SERVERS)),
        (wanted.vm_nr_nodes, node.nodes),
    ];
    if most.iter().any(|(wanted, most)| *wanted < 0 || wanted > most) {
        return Err(Code::BadRange.into());
    }
    let here = set_of(node.nodeid);
    if wanted.vm_nodes != 0 && wanted.vm_nodes & here == 0 {
        return Err(Code::NoVmNode.into());
    }
    let mode = if wanted.vm_mode == 0 { DEFAULT_MODE } else { wanted.vm_mode };
    let mode = u16::try_from(mode).map_err(|_too_large| Code::BadValue)?;
    let grace_ms = u32::try_from(wanted.vm_grace_ms).map_err(|_negative| Code::BadValue)?;
    let grace_ms = if grace_ms == 0 { DEFAULT_GRACE_MS } else { grace_ms };
    let mut config = VmConfig::new(&name).id(wanted.vm_vmid).mode(mode).grace_ms(grace_ms);
    config = match wanted.vm_copy {
        COPY_OPEN => config,
        COPY_GRANTED => config.copy_granted(true),
        _ => return Err(Code::BadValue.into()),
    };
    if procs != 0 {
        config = config.procs(procs);
    }
    if tasks != 0 {
        config = config.tasks(tasks);
    }
    Ok(config)
}

/// The values in force.
fn shown(vm: &VmInfo, node: &NodeInfo) -> VmUsr {
    VmUsr {
        vm_vmid: vm.id,
        vm_flags: 0,
        vm_nr_procs: vm.procs,
        vm_nr_tasks: vm.tasks,
        vm_nr_sysprocs: vm.tasks.saturating_add(SERVERS),
        vm_nr_nodes: node.nodes,
        vm_nodes: set_of(node.nodeid),
        vm_warn2proc: NONE.0,
        vm_warnmsg: 0,
        vm_pid: PROC_NO_PID,
        vm_name: name_of(&vm.name),
        vm_cpumask: records::CpuMask::default(),
        vm_grace_ms: i32::try_from(vm.grace_ms).unwrap_or(i32::MAX),
        vm_mode: u32::from(vm.mode),
        vm_uid: vm.uid,
        vm_gid: vm.gid,
        vm_members: vm.endpoints,
        vm_copy: c_uint::from(vm.copy_granted),
        vm_reserved: [0; 2],
    }
}

/// The set with one node in it; empty where its number is none of a set.
pub(crate) fn set_of(nodeid: c_int) -> c_ulong {
    u32::try_from(nodeid).ok().and_then(|bit| c_ulong::checked_shl(1, bit)).unwrap_or(0)
}
