//! VMs: start, end, parameters.

use crate::failure::{CallFailure, CallResult};
use crate::memory::{ReadText, WritePtr};
use crate::node::{self, SERVERS};
use crate::records::{VmUsr, life_of, name_of, set_of};
use crate::vm_name::name_bytes;
use crate::{current, parameters, records};
use core::ffi::{c_int, c_uint};
use m3ipc::{Code, NONE, Node, NodeError, NodeInfo, Vm, VmConfig, VmInfo, VmLife};

/// `PROC_NO_PID`: no process; as a VM id, the VM of the caller.
pub(crate) const PROC_NO_PID: c_int = -1;
/// `VM_FREE`.
const VM_FREE: c_int = 1 << 1;
/// `M3_COPY_OPEN` and `M3_COPY_GRANTED`.
const COPY_OPEN: c_uint = 0;
const COPY_GRANTED: c_uint = 1;
const LIVES: [VmLife; 3] = [VmLife::UntilEnded, VmLife::Creator, VmLife::Members];
/// `MAXVMNAME`, with the zero.
const MAXVMNAME: usize = 16;
const DEFAULT_MODE: u32 = 0o750;
const DEFAULT_GRACE_MS: u32 = 1_000;

/// Starts a VM. Reads its parameters from `params`, and writes those in force there.
pub(crate) fn init(params: WritePtr<VmUsr>) -> CallResult {
    start(params, Node::vm_init)
}

/// Joins the VM of these parameters, or starts it. Reads and writes `params` as [`init`] does.
pub(crate) fn open_or_create(params: WritePtr<VmUsr>) -> CallResult {
    start(params, Node::vm_open_or_create)
}

fn start(
    params: WritePtr<VmUsr>,
    by: impl FnOnce(&mut Node, &VmConfig) -> Result<Vm, NodeError>,
) -> CallResult {
    let (mut node, info) = node::find_with_info()?;
    let mut wanted = params.read()?;
    params.check()?;
    parameters::fill_vm(&mut wanted)?;
    let vm = by(&mut node, &config_of(&wanted, &info)?)?;
    params.write(record_of(vm.info(), &info))?;
    Ok(info.nodeid)
}

/// The number of the VM of this name.
pub(crate) fn named(name: ReadText) -> CallResult {
    let mut node = node::find()?;
    let name = name.read(MAXVMNAME - 1)?.map_err(|_too_long| Code::NameSize)?;
    let name = String::from_utf8(name).map_err(|_bytes| Code::Inval)?;
    Ok(node.vm_named(&name)?.id())
}

/// Ends a VM, and returns when its last member has left.
pub(crate) fn end(vmid: c_int) -> CallResult {
    node::find()?.vm_end(vmid)?;
    // If the caller was a member, the node unbound it before the other members.
    current::release_ended();
    Ok(0)
}

/// The parameters of a VM.
pub(crate) fn info(vmid: c_int) -> CallResult<VmUsr> {
    let (mut node, about) = node::find_with_info()?;
    match node.vm(id_of(vmid)?) {
        Ok(vm) if !vm.info().ending => Ok(record_of(vm.info(), &about)),
        Err(error) if error.code() != Code::VmNotRun => Err(error.into()),
        _ => Ok(VmUsr { vm_flags: VM_FREE, ..VmUsr::default() }),
    }
}

/// Prints the VMs of the node to standard error.
pub(crate) fn dump() -> CallResult {
    m3ipc_sys::tell!("  vm name            procs tasks members mode    uid    gid");
    for vm in node::find()?.vms()? {
        let ending = if vm.ending { " ending" } else { "" };
        m3ipc_sys::tell!(
            "{:4} {:15} {:6} {:5} {:7} {:04o} {:6} {:6}{ending}",
            vm.id,
            vm.name,
            vm.procs,
            vm.tasks,
            vm.endpoints,
            vm.mode,
            vm.uid,
            vm.gid,
        );
    }
    Ok(0)
}

/// Resolves a VM id: `PROC_NO_PID` is the VM of the caller.
pub(crate) fn id_of(vmid: c_int) -> CallResult {
    match vmid {
        PROC_NO_PID => current::address().map(|(vm, _)| vm).ok_or(CallFailure::of(Code::BadVmId)),
        vmid => Ok(vmid),
    }
}

