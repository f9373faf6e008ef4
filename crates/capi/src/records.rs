//! The records of `m3ipc/records.h`, field by field.
//!
//! The names are the names of M3-IPC. The later words (dvs, dc) name the same fields in C. Reserved
//! words are 0. Every bit pattern that C passes is a value of each record.
//!
//! # Safety
//! Every field is an integer, an array of integers, an address that is never followed, or padding
//! that is never read.
#![allow(unsafe_code)]

use crate::memory::Plain;
use core::ffi::{c_char, c_int, c_long, c_short, c_uint, c_ulong, c_ushort, c_void};
use core::mem::offset_of;
use m3ipc::VmLife;

/// Size of a name in bytes, with its zero.
pub const NAME_BYTES: usize = 16;

/// A name: bytes, and a zero.
pub type Name = [c_char; NAME_BYTES];

/// A set of CPUs (`m3_cpumask_t`).
pub type CpuMask = [c_ulong; 16];

/// `struct m3_drvs_usr`: parameters of the node.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct DrvsUsr {
    pub d_nr_vms: c_int,
    pub d_nr_nodes: c_int,
    pub d_nr_procs: c_int,
    pub d_nr_tasks: c_int,
    pub d_nr_sysprocs: c_int,
    pub d_max_copybuf: c_int,
    pub d_max_copylen: c_int,
    pub d_dbglvl: c_ulong,
    pub d_version: c_int,
    pub d_subver: c_int,
    pub d_flags: c_ulong,
    pub d_size_proc: c_int,
    pub d_name: Name,
}

/// `struct m3_vm_usr`: parameters of a VM.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct VmUsr {
    pub vm_vmid: c_int,
    pub vm_flags: c_int,
    pub vm_nr_procs: c_int,
    pub vm_nr_tasks: c_int,
    pub vm_nr_sysprocs: c_int,
    pub vm_nr_nodes: c_int,
    pub vm_nodes: c_ulong,
    pub vm_warn2proc: c_int,
    pub vm_warnmsg: c_int,
    pub vm_pid: c_int,
    pub vm_name: Name,
    pub vm_cpumask: CpuMask,
    pub vm_grace_ms: c_int,
    pub vm_mode: c_uint,
    pub vm_uid: c_uint,
    pub vm_gid: c_uint,
    pub vm_members: c_uint,
    pub vm_copy: c_uint,
    pub vm_life: c_uint,
    pub vm_reserved: c_uint,
}

/// `struct m3_proc_usr`: the state of a slot.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct ProcUsr {
    pub p_nr: c_int,
    pub p_endpoint: c_int,
    pub p_vmid: c_int,
    pub p_rts_flags: c_ulong,
    pub p_lpid: c_int,
    pub p_vpid: c_int,
    pub p_nodeid: c_int,
    pub p_nodemap: c_ulong,
    pub p_misc_flags: c_ulong,
    pub p_getfrom: c_int,
    pub p_sendto: c_int,
    pub p_waitmigr: c_int,
    pub p_waitunbind: c_int,
    pub p_proxy: c_int,
    pub p_lclsent: c_ulong,
    pub p_rmtsent: c_ulong,
    pub p_lclcopy: c_ulong,
    pub p_rmtcopy: c_ulong,
    pub p_name: Name,
    pub p_cpumask: CpuMask,
}

/// `struct m3_moltimer`: only keeps its place in [`PrivUsr`].
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Timer {
    pub tmr_next: usize,
    pub tmr_exp_time: c_ulong,
    pub tmr_func: usize,
    pub tmr_arg: c_long,
}

/// `m3_sys_map_t`: a set of partners.
pub type SlotMap = [c_ushort; 8];

/// `struct m3_priv_usr`: privileges of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct PrivUsr {
    pub s_id: c_short,
    pub s_warn: c_int,
    pub s_level: c_int,
    pub s_trap_mask: c_short,
    pub s_ipc_from: SlotMap,
    pub s_ipc_to: SlotMap,
    pub s_call_mask: c_long,
    pub s_alarm_timer: Timer,
}

/// `struct m3_peer`: the sender of a message.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct M3Peer {
    pub endpoint: c_int,
    pub vmid: c_int,
    pub nodeid: c_int,
    pub pid: c_int,
    pub uid: c_uint,
    pub gid: c_uint,
    pub reserved: [c_uint; 2],
}

