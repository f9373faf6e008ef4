//! The invariants that hold after every step.

use m3ipc_abi::Address;

use super::machine::{Machine, State};
use super::op::Source;
use crate::cycle;

/// A broken invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// An endpoint waits for an endpoint that does not live.
    WaitsForDead {
        /// The waiting endpoint.
        who: Address,
        /// The dead endpoint.
        dead: Address,
    },
    /// A sender waits, and its receiver waits for this message.
    Missed {
        /// The sender.
        sender: Address,
        /// The receiver.
        receiver: Address,
    },
    /// An endpoint waits although its pending notification or pulse would end the wait.
    NotificationMissed(Address),
    /// An endpoint waits in receive(ANY) although it has a remembered wakeup.
    WakeupMissed(Address),
    /// The source of a pending notification or pulse does not live.
    NotifiedByDead(Address),
    /// A cycle of waiting endpoints.
    Cycle(Vec<Address>),
}

impl Machine {
    /// Checks every invariant.
    ///
    /// # Errors
    /// The first broken invariant.
    pub fn check(&self) -> Result<(), Violation> {
        let waiters = self.waiters();
        for endpoint in self.endpoints.values() {
            let (who, state) = (endpoint.address, endpoint.state);
            if let Some(dead) =
                waits_for(state).filter(|peer| self.address(peer.slot()) != Some(*peer))
            {
                return Err(Violation::WaitsForDead { who, dead });
            }
            if let Some(sender) = self.first_sender(who, state) {
                return Err(Violation::Missed { sender, receiver: who });
            }
            for slot in endpoint.notifying() {
                match self.address(slot) {
                    None => return Err(Violation::NotifiedByDead(who)),
                    Some(source) if state.takes_notification(source) => {
                        return Err(Violation::NotificationMissed(who));
                    }
                    Some(_) => {}
                }
            }
            if endpoint.woken && matches!(state, State::Receiving { src: Source::Any, .. }) {
                return Err(Violation::WakeupMissed(who));
            }
            if let Some(members) = cycle::deadlock_of(who, &waiters) {
                return Err(Violation::Cycle(members));
            }
        }
        Ok(())
    }
}

const fn waits_for(state: State) -> Option<Address> {
    match state {
        State::Sending { dst, .. }
        | State::Awaiting { dst, .. }
        | State::AwaitingUnbind { dst } => Some(dst),
        State::Receiving { src: Source::From(src), .. } => Some(src),
        State::Running | State::Receiving { src: Source::Any, .. } => None,
    }
}
