//! The endpoint of the calling thread: its own (tbind), else that of its process.
//!
//! ```text
//! with ── current thread ── thread.rs   its own endpoint, if it has one
//!      └─ process ───────── process.rs  the endpoint of the process, one call at a time
//!                           fork_page.rs: a page that the kernel zeroes in a child by fork
//! ```
//!
//! A call holds a [`CallGuard`] on the member. Another thread that calls on the same endpoint
//! meanwhile, or a signal handler that interrupts the call, gets -106.

mod fork_page;
mod process;
mod thread;

use crate::failure::{CallFailure, CallResult};
use crate::member::CallingMember;
use m3ipc::{Address, Code, Endpoint, Timeout};
use process::ProcessGuard;
use thread::{OwnEndpoint, ThreadGuard};

/// The right to use a member for one call.
enum CallGuard {
    Process(ProcessGuard),
    Thread(ThreadGuard),
}

impl CallGuard {
    #[inline]
    fn member(&mut self) -> &mut CallingMember {
        match self {
            Self::Process(guard) => guard.member(),
            Self::Thread(guard) => guard.member(),
        }
    }

    /// Unbinds the endpoint.
    fn unbind(self) {
        match self {
            Self::Process(guard) => guard.unbind(),
            Self::Thread(guard) => guard.unbind(),
        }
    }

    /// The guard, if the endpoint is still bound. Otherwise another process unbound the endpoint,
    /// or its VM has ended, and this function releases it.
    #[inline]
    fn if_bound(mut self) -> Option<Self> {
        if self.member().endpoint.is_bound() {
            return Some(self);
        }
        self.unbind();
        None
    }
}

/// Runs `body` with the member of the calling thread.
///
/// # Errors
/// -318 without a node; -310 if neither the thread nor its process is bound; -106 if another
/// thread is inside a call on the endpoint; and the errors of `body`.
#[inline]
pub(crate) fn with<T>(body: impl FnOnce(&mut CallingMember) -> CallResult<T>) -> CallResult<T> {
    let mut guard = match acquire()? {
        Some(guard) => guard,
        None => adopt_binding()?,
    };
    body(guard.member())
}

/// Runs a fast half with the member of the calling thread. `None` if there is no such member that
/// is free now, or if `body` returns `None`: the whole call is left to [`with`].
///
/// The member may have ended. The fast halves of [`m3ipc`] find that out, and do nothing then. In a
/// child by fork no member is free.
#[inline(always)]
pub(crate) fn with_idle<T>(body: impl FnOnce(&mut CallingMember) -> Option<T> + Copy) -> Option<T> {
    match thread::acquire_known() {
        OwnEndpoint::Absent => body(process::acquire_idle()?.member()),
        OwnEndpoint::Idle(mut guard) => body(guard.member()),
        OwnEndpoint::Busy => None,
    }
}

/// The guard of the calling thread, if it or its process is bound.
#[inline]
fn acquire() -> CallResult<Option<CallGuard>> {
    if let Some(guard) = acquire_thread()? {
        return Ok(Some(guard));
    }
    acquire_process()
}

#[inline]
fn acquire_thread() -> CallResult<Option<CallGuard>> {
    Ok(thread::acquire()?.and_then(|guard| CallGuard::Thread(guard).if_bound()))
}

#[inline]
fn acquire_process() -> CallResult<Option<CallGuard>> {
    Ok(process::acquire()?.and_then(|guard| CallGuard::Process(guard).if_bound()))
}

/// Adopts the endpoint that another process bound for this process (lclbind), if there is one.
#[cold]
fn adopt_binding() -> CallResult<CallGuard> {
    match Endpoint::wait_for_bind(Timeout::NoWait) {
        Ok(endpoint) => bind_process(endpoint)?,
        Err(error) if error.code() == Code::TimedOut => return Err(CallFailure::unbound()),
        // Another thread binds the process, or has just adopted the binding.
        Err(error) if error.code() == Code::SlotUsed => {}
        Err(error) => return Err(error.into()),
    }
    acquire()?.ok_or_else(CallFailure::unbound)
}

/// Makes this endpoint the endpoint of the process.
pub(crate) fn bind_process(endpoint: Endpoint) -> CallResult<()> {
    process::bind(CallingMember::new(endpoint), || drop(acquire_process()))
}

/// Makes this endpoint the endpoint of the calling thread.
pub(crate) fn bind_thread(endpoint: Endpoint) -> CallResult<()> {
    drop(acquire_thread());
    thread::bind(CallingMember::new(endpoint))
}

/// Releases the endpoint of the calling thread if it has ended, so that a new bind has room.
pub(crate) fn release_ended() {
    drop(acquire());
}

/// VM and address of the endpoint of the calling thread, also if another thread is inside a call.
pub(crate) fn address() -> Option<(i32, Address)> {
    match acquire() {
        Ok(Some(mut guard)) => {
            let endpoint = &guard.member().endpoint;
            Some((endpoint.vm(), endpoint.address()))
        }
        Ok(None) => None,
        Err(_in_use) => process::address(),
    }
}

/// Unbinds the endpoint of the calling thread, or of its process, if it is this one. Returns
/// `false` if neither is.
///
/// # Errors
/// -106 if another thread is inside a call on the endpoint.
pub(crate) fn unbind(vm: i32, address: Address) -> CallResult<bool> {
    for acquire in [acquire_thread, acquire_process] {
        let Some(mut guard) = acquire()? else { continue };
        let endpoint = &guard.member().endpoint;
        if (endpoint.vm(), endpoint.address()) == (vm, address) {
            guard.unbind();
            return Ok(true);
        }
    }
    Ok(false)
}
