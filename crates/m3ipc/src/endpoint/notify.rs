//! notify: one bit per source; never waits, repeats coalesce.

use super::{At, Endpoint, Trap};
use crate::error::{Fail, NotifyError};
use crate::timeout::Timeout;
use m3ipc_abi::{Address, Code};
use m3ipc_link::{Counter, TraceWhat};
use m3ipc_wire::{PeerInfo, Request};

impl Endpoint {
    /// Notifies an endpoint: remembered there until it receives.
    ///
    /// # Errors
    /// [`NotifyError`].
    pub fn notify(&mut self, to: Address) -> Result<(), NotifyError> {
        self.notify_set(to, 0)
    }

    /// The same with a set of pending bits, which join those not yet received.
    /// Delivered where this endpoint is HARDWARE or SYSTEM, ignored else.
    ///
    /// # Errors
    /// [`NotifyError`].
    pub fn notify_set(&mut self, to: Address, bits: u64) -> Result<(), NotifyError> {
        self.notify_bits(to, bits).map_err(|fail| NotifyError::of(fail, to))
    }

    fn notify_bits(&mut self, to: Address, bits: u64) -> Result<(), Fail> {
        self.enter(Trap::Notify)?;
        let index = loop {
            match self.contact(to, Timeout::Now.deadline()) {
                Err(fail) if fail.code == Code::Again => {}
                other => break other?,
            }
            // It has not come to this daemon yet, which remembers for it.
            let request = Request::Notify { destination: to.0, bits };
            match self.ask_daemon(&request) {
                Err(fail) if fail.code == Code::Again => {}
                other => return other.map(|_| self.desk.count(Counter::Notified)),
            }
        };
        let peer = self.peers.get(index);
        peer.check(Code::DstDied)?;
        if peer.may_send & PeerInfo::MAY_NOTIFY == 0 {
            return Err(Code::CallDenied.into());
        }
        self.stamp(At::Ready);
        self.peers.get(index).link.notify(bits);
        self.stamp(At::Published);
        self.alert(index, true);
        self.trace_unnumbered(index, TraceWhat::Notify, 0);
        self.desk.count(Counter::Notified);
        Ok(())
    }

    /// Whether an endpoint has taken what this one notified it of; false where the node daemon keeps it, because the other has not come back to
    /// it yet, and where it was never notified.
    #[must_use]
    pub fn is_notification_taken(&self, by: Address) -> bool {
        self.peers.find(by).is_some_and(|index| self.peers.get(index).link.is_notification_taken())
    }

    /// Notifies in another's name (src_notify): for the VM's owner.
    ///
    /// # Errors
    /// [`NotifyError`].
    pub fn notify_for(&mut self, source: Address, to: Address) -> Result<(), NotifyError> {
        let request = Request::NotifyFor { source: source.0, destination: to.0 };
        self.ask_daemon(&request).map(drop).map_err(|fail| NotifyError::of(fail, to))
    }
}
