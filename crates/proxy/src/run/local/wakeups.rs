//! Wakeups that cross nodes. The daemon of each node judges and wakes; the proxies carry.

use super::super::network::Clock;
use super::{Local, endpoint};
use m3ipc::{Address, Code, NodeError};
use m3ipc_fabric::{
    Call, CallId, CallKind, CallRefusal, Content, DeliveryId, EndpointId, Machine, Outcome,
};

impl Local {
    /// A local endpoint wakes a remote one.
    pub(super) fn begin_wakeup(
        &mut self,
        number: u64,
        (vm, from, address): (i32, i32, i32),
        machine: &mut Machine,
        clock: &Clock,
    ) -> Result<(), NodeError> {
        let Some(from) = endpoint(vm, from) else {
            return self.proxy.woken(number, Code::Endpoint.number());
        };
        let to = EndpointId::new(from.vm, Address(address));
        let (kind, content) = (CallKind::Wakeup, Content::new(0));
        // The other proxy ends it at once, whatever its endpoint does.
        let user = None;
        let call = Call { from, to: to.address, kind, user, content, limit_ns: None };
        let code = match machine.call(clock.now_ns(), call) {
            Ok(call) => {
                self.wakeups.insert(call, number);
                return Ok(());
            }
            Err(CallRefusal::Full(_) | CallRefusal::Share(_)) => Code::Busy,
            Err(CallRefusal::LinkDown(_)) => Code::NotConn,
            // The slot has come to this node just now.
            Err(CallRefusal::Local) if self.owners.backup(to).is_some() => Code::Migrate,
            Err(CallRefusal::NoEndpoint | CallRefusal::Local | CallRefusal::TooLong(_)) => {
                Code::Endpoint
            }
        };
        self.proxy.woken(number, code.number())
    }

    /// A call that is none of a message has ended.
    pub(super) fn end_wakeup(&mut self, call: CallId, outcome: &Outcome) {
        let Some(number) = self.wakeups.remove(&call) else { return };
        let code = match outcome {
            Outcome::Done(code) => *code,
            Outcome::NotDelivered(why) => why.code_before().number(),
            _ => Code::Unknown.number(),
        };
        // A daemon that is gone ends this proxy's turn at its next request.
        let _ = self.proxy.woken(number, code);
    }

    /// Wakes a local endpoint in the name of a remote one.
    pub(super) fn wake(
        &mut self,
        number: DeliveryId,
        from: EndpointId,
        to: Address,
        machine: &mut Machine,
        clock: &Clock,
    ) {
        let Some(entry) = self.stand_ins.get_mut(&from) else { return };
        machine.done(clock.now_ns(), number, entry.stand_in.wakeup(to).err());
    }
}
