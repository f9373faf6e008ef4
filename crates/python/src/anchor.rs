//! The first endpoint of the process in its VM.
//!
//! All endpoints of a process end with its first one. No endpoint of a Python program may end
//! others: objects end in any order. So the first one belongs to no object. It exchanges no
//! messages, and ends with the last object.

use crate::error::Fault;
use m3ipc::{BindError, Endpoint, Vm};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Keeps the first endpoint.
#[derive(Debug)]
pub struct Anchor {
    _first: Mutex<Endpoint>,
}

static ANCHOR: Mutex<Weak<Anchor>> = Mutex::new(Weak::new());

/// Binds an endpoint of this process, to this slot or to any.
pub fn bind(vm: &Vm, slot: Option<i32>) -> Result<(Endpoint, Arc<Anchor>), Fault> {
    let mut latest = ANCHOR.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(anchor) = latest.upgrade() {
        match vm.bind_additional(slot) {
            Ok(endpoint) => return Ok((endpoint, anchor)),
            // The process is bound in another VM, or this VM is a new one.
            Err(BindError::ProcessUnbound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let anchor = Arc::new(Anchor { _first: Mutex::new(vm.bind_any()?) });
    let endpoint = vm.bind_additional(slot)?;
    *latest = Arc::downgrade(&anchor);
    Ok((endpoint, anchor))
}
