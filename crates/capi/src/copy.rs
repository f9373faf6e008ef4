//! Copies: vcopy, what is lent with a request, grants.
//!
//! # Safety
//! The memory of C that is copied is passed on as an address and a length, for
//! the kernel to check; records go through [`crate::memory`].
#![allow(unsafe_code)]

use crate::current;
use crate::guard::{Answer, FOREVER, Refused, call, limit};
use crate::memory::{self, Plain};
use core::ffi::{c_int, c_long, c_uint, c_void};
use m3ipc::{
    ANY, Address, Audience, Code, CopySource, CopyTarget, Endpoint, Grant, Loan, Location, Message,
    Rights, SELF,
};

/// `M3_READ` and `M3_WRITE`.
const READ: c_uint = 1;
const WRITE: c_uint = 2;
/// `M3_LOANS_MAX`.
const LOANS_MAX: c_int = 16;

/// `struct m3_loan`: memory that is lent for one call.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct LoanUsr {
    pub base: *mut c_void,
    pub bytes: usize,
    pub rights: c_uint,
}

// SAFETY: an address that is never followed here, and two numbers; padding is not looked at.
unsafe impl Plain for LoanUsr {}

/// `mnx_vcopy`: copies a block between two endpoints.
///
/// # Safety
/// What the caller's side names is memory that nobody else accesses meanwhile; a bad address is -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_vcopy(
    src: c_int,
    saddr: *mut c_void,
    dst: c_int,
    daddr: *mut c_void,
    bytes: c_long,
) -> c_int {
    call(|| vcopy(src, saddr, dst, daddr, bytes, FOREVER))
}

/// `mnx_vcopy_T`: the same with a limit.
///
/// # Safety
/// As [`mnx_vcopy`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn mnx_vcopy_T(
    src: c_int,
    saddr: *mut c_void,
    dst: c_int,
    daddr: *mut c_void,
    bytes: c_long,
    timeout_ms: c_long,
) -> c_int {
    call(|| vcopy(src, saddr, dst, daddr, bytes, timeout_ms))
}

#[inline]
fn vcopy(
    src: c_int,
    saddr: *mut c_void,
    dst: c_int,
    daddr: *mut c_void,
    bytes: c_long,
    timeout_ms: c_long,
) -> Answer {
    let limit = limit(timeout_ms)?;
    current::with(|member| {
        let me = &mut member.endpoint;
        let bytes = usize::try_from(bytes).map_err(|_negative| Code::Range)?;
        let own = |number: c_int| number == SELF.0 || number == me.address().0;
        let at = |address: *mut c_void| Location::At(address.expose_provenance() as u64);
        match (own(src), own(dst)) {
            (true, true) => return Err(Code::Endpoint.into()),
            (true, false) => {
                // SAFETY: the caller vouches for it; where nothing is mapped the kernel says so.
                let from = unsafe { CopySource::from_raw(saddr.cast(), bytes) };
                me.copy_bytes_to(Address(dst), at(daddr), &from, limit)?;
            }
            (false, true) => {
                // SAFETY: as above.
                let mut into = unsafe { CopyTarget::from_raw(daddr.cast(), bytes) };
                me.copy_into_room(Address(src), at(saddr), &mut into, limit)?;
            }
            (false, false) => {
                let (source, destination) = ((Address(src), at(saddr)), (Address(dst), at(daddr)));
                me.copy_between(source, destination, bytes as u64, limit)?;
            }
        }
        Ok(0)
    })
}

/// `m3_copied`: bytes that the last copy of the caller's endpoint has copied.
#[unsafe(no_mangle)]
pub extern "C" fn m3_copied() -> c_long {
    count(Endpoint::copied)
}

/// `m3_copied_total`: bytes that the caller's endpoint has copied in all.
#[unsafe(no_mangle)]
pub extern "C" fn m3_copied_total() -> c_long {
    count(Endpoint::copied_total)
}

fn count(of: impl FnOnce(&Endpoint) -> u64) -> c_long {
    let mut bytes = 0;
    let answer = call(|| {
        current::with(|member| {
            bytes = c_long::try_from(of(&member.endpoint)).unwrap_or(c_long::MAX);
            Ok(0)
        })
    });
    if answer < 0 { c_long::from(answer) } else { bytes }
}

/// `m3_sendrec_lent`: sendrec that lends memory to whoever answers, as long as it lasts.
///
/// # Safety
/// `m` is a message, `loans` are `count` records; the lent memory is not accessed by others meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_sendrec_lent(
    dst: c_int,
    m: *mut Message,
    loans: *const LoanUsr,
    count: c_int,
) -> c_int {
    call(|| sendrec_lent(dst, m, loans, count, FOREVER))
}

