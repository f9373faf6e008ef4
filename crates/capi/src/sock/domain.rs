//! The domain of this process. All its sockets live there.

use super::posix::PosixResult;
use crate::current;
use core::ffi::c_int;
use m3ipc_sockets::{Domain, Errno};
use m3ipc_sys::PerProcess;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Names the VM of a process that is bound in none.
const VM_VARIABLE: &str = "M3_VM";
/// Names, or numbers, the domain that the first socket joins.
const DOMAIN_VARIABLE: &str = "M3_DOMAIN";
/// As a VM: the VM of the process. As a domain: any free one.
const UNSPECIFIED: c_int = -1;

/// The domain of this process.
static DOMAIN: PerProcess<Mutex<Option<Domain>>> = PerProcess::new();

/// Joins a domain by its number.
pub(crate) fn join(vm: c_int, domain: c_int) -> PosixResult {
    let number = match domain {
        UNSPECIFIED => None,
        domain => Some(u32::try_from(domain).map_err(|_negative| Errno::INVAL)?),
    };
    join_by(|directory| Ok(Domain::enter(directory, vm, number)?))
}

/// Joins a domain by its name.
pub(crate) fn join_named(vm: c_int, name: &str) -> PosixResult {
    join_by(|directory| Ok(Domain::join_named(directory, &find_vm(directory, vm)?, name)?))
}

/// The address of a domain by its name.
pub(crate) fn address_of(vm: c_int, name: &str) -> PosixResult<Ipv4Addr> {
    let vm = find_vm(&m3ipc::runtime::directory(), vm)?;
    let number = vm.domain(name).ok_or(Errno::ADDRNOTAVAIL)?;
    Ok(get_or_join()?.address_of(number))
}

/// The domain of this process. A process in no domain joins one now.
pub(crate) fn get_or_join() -> PosixResult<Domain> {
    let mut current = DOMAIN.get().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(domain) = &*current {
        return Ok(domain.clone());
    }
    let directory = m3ipc::runtime::directory();
    let vm = own_vm(&directory)?;
    let joined = match m3ipc_sys::text_variable(DOMAIN_VARIABLE) {
        None => Domain::enter(&directory, vm, None)?,
        Some(wanted) => match wanted.parse() {
            Ok(number) => Domain::enter(&directory, vm, Some(number))?,
            Err(_name) => Domain::join_named(&directory, &find_vm(&directory, vm)?, &wanted)?,
        },
    };
    *current = Some(joined.clone());
    Ok(joined)
}

fn join_by(join: impl FnOnce(&Path) -> PosixResult<Domain>) -> PosixResult {
    let mut current = DOMAIN.get().lock().unwrap_or_else(PoisonError::into_inner);
    if current.is_some() {
        return Err(Errno::ISCONN);
    }
    let joined = join(&m3ipc::runtime::directory())?;
    let number = joined.number();
    *current = Some(joined);
    c_int::try_from(number).map_err(|_too_large| Errno::RANGE)
}

fn find_node(directory: &Path) -> PosixResult<m3ipc::Node> {
    m3ipc::Node::find(directory).map_err(|error| match error {
        m3ipc::NodeError::Untrusted(_) => Errno::PERM,
        _ => Errno::NETDOWN,
    })
}

/// A VM by its id, or the VM of this process for -1.
fn find_vm(directory: &Path, vm: c_int) -> PosixResult<m3ipc::Vm> {
    let id = if vm == UNSPECIFIED { own_vm(directory)? } else { vm };
    let mut node = find_node(directory)?;
    node.vm(id).map_err(|_unknown| Errno::NETDOWN)
}

/// The VM in which this process is bound, else the VM that the environment names.
fn own_vm(directory: &Path) -> PosixResult<i32> {
    if let Some((vm, _)) = current::address() {
        return Ok(vm);
    }
    let name = m3ipc_sys::text_variable(VM_VARIABLE).ok_or(Errno::NETDOWN)?;
    let mut node = find_node(directory)?;
    let by_name = node.vm_named(&name).map(|vm| vm.id());
    by_name.or_else(|unknown| name.parse().map_err(|_| unknown)).map_err(|_| Errno::NETDOWN)
}
