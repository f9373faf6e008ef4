//! Dropped endpoints that a daemon may not have unbound.
//!
//! A daemon that is killed, stopped or busy does not answer the drop of an endpoint. A thread then
//! asks on. Until it has an answer, the slot is taken by an endpoint that the program has given
//! up; so a bind of this process that finds its slot taken ends such endpoints first.

use super::retries::retry_on_daemon_death;
use crate::control::{Control, IfAbsent};
use m3ipc_abi::Code;
use m3ipc_sys::PerProcess;
use m3ipc_wire::Request;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The pauses between the tries of a thread, in milliseconds: 144 s in all.
const PAUSES: [u64; 12] = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 0];

/// The endpoints of this process that are leaving.
static LEAVING: PerProcess<Mutex<Vec<Arc<Leaving>>>> = PerProcess::new();

/// A dropped endpoint that a daemon may not have unbound.
#[derive(Debug)]
pub(super) struct Leaving {
    directory: PathBuf,
    reattach: Request,
    unbind: Request,
    /// Whether a daemon has answered. Locked during a try.
    has_left: Mutex<bool>,
}

/// The endpoints of this process that are leaving the node of this directory.
pub(super) fn all_in(directory: &Path) -> Vec<Arc<Leaving>> {
    all().iter().filter(|endpoint| endpoint.directory == directory).cloned().collect()
}

/// Tries to end them now; `true` if a daemon has answered about one of them.
pub(super) fn end_some(leaving: &[Arc<Leaving>]) -> bool {
    let end = |endpoint: &&Arc<Leaving>| {
        let has_left = endpoint.leave(IfAbsent::Revive);
        if has_left {
            forget(endpoint);
        }
        has_left
    };
    leaving.iter().filter(end).count() > 0
}

fn forget(endpoint: &Arc<Leaving>) {
    all().retain(|other| !Arc::ptr_eq(other, endpoint));
}

fn all() -> MutexGuard<'static, Vec<Arc<Leaving>>> {
    LEAVING.get().lock().unwrap_or_else(PoisonError::into_inner)
}

impl Leaving {
    pub(super) fn new(directory: PathBuf, reattach: Request, unbind: Request) -> Self {
        Self { directory, reattach, unbind, has_left: Mutex::new(false) }
    }

    /// Tries once; whether a daemon has answered now or before.
    pub(super) fn leave(&self, if_absent: IfAbsent) -> bool {
        let mut has_left = self.has_left.lock().unwrap_or_else(PoisonError::into_inner);
        *has_left = *has_left || self.unbind(if_absent);
        *has_left
    }

    /// Tries in a thread until a daemon has answered. Later tries than the first start no daemon:
    /// who needs one does. Without a thread, and behind its last try, a bind of this process tries,
    /// or the daemon learns of the end of this process.
    pub(super) fn leave_late(self, first: IfAbsent) {
        let leaving = Arc::new(self);
        all().push(Arc::clone(&leaving));
        let go_on = move || {
            let mut if_absent = first;
            for pause in PAUSES {
                if leaving.leave(if_absent) {
                    return forget(&leaving);
                }
                if_absent = IfAbsent::Fail;
                std::thread::sleep(Duration::from_millis(pause));
            }
        };
        let _ = std::thread::Builder::new().name("m3ipc-unbind".to_owned()).spawn(go_on);
    }

    /// Unbinds the endpoint at the daemon of now, or at the next one that lives. The endpoint may
    /// have ended meanwhile, and its address be that of another one: only an endpoint that this
    /// process gets back is its own. `false` if no daemon has answered.
    fn unbind(&self, if_absent: IfAbsent) -> bool {
        let unbound = retry_on_daemon_death(|| {
            let mut next = Control::connect(&self.directory, if_absent)?;
            next.request_soon(&self.reattach, u64::MAX)?;
            next.request_soon(&self.unbind, u64::MAX).map(drop)
        });
        unbound.map_or_else(|fail| fail.code == Code::NotBind, |()| true)
    }
}
