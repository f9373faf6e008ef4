//! AnT's six calls, over the same areas and blocks.
//!
//! # Safety
//! Only the names of functions are given to C; addresses are looked up, never followed.
#![allow(unsafe_code)]

use crate::area::{address, detach, keep, kind, m3_block_free};
use crate::current::{self, Member};
use crate::guard::{Refused, call};
use core::ffi::{c_int, c_uint, c_void};
use m3ipc::{AreaConfig, Code, Node};

/// What createica and getmem make room in, in bytes: grown as it is used.
const ICA_BYTES: u64 = 1 << 30;

/// A block of the area that AnT's calls use, or NULL.
fn ica_block(bytes: usize, flags: c_int) -> *mut c_void {
    let mut made = core::ptr::null_mut();
    call(|| {
        current::with(|member| {
            let kind = kind(c_uint::try_from(flags).map_err(|_| Code::Inval)?)?;
            let area = match &member.blocks.ica {
                Some(area) => area.clone(),
                None => {
                    let area = member.endpoint.create_area(&AreaConfig::vm(ICA_BYTES))?;
                    member.blocks.ica.insert(area).clone()
                }
            };
            let block = member.endpoint.allocate(&area, bytes as u64, kind)?;
            keep(member, block, &raw mut made)?;
            Ok(0)
        })
    });
    made
}

/// `createica`: so many bytes of the ICA, short-lived (0) or long-lived (1); NULL where there are none.
#[unsafe(no_mangle)]
pub extern "C" fn createica(size: usize, flag: c_int) -> *mut c_void {
    ica_block(size, flag)
}

/// `deleteica`: gives back what createica gave, or what came with a message.
#[unsafe(no_mangle)]
pub extern "C" fn deleteica(vaddr: *mut c_void) -> c_int {
    m3_block_free(vaddr)
}

/// `attachica`: attaches what lies at this address of a VM; `prot` 1 to read, 2 to write, too.
#[unsafe(no_mangle)]
pub extern "C" fn attachica(vmid: c_int, vaddr: *mut c_void, prot: c_int) -> c_int {
    call(|| {
        current::with(|member| {
            let id = ica_at(member, vmid, address(vaddr))?;
            if !(1..=3).contains(&prot) {
                return Err(Code::Inval.into());
            }
            let area = member.endpoint.attach_area(id)?;
            if prot & 2 != 0 && !area.is_writable() {
                return Err(Code::Perm.into());
            }
            Ok(0)
        })
    })
}

/// `detachica`: the caller has no use for what lies there any more.
#[unsafe(no_mangle)]
pub extern "C" fn detachica(vmid: c_int, vaddr: *mut c_void) -> c_int {
    call(|| {
        current::with(|member| {
            let id = ica_at(member, vmid, address(vaddr))?;
            let area = member.endpoint.attached(id).ok_or(Code::NoNode)?;
            detach(member, &area)
        })
    })
}

fn ica_at(member: &mut Member, vmid: c_int, at: u64) -> Result<u32, Refused> {
    if vmid != member.endpoint.vm() {
        return Err(Code::BadVmId.into());
    }
    let areas = Node::attach()?.areas(vmid)?;
    let inside = areas.iter().find(|area| at >= area.base && at - area.base < area.limit_bytes);
    inside.map(|area| area.area).ok_or_else(|| Code::AddrNotAvail.into())
}

/// `getmem`: memory of the ICA; `op` is 0.
#[unsafe(no_mangle)]
pub extern "C" fn getmem(op: c_int, size: usize, flag: c_int) -> *mut c_void {
    if op == 0 { ica_block(size, flag) } else { core::ptr::null_mut() }
}

/// `freemem`: gives back what getmem gave.
#[unsafe(no_mangle)]
pub extern "C" fn freemem(raddr: *mut c_void) -> c_int {
    m3_block_free(raddr)
}