/// Checks the parameters that the daemon does not know, and converts the others.
fn config_of(wanted: &VmUsr, node: &NodeInfo) -> CallResult<VmConfig> {
    if !(0..node.vms).contains(&wanted.vm_vmid) {
        let text = format!("VM id {} is not between 0 and {}", wanted.vm_vmid, node.vms - 1);
        return Err(CallFailure::said(Code::BadVmId, text));
    }
    let name = name_bytes(&wanted.vm_name)?;
    let name = String::from_utf8(name).map_err(|error| {
        let text = format!("the VM name {} is no UTF-8", error.as_bytes().escape_ascii());
        CallFailure::said(Code::BadValue, text)
    })?;
    let name = if name.is_empty() { format!("VM{}", wanted.vm_vmid) } else { name };
    let (procs, tasks) = (wanted.vm_nr_procs, wanted.vm_nr_tasks);
    let limits = [
        ("procs", procs, node.procs),
        ("tasks", tasks, node.tasks),
        ("sysprocs", wanted.vm_nr_sysprocs, node.tasks.saturating_add(SERVERS)),
        ("nodes", wanted.vm_nr_nodes, node.nodes),
    ];
    for (name, wanted, limit) in limits {
        if wanted < 0 || wanted > limit {
            let text = format!("{wanted} {name} are not between 0 and {limit}, those of the node");
            return Err(CallFailure::said(Code::BadRange, text));
        }
    }
    let here = set_of(node.nodeid);
    if wanted.vm_nodes != 0 && wanted.vm_nodes & here == 0 {
        let text = format!("vm_nodes {:#x} lacks the local node {}", wanted.vm_nodes, node.nodeid);
        return Err(CallFailure::said(Code::NoVmNode, text));
    }
    // A later release gives this word a meaning.
    if wanted.vm_reserved != 0 {
        return Err(CallFailure::no(Code::BadValue, wanted.vm_reserved, "vm_reserved; give 0"));
    }
    // Two zeros are a record without these fields.
    let names_a_process = wanted.vm_warn2proc != 0 || wanted.vm_warnmsg != 0;
    if wanted.vm_warn2proc != NONE.0 && names_a_process {
        return Err(Code::NoSys.into());
    }
    let mode = if wanted.vm_mode == 0 { DEFAULT_MODE } else { wanted.vm_mode };
    let mode = u16::try_from(mode)
        .map_err(|_| CallFailure::no(Code::BadValue, format_args!("{mode:#o}"), "mode"))?;
    let grace_ms = u32::try_from(wanted.vm_grace_ms)
        .map_err(|_| CallFailure::no(Code::BadValue, wanted.vm_grace_ms, "grace time in ms"))?;
    let grace_ms = if grace_ms == 0 { DEFAULT_GRACE_MS } else { grace_ms };
    let mut config = VmConfig::new(&name).id(wanted.vm_vmid).mode(mode).grace_ms(grace_ms);
    config = match wanted.vm_copy {
        COPY_OPEN => config,
        COPY_GRANTED => config.copy_granted(true),
        copy => return Err(CallFailure::no(Code::BadValue, copy, "vm_copy (0 open, 1 granted)")),
    };
    let life = LIVES.into_iter().find(|life| life_of(*life) == wanted.vm_life);
    config = config
        .life(life.ok_or_else(|| CallFailure::no(Code::BadValue, wanted.vm_life, "vm_life"))?);
    if procs != 0 {
        config = config.procs(procs);
    }
    if tasks != 0 {
        config = config.tasks(tasks);
    }
    Ok(config)
}

/// The parameters in force.
fn record_of(vm: &VmInfo, node: &NodeInfo) -> VmUsr {
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
        vm_pid: vm.creator_pid,
        vm_name: name_of(&vm.name),
        vm_cpumask: records::CpuMask::default(),
        vm_grace_ms: i32::try_from(vm.grace_ms).unwrap_or(i32::MAX),
        vm_mode: u32::from(vm.mode),
        vm_uid: vm.uid,
        vm_gid: vm.gid,
        vm_members: vm.endpoints,
        vm_copy: c_uint::from(vm.copy_granted),
        vm_life: life_of(vm.life),
        vm_reserved: 0,
    }
}
