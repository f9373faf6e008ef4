//! The endpoint of a thread (tbind), in thread-local memory.
//!
//! Only the thread itself uses the endpoint, so a flag suffices against a call inside a signal
//! handler. After a fork the child has a copy of the memory but no binding: it leaks the copy, as
//! the mappings of the member are not mapped in the child.
//!
//! # Safety
//! The pointer in `OWN` is null or comes from `Box::into_raw`. Only this thread accesses it, and
//! [`drop_own`] alone frees it, after it left `OWN`. `KNOWN` is null before it leaves.
#![allow(unsafe_code)]

use super::fork_page;
use crate::failure::CallResult;
use crate::member::CallingMember;
use core::cell::Cell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};
use m3ipc::Code;

/// True once any thread has had an endpoint of its own: spares other programs the lookup.
static ANY_THREAD: AtomicBool = AtomicBool::new(false);

struct ThreadMember {
    /// The fork generation of the bind.
    generation: u32,
    /// A guard exists.
    busy: bool,
    member: CallingMember,
}

/// The thread-local pointer. Its destructor unbinds the endpoint when the thread ends.
struct OwnPointer(Cell<*mut ThreadMember>);

impl Drop for OwnPointer {
    fn drop(&mut self) {
        KNOWN.set(null_mut());
        drop_own(self.0.replace(null_mut()));
    }
}

thread_local! {
    static OWN: OwnPointer = const { OwnPointer(Cell::new(null_mut())) };
    /// The pointer in `OWN`. Without a destructor, so that a look-up checks no state of it.
    static KNOWN: Cell<*mut ThreadMember> = const { Cell::new(null_mut()) };
}

/// The right to use the member of the thread for one call.
pub(super) struct ThreadGuard(*mut ThreadMember);

impl ThreadGuard {
    #[inline]
    pub(super) fn member(&mut self) -> &mut CallingMember {
        // SAFETY: the pointer is live, because a busy member stays in `OWN`. `busy` excludes a
        // second guard, and `&mut self` bounds the reference.
        unsafe { &mut (*self.0).member }
    }

    /// Drops the member.
    pub(super) fn unbind(self) {
        core::mem::forget(self);
        drop_own(take_own());
    }
}

impl Drop for ThreadGuard {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as for `member`; the reference of `member` has ended.
        unsafe { (*self.0).busy = false };
    }
}

/// The guard, if the calling thread has an endpoint of its own.
///
/// # Errors
/// -106 if this call interrupts another call of the thread.
#[inline]
pub(super) fn acquire() -> CallResult<Option<ThreadGuard>> {
    if ANY_THREAD.load(Ordering::Relaxed) { acquire_slow() } else { Ok(None) }
}

fn acquire_slow() -> CallResult<Option<ThreadGuard>> {
    let own = OWN.try_with(|own| own.0.get()).unwrap_or(null_mut());
    if own.is_null() {
        return Ok(None);
    }
    // SAFETY: the pointer is live. The fields are read by value, so a guard that exists keeps its
    // exclusive reference to `member`.
    let (generation, busy) = unsafe { ((*own).generation, (*own).busy) };
    if generation != fork_page::generation() {
        drop_own(take_own());
        return Ok(None);
    }
    if busy {
        return Err(Code::NotReady.into());
    }
    // SAFETY: the pointer is live, and no guard exists.
    unsafe { (*own).busy = true };
    Ok(Some(ThreadGuard(own)))
}

/// The endpoint of the calling thread, for a fast half.
pub(super) enum OwnEndpoint {
    /// The thread has none: the endpoint of the process counts.
    Absent,
    /// The thread has one.
    Idle(ThreadGuard),
    /// This call interrupts another call of the thread, or this process is a child by fork.
    Busy,
}

/// The endpoint of the calling thread. A child by fork has none: not all memory of its parent is
/// there.
#[inline(always)]
pub(super) fn acquire_known() -> OwnEndpoint {
    if !ANY_THREAD.load(Ordering::Relaxed) {
        return OwnEndpoint::Absent;
    }
    let own = KNOWN.get();
    if own.is_null() {
        return OwnEndpoint::Absent;
    }
    // SAFETY: the pointer is live, as it is in `OWN`. The fields are read by value, so a guard that
    // exists keeps its exclusive reference to `member`.
    let (generation, busy) = unsafe { ((*own).generation, (*own).busy) };
    if busy || generation != fork_page::generation() {
        return OwnEndpoint::Busy;
    }
    // SAFETY: the pointer is live, and no guard exists.
    unsafe { (*own).busy = true };
    OwnEndpoint::Idle(ThreadGuard(own))
}

/// Gives the calling thread an endpoint of its own.
pub(super) fn bind(member: CallingMember) -> CallResult<()> {
    // Without the page a child could not tell its generation from that of its parent.
    fork_page::get_or_create()?;
    let own = ThreadMember { generation: fork_page::generation(), busy: false, member };
    let own = Box::into_raw(Box::new(own));
    ANY_THREAD.store(true, Ordering::Relaxed);
    match OWN.try_with(|place| place.0.replace(own)) {
        Ok(former) => {
            KNOWN.set(own);
            drop_own(former);
        }
        // The thread is ending.
        Err(_destroyed) => drop_own(own),
    }
    Ok(())
}

fn take_own() -> *mut ThreadMember {
    KNOWN.set(null_mut());
    OWN.try_with(|own| own.0.replace(null_mut())).unwrap_or(null_mut())
}

/// Drops a member that has left `OWN`. A member from before a fork is the parent's, and leaks.
fn drop_own(own: *mut ThreadMember) {
    if own.is_null() {
        return;
    }
    // SAFETY: the pointer comes from `bind`, and has left `OWN`, so this is its only use.
    let own = unsafe { Box::from_raw(own) };
    if own.generation == fork_page::generation() {
        drop(own);
    } else {
        core::mem::forget(own);
    }
}
