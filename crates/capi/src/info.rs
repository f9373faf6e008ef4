//! The state of slots, of the last sender, and the texts of codes.

use crate::cpus;
use crate::current;
use crate::failure::{CallFailure, CallResult};
use crate::member::CallingMember;
use crate::node;
use crate::records::{M3Peer, ProcUsr, name_of, set_of};
use crate::vm::{PROC_NO_PID, id_of};
use core::ffi::{CStr, c_int};
use m3ipc::{Address, Code, EndpointInfo, NONE, Node, VmInfo, WaitInfo, WaitState};
use m3ipc_sys::PerProcess;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::AsRawFd;

/// `enum proc_status`.
const SLOT_FREE: u64 = 1 << 0;
const NO_MAP: u64 = 1 << 1;
const SENDING: u64 = 1 << 2;
const RECEIVING: u64 = 1 << 3;
const REMOTE: u64 = 1 << 12;
const WAITUNBIND: u64 = 1 << 17;
const WAITBIND: u64 = 1 << 18;

/// The state of one slot of a VM.
pub(crate) fn slot(vmid: c_int, nr: c_int) -> CallResult<ProcUsr> {
    let (mut node, about) = node::find_with_info()?;
    let vm = running(&mut node, id_of(vmid)?)?;
    if !(-vm.tasks..vm.procs).contains(&nr) {
        let text = format!("slot {nr} is not between {} and {}", -vm.tasks, vm.procs - 1);
        return Err(CallFailure::said(Code::Range, text));
    }
    let Some(endpoint) = node.endpoint(vm.id, nr)? else {
        return Ok(free_record(&vm, nr, about.nodeid));
    };
    if let Some(name) = &endpoint.node {
        let others = node.other_nodes()?.nodes;
        let other = others.iter().find(|other| other.name == *name);
        // It may have been removed just now.
        return other.map_or(Ok(free_record(&vm, nr, about.nodeid)), |other| {
            Ok(remote_record(&endpoint, other.id))
        });
    }
    let is_bound = |address: Address| match node.endpoint(vm.id, address.slot()) {
        Ok(Some(other)) => other.address == address.0,
        _ => false,
    };
    Ok(record_of(&endpoint, about.nodeid, is_bound))
}

/// Prints the bound slots of a VM to standard error.
pub(crate) fn dump(vmid: c_int) -> CallResult {
    let mut node = node::find()?;
    let vm = running(&mut node, id_of(vmid)?)?;
    m3ipc_sys::tell!("VM {} {}: {} bound", vm.id, vm.name, vm.endpoints);
    m3ipc_sys::tell!(
        "  slot   endpoint      pid waits in           for        sent  received names"
    );
    for endpoint in node.endpoints(vm.id)? {
        let EndpointInfo { slot, address, pid, wait, sent, received, names, .. } = endpoint;
        let WaitInfo { state, peer, .. } = wait;
        let (peer, names) = (Address(peer), names.join(" "));
        m3ipc_sys::tell!(
            "{slot:6} {address:10} {pid:8} {state:15} {peer:9} {sent:8} {received:9} {names}"
        );
    }
    Ok(0)
}

/// The VM, if it runs and is not ending.
fn running(node: &mut Node, vmid: c_int) -> CallResult<VmInfo> {
    let vm = node.vm(vmid)?;
    if vm.info().ending { Err(Code::VmNotRun.into()) } else { Ok(vm.info().clone()) }
}

fn free_record(vm: &VmInfo, nr: c_int, nodeid: c_int) -> ProcUsr {
    ProcUsr {
        p_lpid: PROC_NO_PID,
        p_vpid: PROC_NO_PID,
        p_rts_flags: SLOT_FREE,
        ..empty_record(vm.id, nr, nodeid)
    }
}

