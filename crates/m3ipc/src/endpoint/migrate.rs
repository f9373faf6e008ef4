//! The move of an endpoint to another node.

use super::Endpoint;
use crate::control::Decided;
use crate::error::{Fail, NodeError};
use crate::timeout::Timeout;
use m3ipc_abi::Code;
use m3ipc_wire::Request;

impl Endpoint {
    /// Moves this endpoint to the other node that the registry names for its slot, where a program
    /// waits in [`bind_backup`](crate::Vm::bind_backup). It keeps its address. Answer first what
    /// was taken: other requests end with -108. What was not taken waits at its node for the new
    /// endpoint; callers of this node and of the other one get -332, and call again. The endpoint
    /// has ended here afterwards. The state of the program does not move.
    ///
    /// The proxies of both nodes may be stopped: the call takes 3 seconds at most while the daemon
    /// runs, and [`migrate_timeout`](Self::migrate_timeout) has an earlier limit. A signal ends it
    /// if a hook says so ([`interrupt_by`](Self::interrupt_by)).
    ///
    /// # Errors
    /// [`NodeError`]; nothing has moved, and nothing moves later. No proxy -307; the registry names
    /// no other node -316; no connection to it, no decision of the proxy here, or the daemon has
    /// died meanwhile -64; the proxy does not know the endpoint yet -11; a signal -4.
    ///
    /// After -310 the endpoint has ended, perhaps by the move: its daemon has died before it said
    /// so. After -501 the daemon is silent, and nobody knows whether the endpoint moves:
    /// [`is_bound`](Self::is_bound) tells when the daemon goes on.
    pub fn migrate(&mut self) -> Result<(), NodeError> {
        self.migrate_timeout(Timeout::Never)
    }

    /// As [`migrate`](Self::migrate), within a time limit: -61 says that nothing has moved, and
    /// nothing moves later. The daemon has 1.5 seconds more to say so.
    ///
    /// ```
    /// # let node = m3ipc::test::node();
    /// # let (mut server, _client) = node.pair();
    /// use std::time::Duration;
    ///
    /// let moved = server.migrate_timeout(Duration::from_millis(100));
    /// assert_eq!(moved.unwrap_err().code(), m3ipc::Code::NoProxy, "there is one node");
    /// assert!(server.is_bound());
    /// ```
    ///
    /// # Errors
    /// -61, and those of [`migrate`](Self::migrate).
    pub fn migrate_timeout(&mut self, limit: impl Into<Timeout>) -> Result<(), NodeError> {
        self.membership.check_bound()?;
        let deadline = limit.into().deadline();
        self.disarm();
        let (interruption, mut is_interrupted) = (self.waiter.interruption(), false);
        let ends = || {
            is_interrupted = interruption.is_due();
            is_interrupted
        };
        let decided = self.session.control_mut().request_decided(&Request::Move, deadline, ends);
        if decided.as_ref().is_err_and(|fail| fail.code == Code::NotConn) {
            // The address may be that of another endpoint by now: a drop must not unbind it.
            self.reattach_if_closed();
            self.membership.check_bound()?;
        }
        match decided? {
            Decided::Answered(_) => {}
            Decided::GivenUp(_) if is_interrupted => {
                return Err(
                    Fail::new(Code::Intr, "nothing has moved: a signal ended the call").into()
                );
            }
            Decided::GivenUp(why) => {
                let is_own_limit = m3ipc_sys::monotonic_ns() >= deadline.at_ns;
                let code = if is_own_limit { Code::TimedOut } else { Code::NotConn };
                return Err(Fail::new(code, format!("nothing has moved: {why}")).into());
            }
            Decided::Unknown(why) => {
                let why = format!(
                    "nobody knows whether the endpoint moves: {why}; if it has moved, its next \
                     call fails with -310"
                );
                return Err(Fail::new(Code::Unknown, why).into());
            }
        }
        self.end_inheritance();
        crate::observe::unbound(self.membership.vm(), self.membership.address());
        self.membership.end(Code::Shutdown);
        Ok(())
    }
}
