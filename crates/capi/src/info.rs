//! What is known of slots, of the last sender, of codes; and the descriptor to poll.
//!
//! # Safety
//! Pointers of C go through [`crate::memory`] alone.
#![allow(unsafe_code)]

use crate::current::{self, Member};
use crate::guard::{Refused, call};
use crate::records::{CpuMask, M3Peer, ProcUsr, name_of};
use crate::vm::{PROC_NO_PID, id_of, set_of};
use crate::{memory, node};
use core::ffi::{CStr, c_char, c_int};
use m3ipc::{Address, Code, EndpointInfo, NONE, Node, VmInfo, WaitInfo};
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

/// `enum proc_status`.
const SLOT_FREE: u64 = 1 << 0;
const NO_MAP: u64 = 1 << 1;
const SENDING: u64 = 1 << 2;
const RECEIVING: u64 = 1 << 3;
const WAITUNBIND: u64 = 1 << 17;
const WAITBIND: u64 = 1 << 18;

/// `mnx_getprocinfo`: one slot of a VM.
///
/// # Safety
/// `info` is a `proc_usr_t` that nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_getprocinfo(vmid: c_int, nr: c_int, info: *mut ProcUsr) -> c_int {
    call(|| {
        let (mut node, about) = node::reach_with_info()?;
        let vm = running(&mut node, id_of(vmid)?)?;
        if !(-vm.tasks..vm.procs).contains(&nr) {
            return Err(Code::Range.into());
        }
        let shown = match node.endpoint(vm.id, nr)? {
            Some(endpoint) => {
                let lives = |address: Address| match node.endpoint(vm.id, address.slot()) {
                    Ok(Some(other)) => other.address == address.0,
                    _ => false,
                };
                shown(&endpoint, about.nodeid, lives)
            }
            None => free(&vm, nr, about.nodeid),
        };
        memory::write(info, shown)?;
        Ok(0)
    })
}

/// `mnx_proc_dump`: prints the bound slots of a VM to standard error.
#[unsafe(no_mangle)]
pub extern "C" fn mnx_proc_dump(vmid: c_int) -> c_int {
    call(|| {
        let mut node = node::reach()?;
        let vm = running(&mut node, id_of(vmid)?)?;
        eprintln!("VM {} {}: {} bound", vm.id, vm.name, vm.endpoints);
        eprintln!("  slot   endpoint      pid waits in           for        sent  received names");
        for endpoint in node.endpoints(vm.id)? {
            let EndpointInfo { slot, address, pid, wait, sent, received, names, .. } = endpoint;
            let WaitInfo { verb, peer, .. } = wait;
            let (peer, names) = (Address(peer), names.join(" "));
            eprintln!(
                "{slot:6} {address:10} {pid:8} {verb:15} {peer:9} {sent:8} {received:9} {names}"
            );
        }
        Ok(0)
    })
}

/// A VM that is not ending.
fn running(node: &mut Node, vmid: c_int) -> Result<VmInfo, Refused> {
    let vm = node.vm(vmid)?;
    if vm.info().ending { Err(Code::VmNotRun.into()) } else { Ok(vm.info().clone()) }
}

fn free(vm: &VmInfo, nr: c_int, nodeid: c_int) -> ProcUsr {
    ProcUsr {
        p_lpid: PROC_NO_PID,
        p_vpid: PROC_NO_PID,
        p_rts_flags: SLOT_FREE,
        ..blank(vm.id, nr, nodeid)
    }
}

fn blank(vm: c_int, nr: c_int, nodeid: c_int) -> ProcUsr {
    ProcUsr {
        p_nr: nr,
        p_endpoint: NONE.0,
        p_vmid: vm,
        p_nodeid: nodeid,
        p_nodemap: set_of(nodeid),
        p_getfrom: NONE.0,
        p_sendto: NONE.0,
        p_waitmigr: NONE.0,
        p_waitunbind: NONE.0,
        p_proxy: NONE.0,
        ..ProcUsr::default()
    }
}

