//! Areas, and the blocks that a program allocates in them; also by AnT's six calls.

use crate::block::pointer_to;
use crate::current;
use crate::failure::{CallFailure, CallResult};
use crate::member::CallingMember;
use crate::memory::{ReadPtr, WritePtr};
use core::ffi::{c_int, c_uint, c_void};
use m3ipc::{ANY, Address, Area, AreaConfig, BlockLifetime, Code, Node, Pages};

/// `M3_AREA_OWNER_WRITES`, `M3_AREA_HUGE`, `M3_AREA_PREFAULT`, `M3_AREA_TRANSPARENT`.
const OWNER_WRITES: c_uint = 1;
const HUGE: c_uint = 2;
const PREFAULT: c_uint = 4;
const TRANSPARENT: c_uint = 8;
/// `M3_BLOCK_LONG` and `ICA_LONG`.
const LONG: c_uint = 1;
/// `M3_AREA_SET_MAX`.
const SET_MAX: usize = 255;
/// The limit of the area of createica and getmem. The area grows with its use.
const ICA_BYTES: u64 = 1 << 30;

pub(crate) fn create(limit_bytes: u64, audience: c_int, flags: c_uint) -> CallResult {
    let config = match Address(audience) {
        ANY => AreaConfig::vm(limit_bytes),
        other => AreaConfig::pair(limit_bytes, other),
    };
    current::with(|member| create_with(member, config, flags))
}

pub(crate) fn create_set(
    limit_bytes: u64,
    others: ReadPtr<c_int>,
    count: c_int,
    flags: c_uint,
) -> CallResult {
    let count = usize::try_from(count).unwrap_or(0);
    if !(1..=SET_MAX).contains(&count) {
        let text = format!("{count} endpoints are not between 1 and {SET_MAX}");
        return Err(CallFailure::said(Code::Inval, text));
    }
    let others: CallResult<Vec<Address>> =
        (0..count).map(|index| others.read_at(index).map(Address)).collect();
    let config = AreaConfig::set(limit_bytes, &others?);
    current::with(|member| create_with(member, config, flags))
}

fn create_with(member: &mut CallingMember, mut config: AreaConfig, flags: c_uint) -> CallResult {
    if flags & !(OWNER_WRITES | HUGE | PREFAULT | TRANSPARENT) != 0 {
        return Err(CallFailure::no(
            Code::Inval,
            format_args!("{flags:#x}"),
            "set of flags of areas",
        ));
    }
    if flags & OWNER_WRITES != 0 {
        config = config.owner_writes();
    }
    if flags & TRANSPARENT != 0 {
        config = config.pages(Pages::Transparent);
    }
    if flags & HUGE != 0 {
        config = config.pages(Pages::Huge);
    }
    if flags & PREFAULT != 0 {
        config = config.prefault();
    }
    let area = member.endpoint.create_area(&config)?;
    // C has no handle that could be dropped.
    area.keep();
    c_int::try_from(area.id()).map_err(|_too_large| Code::NoMem.into())
}

pub(crate) fn attach(number: c_int) -> CallResult {
    current::with(|member| {
        let id = u32::try_from(number).map_err(|_negative| Code::NoNode)?;
        member.endpoint.attach_area(id)?.keep();
        Ok(0)
    })
}

pub(crate) fn detach(number: c_int) -> CallResult {
    current::with(|member| {
        let area = member.area(number)?;
        leave(member, &area)
    })
}

fn leave(member: &mut CallingMember, area: &Area) -> CallResult {
    member.blocks.drop_area(area);
    member.endpoint.detach_area(area)?;
    Ok(0)
}

pub(crate) fn renounce(number: c_int) -> CallResult {
    current::with(|member| {
        member.area(number)?.renounce_writing()?;
        Ok(0)
    })
}

pub(crate) fn seal(number: c_int) -> CallResult {
    current::with(|member| {
        member.area(number)?.seal()?;
        Ok(0)
    })
}

