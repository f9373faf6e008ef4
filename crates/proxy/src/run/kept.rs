//! Held messages with a large payload for which the machine has no room.
//!
//! Such a message cannot go back into its slot: its block was accepted. So it waits here. There are
//! few of them: a look holds none for which there is no room when it finds it.

use m3ipc::Address;
use m3ipc_fabric::{Call, CallId, CallRefusal, EndpointId, Machine};

/// A message that waits: its stand-in, its sender, its call.
type Waiting = (EndpointId, Address, Call);

/// All messages that wait.
#[derive(Debug, Default)]
pub struct Kept(Vec<Waiting>);

impl Kept {
    /// A message waits.
    pub fn add(&mut self, stand_in: EndpointId, sender: Address, call: Call) {
        self.0.push((stand_in, sender, call));
    }

    /// Calls for which there is room now, with their ends. Those that must wait still do.
    pub fn retry(
        &mut self,
        machine: &mut Machine,
        now_ns: u64,
        must_wait: impl Fn(EndpointId, Address) -> bool,
    ) -> Vec<(EndpointId, Address, Result<CallId, CallRefusal>)> {
        let mut called = Vec::new();
        for (stand_in, sender, call) in std::mem::take(&mut self.0) {
            if must_wait(stand_in, sender) {
                self.0.push((stand_in, sender, call));
                continue;
            }
            // A try that fails copies no payload.
            match machine.may_call(now_ns, &call) {
                Err(CallRefusal::Full(_) | CallRefusal::Share(_)) => {
                    self.0.push((stand_in, sender, call));
                }
                Err(refusal) => called.push((stand_in, sender, Err(refusal))),
                Ok(node) => called.push((stand_in, sender, Ok(machine.begin_call(node, call)))),
            }
        }
        called
    }

    /// The sender gives its message up, or has died. Whether it was here.
    pub fn remove(&mut self, stand_in: EndpointId, sender: Address) -> bool {
        let before = self.0.len();
        self.0.retain(|(id, from, _)| (*id, *from) != (stand_in, sender));
        self.0.len() < before
    }

    /// A stand-in has ended. The senders of its messages.
    pub fn forget(&mut self, stand_in: EndpointId) -> Vec<Address> {
        let (of_it, others) =
            std::mem::take(&mut self.0).into_iter().partition(|it| it.0 == stand_in);
        self.0 = others;
        let of_it: Vec<Waiting> = of_it;
        of_it.into_iter().map(|(_, sender, _)| sender).collect()
    }
}
