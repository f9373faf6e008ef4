//! The first endpoint of the process in its VM.
//!
//! All endpoints of a process end with its first one. No endpoint of a Python program may end
//! others: objects end in any order, and endpoints move to other nodes. So the first one belongs to
//! no object. It exchanges no messages, never moves, and ends with the last object.

use crate::error::Fault;
use m3ipc::{BindError, Endpoint, Timeout, Vm};
use m3ipc_sys::PerProcess;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The first endpoint, and who uses it.
#[derive(Debug)]
struct First {
    _endpoint: Endpoint,
    number: u64,
    users: usize,
}

/// The first endpoint of the process, and the number of the next one.
#[derive(Debug, Default)]
struct Firsts {
    present: Option<First>,
    next: u64,
}

/// A thread holds the lock also during the request to the daemon that binds or unbinds the first
/// endpoint. So no bind meets an endpoint that is about to end.
static FIRSTS: PerProcess<Mutex<Firsts>> = PerProcess::new();

fn firsts() -> MutexGuard<'static, Firsts> {
    FIRSTS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the first endpoint.
#[derive(Debug)]
pub struct Anchor {
    number: u64,
    /// The fork generation: a child has no share of the endpoint.
    generation: u32,
}

impl Firsts {
    /// One more use of the first endpoint, unless it is this one.
    fn share(&mut self, useless: Option<&Anchor>) -> Option<Anchor> {
        let first = self.present.as_mut()?;
        if useless.is_some_and(|useless| useless.number == first.number) {
            return None;
        }
        first.users += 1;
        Some(Anchor { number: first.number, generation: m3ipc_sys::fork_generation() })
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        if self.generation != m3ipc_sys::fork_generation() {
            return;
        }
        let mut firsts = firsts();
        let Some(first) = firsts.present.as_mut().filter(|it| it.number == self.number) else {
            return;
        };
        first.users -= 1;
        if first.users == 0 {
            firsts.present = None;
        }
    }
}

/// Binds an endpoint of this process, to this slot or to any.
pub fn bind(vm: &Vm, slot: Option<i32>) -> Result<(Endpoint, Anchor), Fault> {
    with(vm, slot, || vm.bind_additional(slot))
}

/// Waits as the backup of this slot, and binds an endpoint there. The process is bound during the
/// wait already: what keeps it from a bind is an error at once, and not when the place is free.
pub fn bind_backup(
    vm: &Vm,
    slot: i32,
    limit: Timeout,
    interrupted: impl FnMut() -> bool + Clone + Send + Sync + 'static,
) -> Result<(Endpoint, Anchor), Fault> {
    with(vm, Some(slot), || vm.bind_additional_backup_by(slot, limit, interrupted.clone()))
}

fn with(
    vm: &Vm,
    slot: Option<i32>,
    bind: impl Fn() -> Result<Endpoint, BindError>,
) -> Result<(Endpoint, Anchor), Fault> {
    let known = firsts().share(None);
    if let Some(anchor) = known {
        match bind() {
            Ok(endpoint) => return Ok((endpoint, anchor)),
            // The process is bound in another VM, or this VM is a new one.
            Err(BindError::ProcessUnbound(_)) => {
                let anchor = make(vm, slot, Some(&anchor))?;
                return Ok((bind()?, anchor));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let anchor = make(vm, slot, None)?;
    Ok((bind()?, anchor))
}

/// Binds the first endpoint, in place of this one.
fn make(vm: &Vm, asked: Option<i32>, useless: Option<&Anchor>) -> Result<Anchor, BindError> {
    let mut firsts = firsts();
    // Another thread may have made it meanwhile.
    if let Some(anchor) = firsts.share(useless) {
        return Ok(anchor);
    }
    let endpoint = vm.bind_anchor(asked)?;
    let number = firsts.next;
    firsts.next += 1;
    firsts.present = Some(First { _endpoint: endpoint, number, users: 1 });
    Ok(Anchor { number, generation: m3ipc_sys::fork_generation() })
}
