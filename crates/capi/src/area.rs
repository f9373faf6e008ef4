//! Areas, and the blocks that are allocated in them.
//!
//! A block is known to C by its address, which is the same in every process. The library keeps
//! the value that stands for it until it is sent or freed.
//!
//! # Safety
//! Only records of C are read and written here, through [`crate::memory`]; addresses of
//! blocks are looked up, never followed.
#![allow(unsafe_code)]

use crate::current::{self, Member};
use crate::guard::{Answer, Refused, call};
use crate::memory;
use core::ffi::{c_int, c_uint, c_void};
use m3ipc::{ANY, Address, Area, AreaConfig, AreaError, Block, BlockLifetime, Code, Pages};
use std::collections::HashMap;

/// `M3_AREA_OWNER_WRITES`, `M3_AREA_HUGE`, `M3_AREA_PREFAULT`, `M3_AREA_TRANSPARENT`.
const OWNER_WRITES: c_uint = 1;
const HUGE: c_uint = 2;
const PREFAULT: c_uint = 4;
const TRANSPARENT: c_uint = 8;
/// `M3_BLOCK_LONG` and `ICA_LONG`.
const LONG: c_uint = 1;
/// `M3_AREA_SET_MAX`.
const SET_MAX: c_int = 255;

/// What a member has of areas.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) by_address: HashMap<u64, Block>,
    /// The area of createica and getmem.
    pub(crate) ica: Option<Area>,
}

impl From<AreaError> for Refused {
    fn from(error: AreaError) -> Self {
        Self(error.code)
    }
}

pub(crate) fn address(block: *mut c_void) -> u64 {
    block.expose_provenance() as u64
}

pub(crate) fn kind(flags: c_uint) -> Result<BlockLifetime, Refused> {
    match flags {
        0 => Ok(BlockLifetime::Short),
        LONG => Ok(BlockLifetime::Long),
        _ => Err(Code::Inval.into()),
    }
}

/// Keeps a block, and tells C where it is.
pub(crate) fn keep(member: &mut Member, block: Block, to: *mut *mut c_void) -> Result<(), Refused> {
    let at = block.address();
    let pointer = core::ptr::with_exposed_provenance_mut(usize::try_from(at).unwrap_or(0));
    memory::write(to, pointer)?;
    member.blocks.by_address.insert(at, block);
    Ok(())
}

fn area(member: &Member, id: c_int) -> Result<Area, Refused> {
    let known = u32::try_from(id).ok().and_then(|id| member.endpoint.attached(id));
    known.ok_or_else(|| Code::NoNode.into())
}

/// `m3_area_create`: makes an area for the VM (ANY) or for the caller and one other.
#[unsafe(no_mangle)]
pub extern "C" fn m3_area_create(limit_bytes: u64, audience: c_int, flags: c_uint) -> c_int {
    call(|| {
        let config = match audience {
            everybody if everybody == ANY.0 => AreaConfig::vm(limit_bytes),
            one => AreaConfig::pair(limit_bytes, Address(one)),
        };
        current::with(|member| create(member, config, flags))
    })
}

/// `m3_area_create_set`: makes an area for the caller and these.
///
/// # Safety
/// `others` can be read for `count` endpoints, else -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_area_create_set(
    limit_bytes: u64,
    others: *const c_int,
    count: c_int,
    flags: c_uint,
) -> c_int {
    call(|| {
        if !(1..=SET_MAX).contains(&count) {
            return Err(Code::Inval.into());
        }
        let others: Result<Vec<Address>, Refused> = (0..usize::try_from(count).unwrap_or(0))
            .map(|at| memory::read(others.wrapping_add(at)).map(Address))
            .collect();
        let config = AreaConfig::set(limit_bytes, &others?);
        current::with(|member| create(member, config, flags))
    })
}

fn create(member: &mut Member, mut config: AreaConfig, flags: c_uint) -> Answer {
    if flags & !(OWNER_WRITES | HUGE | PREFAULT | TRANSPARENT) != 0 {
        return Err(Code::Inval.into());
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
    let made = member.endpoint.create_area(&config)?;
    c_int::try_from(made.id()).map_err(|_| Code::NoMem.into())
}

/// `m3_area_attach`: attaches the area of this number.
#[unsafe(no_mangle)]
pub extern "C" fn m3_area_attach(id: c_int) -> c_int {
    call(|| {
        current::with(|member| {
            let id = u32::try_from(id).map_err(|_| Code::NoNode)?;
            member.endpoint.attach_area(id)?;
            Ok(0)
        })
    })
}

/// `m3_area_detach`: leaves it; the caller's blocks in it are freed.
#[unsafe(no_mangle)]
pub extern "C" fn m3_area_detach(id: c_int) -> c_int {
    call(|| current::with(|member| detach(member, &area(member, id)?)))
}

/// `m3_area_renounce`: gives up writing in the area, for ever.
#[unsafe(no_mangle)]
pub extern "C" fn m3_area_renounce(id: c_int) -> c_int {
    call(|| current::with(|member| Ok(area(member, id)?.renounce_writing().map(|()| 0)?)))
}

/// `m3_area_seal`: makes sure that nobody writes in the area ever again.
#[unsafe(no_mangle)]
pub extern "C" fn m3_area_seal(id: c_int) -> c_int {
    call(|| current::with(|member| Ok(area(member, id)?.seal().map(|()| 0)?)))
}

pub(crate) fn detach(member: &mut Member, area: &Area) -> Answer {
    member.blocks.by_address.retain(|_, block| block.area() != area.id());
    member.blocks.ica.take_if(|ica| ica.id() == area.id());
    member.endpoint.detach_area(area)?;
    Ok(0)
}

/// `m3_block_alloc`: allocates a block.
///
/// # Safety
/// `block` can be written, else -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_block_alloc(
    id: c_int,
    bytes: usize,
    flags: c_uint,
    block: *mut *mut c_void,
) -> c_int {
    call(|| {
        current::with(|member| {
            memory::check_write(block)?;
            let (area, kind) = (area(member, id)?, kind(flags)?);
            let made = member.endpoint.allocate(&area, bytes as u64, kind)?;
            keep(member, made, block)?;
            Ok(0)
        })
    })
}

/// `m3_block_free`: frees a block that the caller has.
#[unsafe(no_mangle)]
pub extern "C" fn m3_block_free(block: *mut c_void) -> c_int {
    call(|| current::with(|member| free(member, block)))
}

pub(crate) fn free(member: &mut Member, block: *mut c_void) -> Answer {
    match member.blocks.by_address.remove(&address(block)) {
        Some(_freed) => Ok(0),
        None => Err(Code::AddrNotAvail.into()),
    }
}