/// `m3_sendrec_lent_T`: the same with a limit.
///
/// # Safety
/// As [`m3_sendrec_lent`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_sendrec_lent_T(
    dst: c_int,
    m: *mut Message,
    loans: *const LoanUsr,
    count: c_int,
    timeout_ms: c_long,
) -> c_int {
    call(|| sendrec_lent(dst, m, loans, count, timeout_ms))
}

fn sendrec_lent(
    dst: c_int,
    m: *mut Message,
    loans: *const LoanUsr,
    count: c_int,
    timeout_ms: c_long,
) -> Answer {
    let limit = limit(timeout_ms)?;
    current::with(|member| {
        let message = memory::read(m)?;
        memory::check_write(m)?;
        if !(0..=LOANS_MAX).contains(&count) {
            return Err(Code::Range.into());
        }
        let mut lent = Vec::new();
        for at in 0..usize::try_from(count).unwrap_or(0) {
            lent.push(loan(memory::read(loans.wrapping_add(at))?)?);
        }
        let answer = member.endpoint.sendrec_lent(Address(dst), &message, &lent, limit)?;
        memory::write(m, answer)?;
        Ok(0)
    })
}

fn loan(record: LoanUsr) -> Result<Loan<'static>, Refused> {
    // SAFETY: the caller vouches for it as long as its call lasts, and the loan ends with that.
    let room = unsafe { CopyTarget::from_raw(record.base.cast(), record.bytes) };
    // SAFETY: as above.
    let bytes = unsafe { CopySource::from_raw(record.base.cast_const().cast(), record.bytes) };
    match rights(record.rights)? {
        Rights::Read => Ok(Loan::of_bytes(&bytes)),
        Rights::Write => Ok(Loan::of_room(&room, false)),
        Rights::Both => Ok(Loan::of_room(&room, true)),
    }
}

fn rights(bits: c_uint) -> Result<Rights, Refused> {
    match bits {
        READ => Ok(Rights::Read),
        WRITE => Ok(Rights::Write),
        bits if bits == READ | WRITE => Ok(Rights::Both),
        _ => Err(Code::Inval.into()),
    }
}

/// `m3_grant`: grants memory to an endpoint, or with ANY to all of the VM, until it is revoked.
///
/// # Safety
/// The memory stays, and is accessed by others only as the caller allows for, until the grant is
/// revoked; `grant` is a number that can be written, else -71.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_grant(
    ep: c_int,
    base: *mut c_void,
    bytes: usize,
    allowed: c_uint,
    grant: *mut u64,
) -> c_int {
    call(|| {
        current::with(|member| {
            memory::check_write(grant)?;
            let allowed = rights(allowed)?;
            // SAFETY: the caller vouches for it until it revokes the grant.
            let room: CopyTarget<'static> = unsafe { CopyTarget::from_raw(base.cast(), bytes) };
            let audience = if ep == ANY.0 { Audience::Vm } else { Audience::Only(Address(ep)) };
            let made = member.endpoint.grant_room(audience, &room, allowed)?;
            memory::write(grant, made.to_u64())?;
            Ok(0)
        })
    })
}

/// `m3_revoke`: ends a grant.
#[unsafe(no_mangle)]
pub extern "C" fn m3_revoke(grant: u64) -> c_int {
    call(|| {
        current::with(|member| {
            member.endpoint.revoke(Grant::from_u64(grant))?;
            Ok(0)
        })
    })
}

/// `m3_copy_granted`: copies between the caller's memory and what another endpoint has granted.
///
/// # Safety
/// As [`mnx_vcopy`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_copy_granted(
    ep: c_int,
    grant: u64,
    offset: u64,
    own: *mut c_void,
    bytes: usize,
    what: c_uint,
) -> c_int {
    call(|| {
        let limit = limit(FOREVER)?;
        current::with(|member| {
            let location = Location::Granted(Grant::from_u64(grant), offset);
            match rights(what)? {
                Rights::Read => {
                    // SAFETY: the caller vouches for it; where nothing is mapped the kernel says so.
                    let mut into = unsafe { CopyTarget::from_raw(own.cast(), bytes) };
                    member.endpoint.copy_into_room(Address(ep), location, &mut into, limit)?;
                }
                Rights::Write => {
                    // SAFETY: as above.
                    let from = unsafe { CopySource::from_raw(own.cast(), bytes) };
                    member.endpoint.copy_bytes_to(Address(ep), location, &from, limit)?;
                }
                Rights::Both => return Err(Code::Inval.into()),
            }
            Ok(0)
        })
    })
}