fn shown(endpoint: &EndpointInfo, nodeid: c_int, lives: impl FnOnce(Address) -> bool) -> ProcUsr {
    let pid = if endpoint.tid == 0 { endpoint.pid } else { endpoint.tid };
    let mut slot = ProcUsr {
        p_endpoint: endpoint.address,
        p_lpid: pid,
        p_vpid: inner_pid(pid).unwrap_or(pid),
        p_lclsent: endpoint.sent,
        p_name: name_of(
            std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end(),
        ),
        p_cpumask: cpus(pid),
        ..blank(endpoint.vm, endpoint.slot, nodeid)
    };
    let peer = endpoint.wait.peer;
    slot.p_rts_flags = match endpoint.wait.verb.as_str() {
        "running" => 0,
        "send" => {
            slot.p_sendto = peer;
            SENDING
        }
        // As in Minix a request that has not been taken does both.
        "sendrec" => {
            (slot.p_sendto, slot.p_getfrom) = (peer, peer);
            SENDING | RECEIVING
        }
        "sendrec (taken)" | "receive" | "rcvrqst" => {
            slot.p_getfrom = peer;
            RECEIVING
        }
        // One waits for who lives to go, and for who does not to come.
        "wait4" if lives(Address(peer)) => {
            slot.p_waitunbind = peer;
            WAITUNBIND
        }
        "wait4" => WAITBIND,
        _ => NO_MAP,
    };
    slot
}

/// The number of a process in its own pid namespace.
fn inner_pid(pid: c_int) -> Option<c_int> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

fn cpus(pid: c_int) -> CpuMask {
    let mut mask = CpuMask::default();
    // SAFETY: the mask is as long as is said, and the kernel writes no further.
    let _ = unsafe { libc::sched_getaffinity(pid, size_of::<CpuMask>(), (&raw mut mask).cast()) };
    mask
}

/// `m3_peer`: who sent what the caller's endpoint took last.
///
/// # Safety
/// `peer` is a `struct m3_peer` that nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_peer(peer: *mut M3Peer) -> c_int {
    call(|| {
        current::with(|member| {
            let latest = member.endpoint.latest_peer().ok_or(Code::NoMsg)?;
            let shown = M3Peer {
                endpoint: latest.address.0,
                vmid: member.endpoint.vm(),
                nodeid: nodeid(member)?,
                pid: latest.pid,
                uid: latest.uid,
                gid: latest.gid,
                reserved: [0; 2],
            };
            memory::write(peer, shown)?;
            Ok(0)
        })
    })
}

fn nodeid(member: &mut Member) -> Result<c_int, Refused> {
    if let Some(known) = member.nodeid {
        return Ok(known);
    }
    let (_, info) = node::reach_with_info()?;
    member.nodeid = Some(info.nodeid);
    Ok(info.nodeid)
}

/// `m3_fd`: a descriptor that polls readable when receive from ANY may have something to take.
#[unsafe(no_mangle)]
pub extern "C" fn m3_fd() -> c_int {
    call(|| current::with(|member| Ok(member.endpoint.fd()?.as_raw_fd())))
}

/// `m3_strerror`: what a code means.
#[unsafe(no_mangle)]
pub extern "C" fn m3_strerror(code: c_int) -> *const c_char {
    static TEXTS: OnceLock<HashMap<c_int, CString>> = OnceLock::new();
    let all = || {
        Code::ALL.iter().map(|code| (code.number(), CString::new(code.text()).unwrap_or_default()))
    };
    let text = TEXTS.get_or_init(|| all().collect()).get(&code);
    let other: &CStr = if code == 0 { c"done" } else { c"no code of m3ipc" };
    text.map_or(other, CString::as_c_str).as_ptr()
}

/// `m3_version`: the release of the library.
#[unsafe(no_mangle)]
pub extern "C" fn m3_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
