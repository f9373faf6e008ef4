//! The endpoint of the process, in one static slot. A state word in the fork page guards it.
//!
//! | state | slot | thread that may access the slot |
//! |---|---|---|
//! | ABSENT | empty, or left over from the parent | the thread that moves the state to BUSY |
//! | IDLE | a member | the thread that moves the state to BUSY |
//! | BUSY | in use | the thread that moved the state |
//!
//! In a child by fork the state reads ABSENT. The child never drops the member of its parent: the
//! mappings of that member are not mapped in the child, and unmapping would hit other memory.
//!
//! # Safety
//! Only the thread that moved the state to BUSY accesses the slot. Its acquire meets the
//! release that ended BUSY before.
#![allow(unsafe_code)]

use super::fork_page::{self, ForkPage};
use crate::failure::CallResult;
use crate::member::CallingMember;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;
use m3ipc::{Address, Code};
use std::time::Duration;

const ABSENT: u32 = 0;
const IDLE: u32 = 1;
const BUSY: u32 = 2;

/// How often [`bind`] tries to fill the slot, once a millisecond.
const BIND_TRIES: u32 = 1_000;

struct ProcessSlot(UnsafeCell<MaybeUninit<CallingMember>>);

// SAFETY: only the thread that holds the state at BUSY accesses the slot, and a member is Send
// (checked below).
unsafe impl Sync for ProcessSlot {}

const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<CallingMember>();
};

static SLOT: ProcessSlot = ProcessSlot(UnsafeCell::new(MaybeUninit::uninit()));

/// The right to use the member of the process for one call.
pub(super) struct ProcessGuard(&'static ForkPage);

impl ProcessGuard {
    #[inline]
    pub(super) fn member(&mut self) -> &mut CallingMember {
        // SAFETY: this guard holds the state at BUSY after IDLE, so the slot has a member, and no
        // other reference to it exists. `&mut self` bounds the reference.
        unsafe { (*SLOT.0.get()).assume_init_mut() }
    }

    /// Drops the member, and empties the slot.
    pub(super) fn unbind(self) {
        // SAFETY: the slot has a member, and the state ABSENT below marks it as empty.
        drop(unsafe { (*SLOT.0.get()).assume_init_read() });
        // Release: pairs with the acquire in [`bind`].
        self.0.state.store(ABSENT, Ordering::Release);
        core::mem::forget(self);
    }
}

impl Drop for ProcessGuard {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the acquire in [`acquire`]. The exchange fails in a child that was
        // forked inside the call: its state is ABSENT, and stays so.
        let _from = self.0.state.compare_exchange(BUSY, IDLE, Ordering::Release, Ordering::Relaxed);
    }
}

/// The guard, if the process has an endpoint.
///
/// # Errors
/// -106 if another thread is inside a call on the endpoint.
#[inline]
pub(super) fn acquire() -> CallResult<Option<ProcessGuard>> {
    let Some(page) = fork_page::get() else { return Ok(None) };
    match page.state.compare_exchange(IDLE, BUSY, Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => Ok(Some(ProcessGuard(page))),
        Err(ABSENT) => Ok(None),
        Err(_) => Err(Code::NotReady.into()),
    }
}

/// The guard, if the process has an endpoint and no thread is inside a call on it.
#[inline(always)]
pub(super) fn acquire_idle() -> Option<ProcessGuard> {
    let page = fork_page::get()?;
    match page.state.compare_exchange(IDLE, BUSY, Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => Some(ProcessGuard(page)),
        // No guard of this call: its end would release that of another thread.
        Err(_) => None,
    }
}

/// Fills the slot. `release_ended` releases an endpoint in the slot that has ended.
///
/// # Errors
/// -106 if another thread stays inside a call on an ended endpoint for a second.
pub(super) fn bind(member: CallingMember, release_ended: impl Fn()) -> CallResult<()> {
    let page = fork_page::get_or_create()?;
    let (vm, address) = (member.endpoint.vm(), member.endpoint.address());
    for _ in 0..BIND_TRIES {
        // The node has just bound this process, so any endpoint in the slot has ended.
        release_ended();
        if page.state.compare_exchange(ABSENT, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            page.vm.store(vm, Ordering::Relaxed);
            page.address.store(address.0, Ordering::Relaxed);
            // SAFETY: this thread holds the state at BUSY after ABSENT, so the slot is empty.
            unsafe { (*SLOT.0.get()).write(member) };
            page.state.store(IDLE, Ordering::Release);
            return Ok(());
        }
        // A thread is about to leave its call on the ended endpoint.
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Code::NotReady.into())
}

/// VM and address of the endpoint, without a guard.
pub(super) fn address() -> Option<(i32, Address)> {
    let page = fork_page::get()?;
    Some((page.vm.load(Ordering::Relaxed), Address(page.address.load(Ordering::Relaxed))))
}
