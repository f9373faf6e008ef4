//! The functions of `m3ipc/copy.h`.
//!
//! # Safety
//! Pointers follow the rule of [`crate::abi`]. The kernel checks the addresses of copied memory.
#![allow(unsafe_code)]

use crate::copy::{self, CopySide, OwnRole};
use crate::guard::{call, limit};
use crate::memory::{CopyRange, ReadPtr, WritePtr};
use crate::records::M3Loan;
use core::ffi::{c_int, c_long, c_uint, c_void};
use m3ipc::{Address, Endpoint, Message, Timeout};

/// The length of a copy. A negative length, which the call refuses later, counts as 0.
fn length(bytes: c_long) -> usize {
    usize::try_from(bytes).unwrap_or(0)
}

/// `mnx_vcopy`: see `m3ipc/copy.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mnx_vcopy(
    src: c_int,
    saddr: *mut c_void,
    dst: c_int,
    daddr: *mut c_void,
    bytes: c_long,
) -> c_int {
    // SAFETY: C lends the range for this call, if it is the caller's.
    let source = unsafe { CopyRange::new(saddr, length(bytes)) };
    // SAFETY: as for `source`.
    let destination = unsafe { CopyRange::new(daddr, length(bytes)) };
    call(|| {
        let source = CopySide { endpoint: Address(src), range: source };
        let destination = CopySide { endpoint: Address(dst), range: destination };
        copy::vcopy(source, destination, bytes, Timeout::Never)
    })
}

/// `mnx_vcopy_T`: see `m3ipc/copy.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
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
    // SAFETY: C lends the range for this call, if it is the caller's.
    let source = unsafe { CopyRange::new(saddr, length(bytes)) };
    // SAFETY: as for `source`.
    let destination = unsafe { CopyRange::new(daddr, length(bytes)) };
    call(|| {
        let source = CopySide { endpoint: Address(src), range: source };
        let destination = CopySide { endpoint: Address(dst), range: destination };
        copy::vcopy(source, destination, bytes, limit(timeout_ms)?)
    })
}

/// `m3_copied`: see `m3ipc/copy.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_copied() -> c_long {
    call(|| copy::counter(Endpoint::copied))
}

/// `m3_copied_total`: see `m3ipc/copy.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_copied_total() -> c_long {
    call(|| copy::counter(Endpoint::copied_total))
}

/// `m3_sendrec_lent`: see `m3ipc/copy.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_sendrec_lent(
    dst: c_int,
    m: *mut Message,
    loans: *const M3Loan,
    count: c_int,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    // SAFETY: C lends `loans` for this call.
    let loans = unsafe { ReadPtr::new(loans) };
    call(|| {
        // SAFETY: C lends the range of each loan for this call.
        let range = |loan: &M3Loan| unsafe { CopyRange::new(loan.base, loan.bytes) };
        copy::sendrec_lent(Address(dst), m, loans, count, range, Timeout::Never)
    })
}

/// `m3_sendrec_lent_T`: see `m3ipc/copy.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn m3_sendrec_lent_T(
    dst: c_int,
    m: *mut Message,
    loans: *const M3Loan,
    count: c_int,
    timeout_ms: c_long,
) -> c_int {
    // SAFETY: C lends `m` for this call.
    let m = unsafe { WritePtr::new(m) };
    // SAFETY: C lends `loans` for this call.
    let loans = unsafe { ReadPtr::new(loans) };
    call(|| {
        // SAFETY: C lends the range of each loan for this call.
        let range = |loan: &M3Loan| unsafe { CopyRange::new(loan.base, loan.bytes) };
        copy::sendrec_lent(Address(dst), m, loans, count, range, limit(timeout_ms)?)
    })
}

/// `m3_grant`: see `m3ipc/copy.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_grant(
    ep: c_int,
    base: *mut c_void,
    bytes: usize,
    rights: c_uint,
    grant: *mut u64,
) -> c_int {
    // SAFETY: C lends the range until it revokes the grant.
    let range = unsafe { CopyRange::new(base, bytes) };
    // SAFETY: C lends `grant` for this call.
    let grant = unsafe { WritePtr::new(grant) };
    call(|| copy::grant(Address(ep), range, rights, grant))
}

/// `m3_revoke`: see `m3ipc/copy.h`.
#[unsafe(no_mangle)]
pub extern "C" fn m3_revoke(grant: u64) -> c_int {
    call(|| copy::revoke(grant))
}

/// `m3_copy_granted`: see `m3ipc/copy.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_copy_granted(
    ep: c_int,
    grant: u64,
    offset: u64,
    own: *mut c_void,
    bytes: usize,
    direction: c_uint,
) -> c_int {
    // SAFETY: C lends `bytes` bytes at `own` for this call.
    let own = unsafe { CopyRange::new(own, bytes) };
    call(|| copy::copy_granted(Address(ep), grant, offset, own, direction))
}

/// `m3_msg_read`: see `m3ipc/copy.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_msg_read(
    client: c_int,
    offset: u64,
    own: *mut c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: C lends `bytes` bytes at `own` for this call.
    let own = unsafe { CopyRange::new(own, bytes) };
    call(|| copy::copy_lent(Address(client), offset, own, OwnRole::Target))
}

/// `m3_msg_write`: see `m3ipc/copy.h`.
///
/// # Safety
/// Pointers follow the rule of [`crate::abi`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn m3_msg_write(
    client: c_int,
    offset: u64,
    own: *const c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: C lends `bytes` bytes at `own` for this call, which only reads them.
    let own = unsafe { CopyRange::new(own.cast_mut(), bytes) };
    call(|| copy::copy_lent(Address(client), offset, own, OwnRole::Source))
}