fn lifetime(flags: c_uint) -> CallResult<BlockLifetime> {
    match flags {
        0 => Ok(BlockLifetime::Short),
        LONG => Ok(BlockLifetime::Long),
        flags => {
            Err(CallFailure::no(Code::Inval, format_args!("{flags:#x}"), "set of flags of blocks"))
        }
    }
}

pub(crate) fn allocate(
    number: c_int,
    bytes: usize,
    flags: c_uint,
    to: WritePtr<*mut c_void>,
) -> CallResult {
    current::with(|member| {
        to.check()?;
        let area = member.area(number)?;
        let block = member.endpoint.allocate(&area, bytes as u64, lifetime(flags)?)?;
        to.write(pointer_to(&block))?;
        member.blocks.insert(block);
        Ok(0)
    })
}

pub(crate) fn free(block: u64) -> CallResult {
    current::with(|member| {
        drop(member.blocks.take(block)?);
        Ok(0)
    })
}

/// Allocates a block in the area of AnT's calls.
pub(crate) fn allocate_ica(bytes: usize, flags: c_int) -> CallResult<*mut c_void> {
    current::with(|member| {
        let lifetime = lifetime(c_uint::try_from(flags).map_err(|_negative| Code::Inval)?)?;
        let area = match &member.blocks.ica {
            Some(area) => area.clone(),
            None => {
                let area = member.endpoint.create_area(&AreaConfig::vm(ICA_BYTES))?;
                member.blocks.ica.insert(area).clone()
            }
        };
        let block = member.endpoint.allocate(&area, bytes as u64, lifetime)?;
        let pointer = pointer_to(&block);
        member.blocks.insert(block);
        Ok(pointer)
    })
}

/// Attaches the area of an address, to read (1), to write (2) or both (3). An area that is attached
/// already stays as it is.
pub(crate) fn attach_ica(vmid: c_int, address: u64, access: c_int) -> CallResult {
    current::with(|member| {
        let id = area_at(member, vmid, address)?;
        if !(1..=3).contains(&access) {
            return Err(CallFailure::no(Code::Inval, access, "access (1 read, 2 write, 3 both)"));
        }
        let before = member.endpoint.attached(id);
        let area = match &before {
            Some(area) => area.clone(),
            None => member.endpoint.attach_area(id)?,
        };
        let granted = match access & 2 {
            0 if before.is_none() && area.is_writable() => area.renounce_writing(),
            0 => Ok(()),
            _ if area.is_writable() => Ok(()),
            _ => return leave_new(member, &area, before.is_none(), Code::Perm.into()),
        };
        if let Err(refused) = granted {
            return leave_new(member, &area, before.is_none(), refused.into());
        }
        area.keep();
        Ok(0)
    })
}

/// Ends a call that fails after its attach: a new area is left again.
fn leave_new(
    member: &mut CallingMember,
    area: &Area,
    is_new: bool,
    failure: CallFailure,
) -> CallResult {
    if is_new {
        let _ = leave(member, area);
    }
    Err(failure)
}

/// Leaves the area of an address.
pub(crate) fn detach_ica(vmid: c_int, address: u64) -> CallResult {
    current::with(|member| {
        let id = area_at(member, vmid, address)?;
        let area = member.endpoint.attached(id).ok_or(Code::NoNode)?;
        leave(member, &area)
    })
}

fn area_at(member: &CallingMember, vmid: c_int, address: u64) -> CallResult<u32> {
    if vmid != member.endpoint.vm() {
        return Err(CallFailure::no(Code::BadVmId, vmid, "id of the VM of the caller"));
    }
    let areas = Node::attach()?.areas(vmid)?;
    let area =
        areas.iter().find(|area| address >= area.base && address - area.base < area.limit_bytes);
    let none = || {
        let text = format!("no area of VM {vmid} contains the address {address:#x}");
        CallFailure::said(Code::AddrNotAvail, text)
    };
    area.map(|area| area.area).ok_or_else(none)
}
