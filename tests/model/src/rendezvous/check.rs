//! What must hold after every step.

use m3ipc_abi::Address;

use super::machine::{Machine, State};
use super::op::Source;
use crate::deadlock;

/// A rule found broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Somebody waits for an endpoint that does not live.
    WaitsForDead {
        /// Who.
        who: Address,
        /// For whom.
        dead: Address,
    },
    /// A sender waits, and its receiver waits for just that.
    Missed {
        /// The sender.
        sender: Address,
        /// The receiver.
        receiver: Address,
    },
    /// Somebody waits with a notification pending that would end the wait.
    NotificationMissed(Address),
    /// Somebody waits in receive(ANY) with a wakeup remembered.
    WakeupMissed(Address),
    /// A notification of nobody is pending.
    NotifiedByNobody(Address),
    /// A circle of waiting endpoints.
    Cycle(Vec<Address>),
}

impl Machine {
    /// Checks every invariant of the state.
    ///
    /// # Errors
    /// The first one found broken.
    pub fn check(&self) -> Result<(), Violation> {
        let records = self.blocked();
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
            for slot in &endpoint.notified {
                match self.address(*slot) {
                    None => return Err(Violation::NotifiedByNobody(who)),
                    Some(source) if state.takes_notification(source) => {
                        return Err(Violation::NotificationMissed(who));
                    }
                    Some(_) => {}
                }
            }
            if endpoint.woken && matches!(state, State::Receiving { src: Source::Any, .. }) {
                return Err(Violation::WakeupMissed(who));
            }
            if let Some(cycle) = deadlock::closes_cycle(who, &records) {
                return Err(Violation::Cycle(cycle.members));
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
