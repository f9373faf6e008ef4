//! The first endpoint of the process in its VM.
//!
//! All endpoints of a process end with its first one. No endpoint of a Python program may end
//! others: objects end in any order, and endpoints move to other nodes. So the first one belongs to
//! no object. It exchanges no messages, never moves, and ends with the last object.

use crate::error::Fault;
use m3ipc::{BindError, Endpoint, Timeout, Vm};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Keeps the first endpoint.
#[derive(Debug)]
pub struct Anchor {
    _first: Mutex<Endpoint>,
}

static ANCHOR: Mutex<Weak<Anchor>> = Mutex::new(Weak::new());

/// Binds an endpoint of this process, to this slot or to any.
pub fn bind(vm: &Vm, slot: Option<i32>) -> Result<(Endpoint, Arc<Anchor>), Fault> {
    with(vm, slot, || vm.bind_additional(slot))
}

/// Waits as the backup of this slot, and binds an endpoint there. The process is bound during the
/// wait already: what keeps it from a bind is an error at once, and not when the place is free.
pub fn bind_backup(
    vm: &Vm,
    slot: i32,
    limit: Timeout,
    interrupted: impl FnMut() -> bool + Clone + Send + Sync + 'static,
) -> Result<(Endpoint, Arc<Anchor>), Fault> {
    with(vm, Some(slot), || vm.bind_additional_backup_by(slot, limit, interrupted.clone()))
}

fn with(
    vm: &Vm,
    slot: Option<i32>,
    bind: impl Fn() -> Result<Endpoint, BindError>,
) -> Result<(Endpoint, Arc<Anchor>), Fault> {
    let known = ANCHOR.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
    if let Some(anchor) = &known {
        match bind() {
            Ok(endpoint) => return Ok((endpoint, Arc::clone(anchor))),
            // The process is bound in another VM, or this VM is a new one.
            Err(BindError::ProcessUnbound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let anchor = make(vm, slot, known.as_ref())?;
    Ok((bind()?, anchor))
}

/// Binds the first endpoint, in place of this one.
fn make(
    vm: &Vm,
    asked: Option<i32>,
    useless: Option<&Arc<Anchor>>,
) -> Result<Arc<Anchor>, BindError> {
    let mut latest = ANCHOR.lock().unwrap_or_else(PoisonError::into_inner);
    // Another thread may have made it meanwhile.
    if let Some(anchor) = latest.upgrade()
        && useless.is_none_or(|useless| !Arc::ptr_eq(useless, &anchor))
    {
        return Ok(anchor);
    }
    let anchor = Arc::new(Anchor { _first: Mutex::new(vm.bind_anchor(asked)?) });
    *latest = Arc::downgrade(&anchor);
    Ok(anchor)
}