/// `struct m3_loan`: a range of memory that a request lends.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct M3Loan {
    pub base: *mut c_void,
    pub bytes: usize,
    pub rights: c_uint,
}

/// `struct m3_node_usr`: the state of a node.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct NodeUsr {
    pub n_nodeid: c_int,
    pub n_flags: c_ulong,
    pub n_proxies: c_int,
    pub n_vms: c_ulong,
    pub n_stimestamp: [c_long; 2],
    pub n_rtimestamp: [c_long; 2],
    pub n_pxsent: c_ulong,
    pub n_pxrcvd: c_ulong,
    pub n_name: Name,
}

// SAFETY: integers only.
unsafe impl Plain for NodeUsr {}
// SAFETY: integers only.
unsafe impl Plain for DrvsUsr {}
// SAFETY: integers only.
unsafe impl Plain for VmUsr {}
// SAFETY: integers only.
unsafe impl Plain for ProcUsr {}
// SAFETY: integers only.
unsafe impl Plain for PrivUsr {}
// SAFETY: integers only.
unsafe impl Plain for M3Peer {}
// SAFETY: an address that is never followed here, and integers.
unsafe impl Plain for M3Loan {}

const _: () = {
    assert!(size_of::<DrvsUsr>() == 80);
    assert!(offset_of!(DrvsUsr, d_dbglvl) == 32);
    assert!(offset_of!(DrvsUsr, d_name) == 60);
    assert!(size_of::<VmUsr>() == 224);
    assert!(offset_of!(VmUsr, vm_nodes) == 24);
    assert!(offset_of!(VmUsr, vm_name) == 44);
    assert!(offset_of!(VmUsr, vm_cpumask) == 64);
    assert!(offset_of!(VmUsr, vm_grace_ms) == 192);
    assert!(offset_of!(VmUsr, vm_life) == 216);
    assert!(size_of::<ProcUsr>() == 256);
    assert!(offset_of!(ProcUsr, p_rts_flags) == 16);
    assert!(offset_of!(ProcUsr, p_getfrom) == 56);
    assert!(offset_of!(ProcUsr, p_name) == 112);
    assert!(size_of::<NodeUsr>() == 96);
    assert!(size_of::<PrivUsr>() == 88);
    assert!(offset_of!(PrivUsr, s_ipc_from) == 14);
    assert!(offset_of!(PrivUsr, s_alarm_timer) == 56);
    assert!(size_of::<M3Peer>() == 32);
    assert!(size_of::<M3Loan>() == 24);
};

/// Converts a text to a name of C. A text of more than 15 bytes is cut.
pub(crate) fn name_of(text: &str) -> Name {
    let mut name = [0; NAME_BYTES];
    for (cell, byte) in name.iter_mut().zip(text.bytes()).take(NAME_BYTES - 1) {
        *cell = c_char::from_ne_bytes([byte]);
    }
    name
}

/// The set of one node or VM; empty if its number is above 63.
pub(crate) fn set_of(number: c_int) -> c_ulong {
    u32::try_from(number).ok().and_then(|bit| c_ulong::checked_shl(1, bit)).unwrap_or(0)
}

/// `M3_VM_UNTIL_ENDED`, `M3_VM_WITH_CREATOR` or `M3_VM_WITH_MEMBERS`.
pub(crate) const fn life_of(life: VmLife) -> c_uint {
    match life {
        VmLife::UntilEnded => 0,
        VmLife::Creator => 1,
        VmLife::Members => 2,
    }
}

/// The bytes of a name before its zero; `None` without a zero.
pub(crate) fn bytes_of(name: &Name) -> Option<Vec<u8>> {
    let end = name.iter().position(|byte| *byte == 0)?;
    Some(name[..end].iter().flat_map(|byte| byte.to_ne_bytes()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_and_ends_with_zero() {
        let name = name_of("a name that is too long");
        assert_eq!(bytes_of(&name), Some(b"a name that is ".to_vec()));
        assert_eq!(bytes_of(&[c_char::from_ne_bytes([b'x']); NAME_BYTES]), None);
        assert_eq!(bytes_of(&name_of("")), Some(Vec::new()));
    }
}