fn empty_record(vm: c_int, nr: c_int, nodeid: c_int) -> ProcUsr {
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

fn record_of(
    endpoint: &EndpointInfo,
    nodeid: c_int,
    is_bound: impl FnOnce(Address) -> bool,
) -> ProcUsr {
    let pid = if endpoint.tid == 0 { endpoint.pid } else { endpoint.tid };
    let mut slot = ProcUsr {
        p_endpoint: endpoint.address,
        p_lpid: pid,
        p_vpid: namespace_pid(pid).unwrap_or(pid),
        p_lclsent: endpoint.sent,
        p_name: name_of(read_lossy(&format!("/proc/{pid}/comm")).unwrap_or_default().trim_end()),
        p_cpumask: cpus::of_process(pid),
        ..empty_record(endpoint.vm, endpoint.slot, nodeid)
    };
    let peer = endpoint.wait.peer;
    slot.p_rts_flags = match endpoint.wait.state {
        WaitState::Running => 0,
        WaitState::Send => {
            slot.p_sendto = peer;
            SENDING
        }
        // As in Minix, a request that the server has not taken has both bits.
        WaitState::SendRec => {
            (slot.p_sendto, slot.p_getfrom) = (peer, peer);
            SENDING | RECEIVING
        }
        WaitState::Await | WaitState::Receive | WaitState::Rcvrqst => {
            slot.p_getfrom = peer;
            RECEIVING
        }
        // A wait for a bound endpoint is for its end, any other wait for its bind.
        WaitState::Wait if is_bound(Address(peer)) => {
            slot.p_waitunbind = peer;
            WAITUNBIND
        }
        WaitState::Wait => WAITBIND,
        _ => NO_MAP,
    };
    slot
}

/// The proxy of another node: its sender and its receiver are one process.
pub(crate) fn proxy(nodeid: c_int) -> CallResult<ProcUsr> {
    let (mut node, info) = node::find_with_info()?;
    let others = node.other_nodes()?;
    if !others.nodes.iter().any(|other| other.id == nodeid) {
        return Err(CallFailure::no(Code::BadProxy, nodeid, "node that the proxy knows"));
    }
    let pid = others.proxy_pid.ok_or(Code::NoProxy)?;
    Ok(proxy_record(pid, info.nodeid, nodeid))
}

/// The process of the proxy, which has no endpoint of its own.
fn proxy_record(pid: c_int, own: c_int, node: c_int) -> ProcUsr {
    ProcUsr {
        p_lpid: pid,
        p_vpid: namespace_pid(pid).unwrap_or(pid),
        p_nodemap: set_of(node),
        p_proxy: node,
        p_name: name_of(read_lossy(&format!("/proc/{pid}/comm")).unwrap_or_default().trim_end()),
        p_cpumask: cpus::of_process(pid),
        ..empty_record(PROC_NO_PID, NONE.0, own)
    }
}

/// What a stand-in shows of an endpoint of another node.
fn remote_record(endpoint: &EndpointInfo, node: c_int) -> ProcUsr {
    ProcUsr {
        p_endpoint: endpoint.address,
        p_lpid: PROC_NO_PID,
        p_vpid: PROC_NO_PID,
        p_rts_flags: REMOTE,
        p_proxy: node,
        p_rmtsent: endpoint.received,
        ..empty_record(endpoint.vm, endpoint.slot, node)
    }
}

/// A file as text: a process may give itself any name.
fn read_lossy(path: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned())
}

/// The id of a process in its own pid namespace.
fn namespace_pid(pid: c_int) -> Option<c_int> {
    let status = read_lossy(&format!("/proc/{pid}/status"))?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

/// The sender of the last message of the caller's endpoint.
pub(crate) fn peer() -> CallResult<M3Peer> {
    current::with(|member| {
        let latest = member.endpoint.latest_peer().ok_or(Code::NoMsg)?;
        Ok(M3Peer {
            endpoint: latest.address.0,
            vmid: member.endpoint.vm(),
            nodeid: nodeid(member)?,
            pid: latest.pid,
            uid: latest.uid,
            gid: latest.gid,
            reserved: [0; 2],
        })
    })
}

/// The id of the node: asks the daemon once.
fn nodeid(member: &mut CallingMember) -> CallResult {
    if let Some(known) = member.nodeid {
        return Ok(known);
    }
    let (_, info) = node::find_with_info()?;
    member.nodeid = Some(info.nodeid);
    Ok(info.nodeid)
}

/// The descriptor that polls readable when a receive from ANY may have a message.
pub(crate) fn poll_fd() -> CallResult {
    current::with(|member| Ok(member.endpoint.fd()?.as_raw_fd()))
}

/// The meaning of a code, as a static text.
pub(crate) fn text_of(code: c_int) -> &'static CStr {
    static TEXTS: PerProcess<HashMap<c_int, CString>> = PerProcess::new();
    let texts = TEXTS.get_or_make(|| {
        let texts = Code::ALL.iter().map(|code| (code.number(), CString::new(code.text())));
        texts.filter_map(|(number, text)| Some((number, text.ok()?))).collect()
    });
    let other = if code == 0 { c"done" } else { c"no code of m3ipc" };
    texts.get(&code).map_or(other, CString::as_c_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const HEADER: &str = include_str!("../include/m3ipc/codes.h");

    /// Name without prefix, number and comment of a line that defines a code.
    fn defined(line: &'static str) -> Option<(&'static str, i32, &'static str)> {
        let (name, rest) = line.strip_prefix("#define EMOL")?.split_once(char::is_whitespace)?;
        let (number, comment) = rest.trim_start().strip_prefix('(')?.split_once(')')?;
        let text = comment.trim().strip_prefix("/* ")?.strip_suffix(" */")?;
        Some((name, number.parse().ok()?, text))
    }

    #[test]
    fn the_header_has_each_code_with_its_number_and_text() {
        let header: Vec<_> = HEADER.lines().filter_map(defined).collect();
        let codes: Vec<_> =
            Code::ALL.iter().map(|code| (code.name(), code.number(), code.text())).collect();
        assert_eq!(header, codes);
        assert_eq!(HEADER.matches("#define EMOL").count(), codes.len(), "a line of another form");
    }

    #[test]
    fn each_code_has_a_text_of_its_own() {
        let others = [text_of(0), text_of(1)];
        let texts: HashSet<_> =
            Code::ALL.iter().map(|code| text_of(code.number())).chain(others).collect();
        assert_eq!(texts.len(), Code::ALL.len() + others.len());
    }
}
